// Prometheus' text format, as far as this server writes it.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function samples(text: string): Sample[] {
  const found: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name!] = value!.replace(/\\(.)/g, "$1");
    found.push({ name: match[1]!, labels, value: Number(match[3]) });
  }
  return found;
}

export function total(all: Sample[], name: string, labels: Record<string, string> = {}): number {
  let sum = 0;
  for (const one of all) if (one.name === name && Object.entries(labels).every(([label, value]) => one.labels[label] === value)) sum += one.value;
  return sum;
}

/** A quantile of the request durations between two samples of a histogram, in seconds. */
export function quantile(before: Sample[], now: Sample[], name: string, part: number): number | null {
  const counts = (all: Sample[]): Map<number, number> => {
    const sums = new Map<number, number>();
    for (const one of all) {
      if (one.name !== name + "_bucket") continue;
      const bound = one.labels.le === "+Inf" ? Infinity : Number(one.labels.le);
      sums.set(bound, (sums.get(bound) ?? 0) + one.value);
    }
    return sums;
  };
  const [first, last] = [counts(before), counts(now)];
  const bounds = [...last.keys()].sort((one, two) => one - two);
  const below = (bound: number): number => (last.get(bound) ?? 0) - (first.get(bound) ?? 0);
  const all = below(Infinity);
  if (!(all > 0)) return null;
  let lower = 0;
  let lowerCount = 0;
  for (const bound of bounds) {
    const here = below(bound);
    if (here >= part * all) {
      if (bound === Infinity) return lower;
      return here === lowerCount ? bound : lower + ((bound - lower) * (part * all - lowerCount)) / (here - lowerCount);
    }
    lower = bound;
    lowerCount = here;
  }
  return lower;
}
