// Statements: splitting, sending, and streaming of rows.

import { ApiError, path, send } from "./api";
import { parse, type Json } from "./json";

/** Rows of one result that are kept; further rows are counted, not shown. */
export const MOST_ROWS = 10_000;
/** Characters of one result that are kept. */
const MOST_TEXT = 64 << 20;

export interface PlanNode {
  operator: string;
  details?: string;
  /** Role of its rows for the parent operator; absent for the input of a chain. */
  role?: string;
  rows?: number;
  actual_rows?: number;
  time_ms?: number;
  /** Time without that of its inputs, and of the fallback that ran in its place. */
  own_time_ms?: number;
  memory_bytes?: number;
  spilled_bytes?: number;
  from_view?: boolean;
  /** After PROFILE: whether it was asked for rows. */
  ran?: boolean;
  /** Whether its fallback ran in its place. */
  fell_back?: boolean;
  /** Of an exchange: the threads that ran the chain below it. */
  threads?: number;
  inputs?: PlanNode[];
  [other: string]: Json | PlanNode[] | undefined;
}

export interface Result {
  text: string;
  columns: string[];
  rows: Json[][];
  /** Number of rows, including those that are not kept. */
  count: number;
  /** Whether it was cancelled early because no more rows would be shown. */
  cut: boolean;
  class: string;
  counters: Record<string, number>;
  notices: string[];
  plan?: string;
  planTree?: PlanNode;
  tookMs: number;
}

/** The statements of a text, separated by `;` outside of strings, names and comments, with their positions. */
export function statements(text: string): { from: number; to: number; text: string }[] {
  const found: { from: number; to: number; text: string }[] = [];
  let from = 0;
  const end = (to: number): void => {
    const part = text.slice(from, to);
    if (part.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, "").trim() !== "") {
      const lead = part.length - part.trimStart().length;
      found.push({ from: from + lead, to: from + part.trimEnd().length, text: part.trim() });
    }
    from = to + 1;
  };
  let at = 0;
  while (at < text.length) {
    const c = text[at]!;
    if (c === ";") {
      end(at);
      at++;
    } else if (c === "'" || c === '"') {
      at++;
      while (at < text.length && text[at] !== c) at += text[at] === "\\" ? 2 : 1;
      at++;
    } else if (c === "`") {
      const close = text.indexOf("`", at + 1);
      at = close < 0 ? text.length : close + 1;
    } else if (text.startsWith("//", at)) {
      const close = text.indexOf("\n", at);
      at = close < 0 ? text.length : close + 1;
    } else if (text.startsWith("/*", at)) {
      const close = text.indexOf("*/", at + 2);
      at = close < 0 ? text.length : close + 2;
    } else at++;
  }
  end(text.length);
  return found;
}

/** Whether a statement is EXPLAIN or PROFILE. */
export function asksForPlan(text: string): boolean {
  return /^\s*(?:(?:\/\*[\s\S]*?\*\/|\/\/[^\n]*\n)\s*)*(?:EXPLAIN|PROFILE)\b/i.test(text);
}

/** Runs a statement. `parameters` is the text of a JSON object, which is sent unchanged. */
export async function run(
  database: string,
  text: string,
  parameters = "",
  options: { signal?: AbortSignal; onProgress?: (rows: number) => void } = {},
): Promise<Result> {
  const began = performance.now();
  const given = parameters.trim() === "" ? "{}" : parameters;
  let known: unknown;
  try {
    known = JSON.parse(given);
  } catch (error) {
    throw new ApiError(0, "Invalid", `the parameters are not valid JSON: ${(error as Error).message}`);
  }
  if (typeof known !== "object" || known === null || Array.isArray(known))
    throw new ApiError(0, "Invalid", 'the parameters are a JSON object: {"name": "value"}');
  const body = `{"query":${JSON.stringify(text)},"parameters":${given}}`;
  const plan = asksForPlan(text);
  const stop = new AbortController();
  const onAbort = (): void => stop.abort();
  if (options.signal?.aborted) stop.abort();
  options.signal?.addEventListener("abort", onAbort);
  try {
    const answer = await send(path`/v1/databases/${database}/query`, {
      method: "POST",
      body,
      type: "application/json",
      headers: { Accept: plan ? "application/json" : "application/jsonl" },
      signal: stop.signal,
    });
    const result = plan ? gathered(parse(await answer.text()) as unknown as Gathered, text) : await streamed(answer, text, stop, options.onProgress);
    result.tookMs = performance.now() - began;
    return result;
  } finally {
    options.signal?.removeEventListener("abort", onAbort);
  }
}

interface Gathered {
  columns: string[];
  rows: Json[][];
  class: string;
  counters: Record<string, number>;
  notices: string[];
  plan?: string;
  plan_tree?: { plan: PlanNode };
}

function empty(text: string): Result {
  return { text, columns: [], rows: [], count: 0, cut: false, class: "read", counters: {}, notices: [], tookMs: 0 };
}

function gathered(answer: Gathered, text: string): Result {
  return {
    ...empty(text),
    columns: answer.columns,
    rows: answer.rows.slice(0, MOST_ROWS),
    count: answer.rows.length,
    class: answer.class,
    counters: answer.counters,
    notices: answer.notices,
    ...(answer.plan === undefined ? {} : { plan: answer.plan }),
    ...(answer.plan_tree === undefined ? {} : { planTree: answer.plan_tree.plan }),
  };
}

async function streamed(answer: Response, text: string, stop: AbortController, onProgress?: (rows: number) => void): Promise<Result> {
  const result = empty(text);
  let kept = 0;
  let ended = false;
  let shown = performance.now();
  const line = (one: string): void => {
    if (one === "") return;
    if (one.startsWith("[")) {
      result.count++;
      if (result.rows.length < MOST_ROWS && kept < MOST_TEXT) {
        kept += one.length;
        result.rows.push(parse(one) as Json[]);
      }
      return;
    }
    const piece = parse(one) as unknown as { columns?: string[]; class?: string; summary?: Gathered; error?: { kind: string; message: string } };
    if (piece.columns) {
      result.columns = piece.columns;
      result.class = piece.class ?? "write";
    } else if (piece.error) {
      throw new ApiError(200, piece.error.kind, piece.error.message);
    } else if (piece.summary) {
      ended = true;
      result.counters = piece.summary.counters;
      result.notices = piece.summary.notices;
      result.class = piece.summary.class;
    }
  };
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    rest += value;
    let from = 0;
    for (let to = rest.indexOf("\n"); to >= 0; to = rest.indexOf("\n", from)) {
      line(rest.slice(from, to));
      from = to + 1;
    }
    rest = rest.slice(from);
    if (performance.now() - shown > 200) {
      shown = performance.now();
      onProgress?.(result.count);
    }
    // A reading statement can be cancelled; a writing one is committed only at its end.
    if (result.class === "read" && (result.rows.length < result.count || kept >= MOST_TEXT)) {
      result.cut = true;
      stop.abort();
      await reader.cancel().catch(() => {});
      return result;
    }
  }
  line(rest);
  if (!ended) throw new ApiError(0, "OutcomeUnknown", "the answer broke off: check whether its changes were committed");
  return result;
}

/** A name, quoted for a statement. */
export function quoted(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : "`" + name.replaceAll("`", "``") + "`";
}
