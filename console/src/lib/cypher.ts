// openCypher for the editor: colours, and completion from what the database has.

import { snippetCompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { HighlightStyle, StreamLanguage, syntaxHighlighting, type StringStream } from "@codemirror/language";
import { tags } from "@lezer/highlight";

import { quoted } from "./query";
import { catalog } from "./state.svelte";

const KEYWORDS =
  "MATCH OPTIONAL WHERE RETURN WITH UNWIND CREATE MERGE SET REMOVE DELETE DETACH FOREACH CALL YIELD UNION ALL ORDER BY SKIP LIMIT ASC ASCENDING DESC DESCENDING DISTINCT AS AND OR XOR NOT IN STARTS ENDS CONTAINS IS NULL CASE WHEN THEN ELSE END ON EXISTS COUNT COLLECT SHORTEST ANY GROUPS EXPLAIN PROFILE SHOW INDEXES INDEX CONSTRAINTS CONSTRAINT LABELS TYPES PROPERTIES BUCKETS FUNCTIONS PROCEDURES QUERIES KILL QUERY FOR REQUIRE UNIQUE NODE KEY TYPED CONVERGENT COUNTER GROW REGISTER MULTI FLAG MAP HLL DROP IF LOAD CSV FROM HEADERS FIELDTERMINATOR USING".split(" ");
const WORDS = new Set([...KEYWORDS, "TRUE", "FALSE"]);

interface Lexer {
  comment: boolean;
  quote: string;
  after: string;
  /** Whether the previous token was a label or a type: then `|` and `&` are followed by another. */
  typed: boolean;
}

function token(stream: StringStream, state: Lexer): string | null {
  if (state.comment) {
    if (stream.skipTo("*/")) {
      stream.match("*/");
      state.comment = false;
    } else stream.skipToEnd();
    return "comment";
  }
  if (state.quote) {
    let c: string | void;
    while ((c = stream.next())) {
      if (c === "\\") stream.next();
      else if (c === state.quote) {
        state.quote = "";
        break;
      }
    }
    return "string";
  }
  if (stream.eatSpace()) return null;
  if (stream.match("//")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match("/*")) {
    state.comment = true;
    return "comment";
  }
  const after = state.after;
  const typed = state.typed;
  state.after = "";
  state.typed = false;
  const c = stream.peek()!;
  if (c === "'" || c === '"') {
    stream.next();
    state.quote = c;
    return "string";
  }
  if (c === "$") {
    stream.next();
    stream.match(/^(?:[\p{L}\p{N}_]+|`[^`]*`)/u);
    return "variableName.special";
  }
  if (c === "`") {
    stream.match(/^`(?:[^`]|``)*`?/);
    state.typed = after === ":";
    return state.typed ? "typeName" : "variableName";
  }
  if (stream.match(/^(?:0x[\da-f]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+)/i)) return "number";
  if (stream.match(/^[\p{L}_][\p{L}\p{N}_]*/u)) {
    const word = stream.current();
    if (after === ":") {
      state.typed = true;
      return "typeName";
    }
    if (after === ".") return /^\s*\(/.test(stream.string.slice(stream.pos)) ? "function" : "propertyName";
    if (WORDS.has(word.toUpperCase())) return /^(?:true|false|null)$/i.test(word) ? "atom" : "keyword";
    if (/^(?:\.[A-Za-z_]\w*)*\s*\(/.test(stream.string.slice(stream.pos))) return "function";
    return "variableName";
  }
  stream.next();
  if (c === ":" || ((c === "|" || c === "&") && typed) || (c === "!" && after === ":")) state.after = ":";
  else if (c === ".") state.after = ".";
  return /[-<>=+*/%^]/.test(c) ? "operator" : "punctuation";
}

export const language = StreamLanguage.define<Lexer>({
  name: "cypher",
  startState: () => ({ comment: false, quote: "", after: "", typed: false }),
  token,
  languageData: { commentTokens: { line: "//", block: { open: "/*", close: "*/" } }, closeBrackets: { brackets: ["(", "[", "{", "'", '"', "`"] } },
  tokenTable: { function: tags.function(tags.variableName) },
});

export const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--c-keyword)", fontWeight: "560" },
    { tag: tags.atom, color: "var(--c-keyword)" },
    { tag: tags.string, color: "var(--c-string)" },
    { tag: tags.number, color: "var(--c-number)" },
    { tag: tags.typeName, color: "var(--c-label)" },
    { tag: tags.propertyName, color: "var(--c-name)" },
    { tag: tags.function(tags.variableName), color: "var(--c-name)" },
    { tag: tags.special(tags.variableName), color: "var(--c-number)" },
    { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
    { tag: [tags.operator, tags.punctuation], color: "var(--dim)" },
  ]),
);

const SNIPPETS: Completion[] = [
  snippetCompletion("MATCH (${n}:${Label}) RETURN ${n} LIMIT ${25}", { label: "match nodes", type: "text", detail: "MATCH … RETURN" }),
  snippetCompletion("MATCH (${a})-[${r}:${TYPE}]->(${b}) RETURN ${a}, ${r}, ${b} LIMIT ${25}", { label: "match pattern", type: "text", detail: "(a)-[r]->(b)" }),
  snippetCompletion("CREATE INDEX ${name} FOR (n:${Label}) ON (n.${property})", { label: "create index", type: "text", detail: "CREATE INDEX" }),
];

/** Labels after `(n:`, types after `[r:`, properties after `n.`, and otherwise keywords, functions and variables. */
export function complete(context: CompletionContext): CompletionResult | null {
  // Typing opens the list after a delay: by then the user may have run the statement.
  if (!context.explicit && context.view && !context.view.hasFocus) return null;
  const known = catalog.current;
  const before = context.state.sliceDoc(Math.max(0, context.pos - 400), context.pos);
  const word = /[\p{L}\p{N}_]*$/u.exec(before)![0];
  const lead = before.slice(0, before.length - word.length);
  const from = context.pos - word.length;
  const validFor = /^[\p{L}\p{N}_]*$/u;
  const counted = (kind: string) => (one: { name: string; count: number }): Completion => ({
    label: one.name,
    apply: quoted(one.name),
    detail: one.count.toLocaleString("en"),
    type: kind,
    boost: Math.min(50, Math.log2(one.count + 1)),
  });
  const opened = Math.max(lead.lastIndexOf("("), lead.lastIndexOf("["));
  const inside = lead.slice(opened);
  if (opened >= 0 && /^[([][^()[\]{}]*[:|&!]\s*$/.test(inside))
    return { from, validFor, options: inside[0] === "[" ? known.types.map(counted("class")) : known.labels.map(counted("class")) };
  if (/[\p{L}\p{N}_`)\]]\.$/u.test(lead) && !/\b(?:kv|algo|db|set|counter|growset|register|multi|flag|hll|convergent|apoc)\.$/i.test(lead))
    return { from, validFor, options: known.properties.map((name) => ({ label: name, apply: quoted(name), type: "property" })) };
  if (/\{[^{}()]*$/.test(lead) && /[{,]\s*$/.test(lead)) return { from, validFor, options: known.properties.map((name) => ({ label: name, apply: quoted(name) + ": ", type: "property" })) };
  if (/['"$]$/.test(lead) && !/bucket/i.test(lead)) return null;
  const dotted = /(?:[A-Za-z_]\w*\.)+$/.exec(lead)?.[0] ?? "";
  if (word === "" && dotted === "" && !context.explicit) return null;
  const variables = [...new Set(context.state.doc.toString().match(/(?<=[([,]\s*|AS\s+|as\s+)[A-Za-z_]\w*(?=\s*[:)\],{-]|$)/g) ?? [])]
    .filter((name) => name !== word && !WORDS.has(name.toUpperCase()))
    .map((name): Completion => ({ label: name, type: "variable", boost: 40 }));
  const upper = word === "" || word[0] === word[0]!.toUpperCase();
  return {
    from: from - dotted.length,
    validFor: /^[\w.]*$/,
    options: [
      ...variables,
      ...SNIPPETS,
      ...KEYWORDS.map((name): Completion => ({ label: upper ? name : name.toLowerCase(), type: "keyword", boost: 10 })),
      ...known.functions.map((one): Completion => ({ label: one.name, apply: one.name + "(", detail: one.signature.slice(one.name.length), info: one.description, type: "function" })),
      ...known.procedures.map((one): Completion => ({ label: one.name, apply: one.name + "(", detail: "procedure", info: one.description, type: "method" })),
    ],
  };
}
