// Types of stored values, which JSON cannot represent: a date is shown as a string, a point as an object.

import { isMap, stringify, type Json } from "./json";
import { run } from "./query";

/** Location of a record or value. */
export type Source = { node: number | bigint } | { relationship: number | bigint } | { bucket: string; key: Json };

export interface Typed {
  /** Names and list indexes, as `address.since` or `tags[0]`; empty for the value itself. */
  path: string;
  type: string;
}

/** Most parts of one value whose types are requested. */
const MOST_PARTS = 200;

type Path = (string | number)[];

const isWhole = (value: Json): boolean =>
  !(Array.isArray(value) ? value.length : isMap(value) ? Object.keys(value).length && !("$bytes" in value) && !("crs" in value && "x" in value && "y" in value) : false);

/** The leaves of a value; points and bytes are one leaf. */
function leaves(value: Json): Path[] {
  const found: Path[] = [];
  const open: { value: Json; path: Path }[] = [{ value, path: [] }];
  while (open.length && found.length < MOST_PARTS) {
    const { value, path } = open.pop()!;
    if (isWhole(value)) found.push(path);
    else {
      const entries: [string | number, Json][] = Array.isArray(value) ? value.map((one, at) => [at, one]) : Object.entries(value as { [name: string]: Json });
      for (const [step, one] of entries.reverse()) open.push({ value: one, path: [...path, step] });
    }
  }
  return found;
}

const shown = (path: Path): string => path.reduce<string>((text, step) => text + (typeof step === "number" ? `[${step}]` : (text && ".") + step), "");

/** The types of the leaves of a stored value, whose JSON form is `value`; nulls are left out. */
export async function typesOf(database: string, source: Source, value: Json): Promise<Typed[]> {
  const paths = leaves(value);
  const root =
    "node" in source
      ? "MATCH (n) WHERE id(n) = $id WITH properties(n) AS root"
      : "relationship" in source
        ? "MATCH ()-[r]->() WHERE id(r) = $id WITH properties(r) AS root"
        : "WITH kv.get($bucket, $key) AS root";
  const given: Json = "bucket" in source ? { bucket: source.bucket, key: source.key } : { id: "node" in source ? source.node : source.relationship };
  const text = `${root} UNWIND $paths AS path RETURN valueType(reduce(part = root, step IN path | part[step])) AS type`;
  const found = await run(database, text, stringify({ ...given, paths }));
  return found.rows.map((row, at) => ({ path: shown(paths[at]!), type: String(row[0]) })).filter((one) => one.type !== "NULL");
}
