// Numbers as a person reads them: durations, clocks, counts, money. Pure; knows nothing of spans.

const UNKNOWN = "–";
const SYMBOLS: Record<string, string> = { USD: "$", EUR: "€", GBP: "£", JPY: "¥" };

/** A span's length: `340 ms`, `7.9 s`, `42 s`, `1:42`, `1:02:03`. */
export function duration(ms: number | null | undefined): string {
  if (ms == null) return UNKNOWN;
  if (ms < 1) return ms <= 0 ? "0 ms" : "<1 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 59_500) return `${Math.round(ms / 1000)} s`;
  return clock(Math.round(ms / 1000) * 1000);
}

/** A running clock: `0:07`, `1:42`, `1:02:03`. Whole seconds, rounded down, so that it never runs ahead. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (value: number): string => String(value).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** A count of tokens: `812`, `4.1k`, `84.1k`, `1.2M`. */
export function count(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  if (value < 1000) return String(value);
  const [scaled, unit] = value < 999_950 ? [value / 1e3, "k"] : [value / 1e6, "M"];
  const text = scaled < 99.95 ? scaled.toFixed(1) : scaled.toFixed(0);
  return `${text.replace(/\.0$/, "")}${unit}`;
}

/** An amount of money with at least two telling digits: `$0`, `$0.0042`, `$0.218`, `$12.40`. */
export function money(value: number | null | undefined, currency = "USD"): string {
  if (value == null) return UNKNOWN;
  const symbol = SYMBOLS[currency] ?? `${currency} `;
  if (value === 0) return `${symbol}0`;
  if (value >= 1) return symbol + value.toFixed(2);
  if (value >= 0.1) return symbol + value.toFixed(3);
  if (value < 0.00001) return `<${symbol}0.00001`;
  return symbol + value.toFixed(Math.min(6, 1 - Math.floor(Math.log10(value))));
}

/** `1 task`, `3 tasks`, `2 entries`. */
export function plural(amount: number, noun: string): string {
  if (amount === 1) return `1 ${noun}`;
  return `${amount} ${/[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ie` : noun}s`;
}
