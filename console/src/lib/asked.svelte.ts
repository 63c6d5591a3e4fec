// Statements of the query page and their results. They outlive the page: after visiting another page, the result or the
// running statement is still there.

import { ApiError } from "./api";
import { isNode, isPath, isRelationship, type Json } from "./json";
import { run, type Result } from "./query";
import { catalog, load, loadMine, saveMine, session } from "./state.svelte";

export type View = "graph" | "table" | "json" | "plan";
export interface Past {
  text: string;
  at: number;
  ms: number;
  ok: boolean;
}
export interface Statement {
  from: number;
  to: number;
  text: string;
}

const MOST_HISTORY = 200;

export function holdsGraph(value: Json): boolean {
  return isNode(value) || isRelationship(value) || isPath(value) || (Array.isArray(value) && value.slice(0, 20).some(holdsGraph));
}

class Asked {
  result = $state.raw<Result | null>(null);
  steps = $state.raw<{ text: string; result: Result }[]>([]);
  problem = $state.raw<{ message: string; kind: string } | null>(null);
  running = $state.raw<AbortController | null>(null);
  progress = $state(0);
  /** Running time of the current statements in seconds. */
  elapsed = $state(0);
  view = $state<View>("table");
  past = $state.raw<Past[]>([]);
  parameters = $state("");
  withParameters = $state(false);
  private owner = "";

  /** Resets for another user or another database. */
  open(): void {
    const owner = JSON.stringify([session.me?.user, session.database]);
    if (owner === this.owner) return;
    this.close();
    this.owner = owner;
    this.past = loadMine<Past[]>("history") ?? [];
  }

  /** Clears everything, as at a logout, and cancels running statements. */
  close(): void {
    this.owner = "";
    this.running?.abort();
    this.running = null;
    this.result = null;
    this.steps = [];
    this.problem = null;
    this.view = "table";
    this.parameters = "";
    this.withParameters = false;
    this.past = [];
  }

  /** Runs statements one after the other up to the first error, which `onfail` receives with its statement. */
  async execute(all: Statement[], lead: string, onfail: (at: Statement, message: string) => void): Promise<void> {
    const { owner } = this;
    const stop = new AbortController();
    this.running = stop;
    this.problem = null;
    this.progress = 0;
    this.elapsed = 0;
    const done: { text: string; result: Result }[] = [];
    let current = all[0]!;
    let problem: { message: string; kind: string } | null = null;
    const began = performance.now();
    const clock = setInterval(() => {
      if (this.running === stop) this.elapsed = Math.floor((performance.now() - began) / 1000);
    }, 250);
    try {
      for (current of all) {
        const asked = lead && !/^\s*(?:EXPLAIN|PROFILE)\b/i.test(current.text) ? `${lead} ${current.text}` : current.text;
        const onProgress = (rows: number): void => {
          if (this.running === stop) this.progress = rows;
        };
        done.push({ text: current.text, result: await run(session.database, asked, this.withParameters ? this.parameters : "", { signal: stop.signal, onProgress }) });
      }
    } catch (error) {
      const stopped = error instanceof DOMException && error.name === "AbortError";
      problem = { message: stopped ? "The statement was cancelled" : (error as Error).message, kind: error instanceof ApiError ? error.kind : "" };
      if (!stopped && this.owner === owner) onfail(current, problem.message);
    }
    clearInterval(clock);
    // The result of another user's statement, or of another database's, is not shown.
    if (this.owner !== owner) return;
    this.remember(all.map((one) => one.text).join(";\n"), performance.now() - began, problem === null);
    this.running = null;
    this.problem = problem;
    this.steps = done;
    this.show(done.at(-1)?.result ?? null);
    if (done.some((one) => one.result.class !== "read")) catalog.refresh();
  }

  show(next: Result | null): void {
    this.result = next;
    if (!next) return;
    const graph = next.rows.slice(0, 200).some((row) => row.some(holdsGraph));
    if (next.plan !== undefined) this.view = "plan";
    else if (graph && (this.view === "plan" || (this.view === "table" && (load<string>("view") ?? "graph") === "graph"))) this.view = "graph";
    else if (!graph && this.view === "graph") this.view = "table";
    else if (this.view === "plan") this.view = "table";
  }

  forget(): void {
    this.past = [];
    saveMine("history", this.past);
  }

  private remember(text: string, ms: number, ok: boolean): void {
    if (text.length > 20_000) return;
    this.past = [{ text, at: Date.now(), ms, ok }, ...this.past.filter((one) => one.text !== text)].slice(0, MOST_HISTORY);
    saveMine("history", this.past);
  }
}
export const asked = new Asked();
