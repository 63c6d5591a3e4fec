// A colour for each label: the same one everywhere and each time, unless the user chooses another.

import { load, save } from "./state.svelte";

const PALETTE = ["#6d63f0", "#12a594", "#e5793a", "#d6409f", "#3b8fe0", "#9a7a1c", "#30a46c", "#e5484d", "#8e4ec6", "#0e93a8", "#b2622d", "#5f7a99"];

export interface Style {
  colour?: string;
  caption?: string;
}
export const styles = $state<Record<string, Style>>(load<Record<string, Style>>("styles") ?? {});

// Colours by label, in the order in which labels were first seen: unique as long as there are enough colours.
const given = new Map<string, number>(Object.entries(load<Record<string, number>>("colours") ?? {}));

function give(label: string): number {
  const known = given.get(label);
  if (known !== undefined) return known % PALETTE.length;
  const used = new Set(given.values());
  let at = hash(label) % PALETTE.length;
  for (let step = 0; step < PALETTE.length && used.has(at); step++) at = (at + 1) % PALETTE.length;
  if (given.size < 200) {
    given.set(label, at);
    save("colours", Object.fromEntries(given));
  }
  return at;
}

function hash(text: string): number {
  let sum = 7;
  for (let at = 0; at < text.length; at++) sum = (Math.imul(sum, 31) + text.charCodeAt(at)) >>> 0;
  return sum;
}

export function labelColour(label: string): string {
  const chosen = Object.hasOwn(styles, label) ? styles[label]?.colour : undefined;
  if (chosen && /^#[0-9a-f]{6}$/i.test(chosen)) return chosen;
  return label === "" ? "#7c8598" : PALETTE[give(label)]!;
}
export function labelCaption(label: string): string | undefined {
  return Object.hasOwn(styles, label) ? styles[label]?.caption || undefined : undefined;
}
export function setStyle(label: string, style: Style): void {
  styles[label] = { ...(Object.hasOwn(styles, label) ? styles[label] : {}), ...style };
  save("styles", styles);
}
