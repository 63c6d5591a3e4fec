// The graph in a result: its nodes and relationships, each once, up to a limit.

import { isMap, isNode, isPath, isRelationship, type Json, type NodeValue, type RelValue } from "../lib/json";

/** Most nodes and relationships that are drawn. */
export const MOST_NODES = 2_000;
export const MOST_RELATIONSHIPS = 5_000;

export interface Drawn {
  nodes: Map<string, NodeValue>;
  relationships: Map<string, RelValue>;
  /** Whether the limit was reached. */
  cut: boolean;
}

export function nothing(): Drawn {
  return { nodes: new Map(), relationships: new Map(), cut: false };
}

/** Adds nodes and relationships at any depth of the values. */
export function gather(values: Json[], into: Drawn): void {
  const open: Json[] = [...values].reverse();
  while (open.length) {
    const value = open.pop()!;
    if (isNode(value)) {
      const id = String(value.$node);
      if (into.nodes.has(id)) continue;
      if (into.nodes.size < MOST_NODES) {
        const known: NodeValue = { $node: value.$node, labels: value.labels ?? [], properties: value.properties ?? {} };
        into.nodes.set(id, known);
      }
      else into.cut = true;
    } else if (isRelationship(value)) {
      const id = String(value.$relationship);
      if (into.relationships.has(id)) continue;
      if (into.relationships.size < MOST_RELATIONSHIPS) into.relationships.set(id, value);
      else into.cut = true;
    } else if (isPath(value)) open.push(...[...value.$path].reverse());
    else if (Array.isArray(value)) open.push(...[...value].reverse());
    else if (isMap(value)) open.push(...Object.values(value));
  }
}
