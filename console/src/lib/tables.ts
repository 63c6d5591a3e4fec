// Parsing of imported tables: CSV, TSV, JSON, JSON lines.

import { parse, stringify, type Json } from "./json";

export type Row = Record<string, Json>;
export interface Table {
  format: "csv" | "tsv" | "json" | "jsonl";
  columns: string[];
  rows: Row[];
  /** Errors with line numbers; such rows are left out. */
  problems: string[];
}

/** Fields of delimited text (RFC 4180), with the line where each record begins. */
export function* records(text: string, delimiter: string): Generator<{ line: number; fields: string[]; open: boolean }> {
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  let line = 1;
  while (at < text.length) {
    const began = line;
    const fields: string[] = [];
    let open = false;
    for (;;) {
      let field = "";
      if (text[at] === '"') {
        at++;
        for (;;) {
          const close = text.indexOf('"', at);
          if (close < 0) {
            field += text.slice(at);
            at = text.length;
            open = true;
            break;
          }
          field += text.slice(at, close);
          at = close + 1;
          if (text[at] !== '"') break;
          field += '"';
          at++;
        }
        for (const c of field) if (c === "\n") line++;
      }
      let end = at;
      while (end < text.length && text[end] !== delimiter && text[end] !== "\n" && text[end] !== "\r") end++;
      field += text.slice(at, end);
      at = end;
      fields.push(field);
      if (text[at] === delimiter) at++;
      else break;
    }
    if (text[at] === "\r") at++;
    if (text[at] === "\n") at++;
    line++;
    if (fields.length > 1 || fields[0] !== "") yield { line: began, fields, open };
  }
}

/** The delimiter that splits the first line into most fields. */
export function guessDelimiter(text: string): string {
  const first = text.slice(0, 20_000).split(/\r?\n/, 1)[0] ?? "";
  const counted = [",", "\t", ";", "|"].map((one) => ({ one, count: first.split(one).length }));
  return counted.reduce((best, next) => (next.count > best.count ? next : best)).one;
}

/** A cell as a value: numbers and booleans as such, an empty one as absent. */
export function typed(cell: string): Json | undefined {
  if (cell === "") return undefined;
  if (cell === "true" || cell === "false") return cell === "true";
  if (/^(?:0|-?[1-9]\d{0,18})$/.test(cell)) {
    const number = BigInt(cell);
    if (number >= -(2n ** 63n) && number < 2n ** 63n) return Number.isSafeInteger(Number(cell)) ? Number(cell) : number;
    return cell;
  }
  // Texts that would not round-trip (a telephone number, a long decimal, -0) stay texts.
  if (/^-?(?:0|[1-9]\d{0,14})\.\d{1,15}$/.test(cell)) return parse(cell);
  return cell;
}

export function read(name: string, text: string, asText: boolean): Table {
  const start = text.replace(/^\ufeff?\s*/, "")[0];
  if (/\.json$/i.test(name) && start === "[") return json(text);
  if (/\.(?:jsonl|ndjson)$/i.test(name) || start === "{") return jsonLines(text);
  if (start === "[") return json(text);
  return delimited(text, asText, /\.tsv$/i.test(name) ? "\t" : guessDelimiter(text));
}

function finish(format: Table["format"], rows: Row[], problems: string[]): Table {
  const columns = new Set<string>();
  for (const row of rows.slice(0, 1000)) for (const column of Object.keys(row)) columns.add(column);
  return { format, columns: [...columns], rows, problems };
}

function json(text: string): Table {
  const value = parse(text.replace(/^\ufeff/, ""));
  const problems: string[] = [];
  const rows: Row[] = [];
  (Array.isArray(value) ? value : [value]).forEach((one, at) => {
    if (isRecord(one)) rows.push(one);
    else problems.push(`element ${at + 1}: not an object`);
  });
  return finish("json", rows, problems);
}

function jsonLines(text: string): Table {
  const rows: Row[] = [];
  const problems: string[] = [];
  text.split(/\r?\n/).forEach((line, at) => {
    if (line.trim() === "") return;
    try {
      const value = parse(line.replace(/^\ufeff/, ""));
      if (isRecord(value)) rows.push(value);
      else problems.push(`line ${at + 1}: not an object`);
    } catch (error) {
      problems.push(`line ${at + 1}: ${(error as Error).message}`);
    }
  });
  return finish("jsonl", rows, problems);
}

function delimited(text: string, asText: boolean, delimiter: string): Table {
  const rows: Row[] = [];
  const problems: string[] = [];
  let header: string[] | undefined;
  for (const { line, fields, open } of records(text, delimiter)) {
    if (open) problems.push(`line ${line}: a quote is not closed`);
    if (!header) {
      header = fields.map((name, at) => name.trim() || `column${at + 1}`);
      const twice = header.find((name, at) => header!.indexOf(name) !== at);
      if (twice !== undefined) problems.push(`line ${line}: the column “${twice}” is repeated; the last one is used`);
      continue;
    }
    if (open) continue;
    if (fields.length !== header.length) {
      problems.push(`line ${line}: ${fields.length} fields where the first line has ${header.length}`);
      continue;
    }
    const row: Row = Object.create(null) as Row;
    fields.forEach((cell, at) => {
      const value = asText ? cell : typed(cell);
      if (value !== undefined) row[header![at]!] = value;
    });
    rows.push(row);
  }
  return finish(delimiter === "\t" ? "tsv" : "csv", rows, problems);
}

function isRecord(value: Json): value is Row {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Lines for the server, in pieces. */
export function lines(rows: Row[], shape: (row: Row) => Row): Blob {
  const pieces: string[] = [];
  for (let from = 0; from < rows.length; from += 1000) pieces.push(rows.slice(from, from + 1000).map((row) => stringify(shape(row)) + "\n").join(""));
  return new Blob(pieces, { type: "application/jsonl" });
}
