// State shared by all pages: the user, the selected database, its catalog, and the theme.

import * as api from "./api";
import { isMap, type Json } from "./json";
import { run } from "./query";

export type PageName = "query" | "browse" | "schema" | "import" | "monitor" | "access";
export const PAGES: { name: PageName; title: string; icon: string; about: string }[] = [
  { name: "query", title: "Query", icon: "terminal", about: "Query and update in openCypher" },
  { name: "browse", title: "Data", icon: "layers", about: "Documents, nodes, keys and files" },
  { name: "schema", title: "Schema", icon: "shape", about: "Labels, types, indexes, constraints" },
  { name: "import", title: "Import", icon: "upload", about: "CSV and JSON into the graph" },
  { name: "monitor", title: "Monitor", icon: "pulse", about: "Running queries, live metrics, changes" },
  { name: "access", title: "Access", icon: "key", about: "Users, tokens, databases" },
];

const ORDER: api.Role[] = ["reader", "editor", "schema", "replica", "admin"];

class Session {
  me = $state<api.Me | null>(null);
  ready = $state(false);
  setupToken = $state("");
  database = $state("");

  get role(): api.Role | null {
    return this.me?.databases.find((one) => one.database === this.database)?.role ?? null;
  }
  may(role: api.Role): boolean {
    return this.role !== null && ORDER.indexOf(this.role) >= ORDER.indexOf(role);
  }
  async load(): Promise<void> {
    try {
      this.me = await api.me();
      const names = this.me.databases.map((one) => one.database);
      const before = this.database || (load<string>("database") ?? "");
      const first = this.me.databases.find((one) => one.open)?.database;
      this.database = names.includes(before) ? before : (first ?? names[0] ?? "");
    } catch {
      this.me = null;
    }
    this.ready = true;
  }
  choose(database: string): void {
    this.database = database;
    save("database", database);
  }
}
export const session = new Session();
api.whenLoggedOut(() => (session.me = null));

export interface Catalog {
  labels: { name: string; count: number }[];
  types: { name: string; count: number }[];
  properties: string[];
  buckets: { name: string; multi: boolean }[];
  functions: { name: string; signature: string; description: string }[];
  procedures: { name: string; signature: string; description: string }[];
}
const NOTHING: Catalog = { labels: [], types: [], properties: [], buckets: [], functions: [], procedures: [] };

class LiveCatalog {
  current = $state<Catalog>(NOTHING);
  private asked = 0;

  /** Reloads the catalog. Parts that the user may not read stay empty. */
  async refresh(): Promise<void> {
    const asked = ++this.asked;
    const database = session.database;
    if (!database) {
      this.current = NOTHING;
      return;
    }
    const rows = async (text: string): Promise<Json[][]> => (await run(database, text).catch(() => null))?.rows ?? [];
    const [labels, types, properties, buckets, functions, procedures] = await Promise.all([
      rows("SHOW LABELS"),
      rows("SHOW TYPES"),
      rows("SHOW PROPERTIES"),
      api.get(api.path`/v1/databases/${database}/buckets`).catch(() => ({ buckets: [] as Json[] })),
      this.current.functions.length ? null : rows("SHOW FUNCTIONS YIELD name, signature, description"),
      this.current.procedures.length ? null : rows("SHOW PROCEDURES YIELD name, signature, mode, description"),
    ]);
    if (asked !== this.asked) return;
    const counted = (row: Json[]): { name: string; count: number } => ({ name: String(row[0]), count: Number(row[1]) });
    this.current = {
      labels: labels.map(counted),
      types: types.map(counted),
      properties: properties.map((row) => String(row[0])),
      buckets: (buckets.buckets as Json[]).filter(isMap).map((one) => ({ name: String(one.bucket), multi: one.multi === true })),
      functions: functions?.map((row) => ({ name: String(row[0]), signature: String(row[1]), description: String(row[2] ?? "") })) ?? this.current.functions,
      procedures: procedures?.map((row) => ({ name: String(row[0]), signature: String(row[1]), description: String(row[3] ?? "") })) ?? this.current.procedures,
    };
  }
}
export const catalog = new LiveCatalog();

// ── The current page: #/query, #/browse/label/Person ──

class Place {
  parts = $state<string[]>([]);
  get page(): PageName {
    const name = this.parts[0];
    return PAGES.find((page) => page.name === name)?.name ?? "query";
  }
  read(): void {
    const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
    try {
      this.parts = parts.map(decodeURIComponent);
    } catch {
      this.parts = [];
    }
  }
  go(...parts: string[]): void {
    location.hash = "#/" + parts.map(encodeURIComponent).join("/");
  }
}
export const place = new Place();

// ── Stored in this browser: preferences, history, favourites; never a password or a token ──
//
// The history is stored per user and deleted at the logout; favourites are stored per user and stay.

const mine = (name: string): string => `${name}.${session.me?.user ?? ""}`;
export const loadMine = <T>(name: string): T | null => load<T>(mine(name));
export const saveMine = (name: string, value: unknown): void => save(mine(name), value);
export function forgetMine(user: string): void {
  for (const name of ["history", "draft"]) {
    try {
      localStorage.removeItem(`isomer.${name}.${user}`);
      // Stored by earlier versions without a user.
      localStorage.removeItem(`isomer.${name}`);
    } catch {
      // The browser does not allow storage.
    }
  }
}

export function load<T>(name: string): T | null {
  try {
    const text = localStorage.getItem("isomer." + name);
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
  }
}
export function save(name: string, value: unknown): void {
  try {
    localStorage.setItem("isomer." + name, JSON.stringify(value));
  } catch {
    // The browser does not allow storage: nothing is stored.
  }
}

export type Theme = "auto" | "light" | "dark";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
class Look {
  theme = $state<Theme>(load<Theme>("theme") ?? "auto");
  private system = $state(systemDark.matches);
  constructor() {
    systemDark.addEventListener("change", () => (this.system = systemDark.matches));
  }
  apply(): void {
    document.documentElement.dataset.theme = this.theme;
  }
  set(theme: Theme): void {
    this.theme = theme;
    save("theme", theme);
    this.apply();
  }
  get dark(): boolean {
    return this.theme === "dark" || (this.theme === "auto" && this.system);
  }
}
export const look = new Look();

/** The next statement of the query page, set by other pages. */
export const handover = $state({ text: "", run: false });

export interface Toast {
  id: number;
  text: string;
  bad: boolean;
}
export const toasts = $state<Toast[]>([]);
let toastId = 0;
export function tell(text: string, bad = false): void {
  const id = ++toastId;
  toasts.push({ id, text: text.slice(0, 500), bad });
  setTimeout(() => dismiss(id), bad ? 9000 : 4000);
}
export function dismiss(id: number): void {
  const at = toasts.findIndex((toast) => toast.id === id);
  if (at >= 0) toasts.splice(at, 1);
}
export function tellError(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  tell(error instanceof Error ? error.message : String(error), true);
}

const NUMBER = new Intl.NumberFormat("en");
export const count = (value: number): string => NUMBER.format(value);
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at++;
  }
  return `${at === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${units[at]}`;
}
export function duration(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}
