// JSON as the server writes it, without losing anything: integers beyond 2^53 and the difference between 1 and 1.0.

/** A float without a fraction, which JavaScript cannot distinguish from an integer. */
export class Float {
  constructor(
    readonly value: number,
    readonly text: string,
  ) {}
}

export type NodeValue = {
  $node: number | bigint;
  labels: string[];
  properties: Record<string, Json>;
};
export type RelValue = {
  $relationship: number | bigint;
  type: string;
  source: number | bigint;
  target: number | bigint;
  properties: Record<string, Json>;
};
export type PathValue = {
  $path: Json[];
};
export type Json = null | boolean | number | bigint | string | Float | Json[] | { [name: string]: Json };

const DELICATE = /[0-9]{16}|[0-9]\.0+(?![0-9])|[0-9][eE]/;

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

const exact: Reviver = (_key, value, context) => {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined) return value;
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value) ? value : BigInt(source);
  return Number.isInteger(value) ? new Float(value, source) : value;
};

/** Parses a text exactly, if the browser provides the source text of numbers. */
export function parse(text: string): Json {
  return JSON.parse(text, DELICATE.test(text) ? (exact as (key: string, value: unknown) => unknown) : undefined) as Json;
}

export function isNode(value: Json | undefined): value is Json & NodeValue {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "$node" in value;
}
export function isRelationship(value: Json | undefined): value is Json & RelValue {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "$relationship" in value;
}
export function isPath(value: Json | undefined): value is Json & PathValue {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "$path" in value;
}
export function isMap(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Float);
}
export function isScalar(value: Json): boolean {
  return value === null || typeof value !== "object" || value instanceof Float;
}

/** Writes a value as JSON, `indent` spaces a level; truncated with … at `most` characters. */
export function stringify(value: Json, indent = 0, most = Infinity): string {
  const out: string[] = [];
  let length = 0;
  const put = (text: string): boolean => {
    out.push(text);
    length += text.length;
    return length <= most;
  };
  const write = (item: Json, level: number): boolean => {
    const line = indent > 0 ? "\n" + " ".repeat(indent * level) : "";
    const inner = indent > 0 ? "\n" + " ".repeat(indent * (level + 1)) : "";
    if (item === null || typeof item === "boolean" || typeof item === "number") return put(String(item));
    if (typeof item === "bigint") return put(item.toString());
    if (typeof item === "string") return put(JSON.stringify(item.length > most ? item.slice(0, most) : item));
    if (item instanceof Float) return put(item.text);
    const entries: [string, Json][] = Array.isArray(item) ? item.map((one) => ["", one]) : Object.entries(item);
    const [open, close] = Array.isArray(item) ? "[]" : "{}";
    if (entries.length === 0) return put(open! + close!);
    const flat = Array.isArray(item) && item.length <= 12 && item.every(isScalar);
    if (!put(open!)) return false;
    let first = true;
    for (const [name, one] of entries) {
      if (!put((first ? "" : flat && indent ? ", " : ",") + (flat ? "" : inner))) return false;
      first = false;
      if (!Array.isArray(item) && !put(JSON.stringify(name) + (indent > 0 ? ": " : ":"))) return false;
      if (!write(one, level + 1)) return false;
    }
    return put((flat ? "" : line) + close!);
  };
  const whole = write(value, 0);
  const text = out.join("");
  return whole ? text : text.slice(0, most) + " …";
}

/** A short form on one line, for a cell. */
export function brief(value: Json, most = 160): string {
  if (value === null) return "null";
  if (typeof value === "string") return value.length > most ? value.slice(0, most) + "…" : value;
  if (value instanceof Float) return value.text;
  if (typeof value !== "object") return String(value);
  if (isNode(value)) return caption(value.properties ?? {}) ?? `#${value.$node}`;
  if (isRelationship(value)) return value.type;
  if (isMap(value) && typeof value.$bytes === "string" && Object.keys(value).length === 1) {
    const padding = value.$bytes.endsWith("==") ? 2 : value.$bytes.endsWith("=") ? 1 : 0;
    return `${Math.max(0, (value.$bytes.length / 4) * 3 - padding)} bytes`;
  }
  return stringify(value, 0, most);
}

/** Properties that identify a record for people, the best one first. */
export const CAPTIONS = ["name", "title", "label", "username", "_key", "id", "key"];

/** The caption of a record. */
export function caption(properties: Record<string, Json>, wanted?: string): string | undefined {
  for (const name of wanted ? [wanted, ...CAPTIONS] : CAPTIONS) {
    const value = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (value !== undefined && value !== null && isScalar(value)) return brief(value, 40);
  }
  const first = Object.values(properties).find((value) => value !== null && isScalar(value));
  return first === undefined ? undefined : brief(first, 40);
}
