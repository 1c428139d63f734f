// Numbers as a person reads them: durations, clocks, counts, shares, money. Pure; knows nothing of what they measure.
//
// Python words them alike (`ensemble_notebook/domain/wording.py`): `tests/wording_cases.json` is read by the tests of both.
// So that both agree to the last digit, a number is scaled, rounded half up to a whole one, and written digit by digit:
// `toFixed` rounds the binary value, Python's `format` halves to even, and `toLocaleString` follows the browser.

import { SYMBOLS, UNKNOWN, WITHOUT_CENTS } from "../wire/words";

const LEAST_DIGITS = 6;

const isKnown = (value: number | null | undefined): value is number => value != null && Number.isFinite(value);

/** A length of time: `340 ms`, `7.9 s`, `42 s`, `1:42`, `1:02:03`. */
export function formatDuration(ms: number | null | undefined): string {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 1) return ms <= 0 ? "0 ms" : "<1 ms";
  if (ms < 999.5) return `${round(ms)} ms`;
  if (ms < 9_950) return `${fixed(ms / 1000, 1)} s`;
  const seconds = round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : formatClock(seconds * 1000);
}

/**
 * A duration that still grows, in whole seconds, and nothing in the first: tenths that flicker in a table pull the eye.
 */
export function formatGrowingDuration(ms: number): string {
  const seconds = Math.floor(Math.max(0, ms) / 1000);
  return seconds < 1 ? "" : seconds < 60 ? `${seconds} s` : formatClock(seconds * 1000);
}

/** A running clock: `0:07`, `1:42`, `1:02:03`. Whole seconds, rounded down, so that it never runs ahead. */
export function formatClock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (value: number): string => String(value).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** A count, e.g. of tokens: `812`, `4.1k`, `84.1k`, `1.2M`, `3.5B`. */
export function formatCount(value: number | null | undefined): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 1000) return String(round(value));
  // Each unit goes as far as it can without rounding up to 1000.
  const [unit, name] = value < 999.5e3 ? [1e3, "k"] : value < 999.5e6 ? [1e6, "M"] : [1e9, "B"];
  if (value < 99.95 * unit) return fixed(value / unit, 1).replace(/\.0$/, "") + name;
  return grouped(round(value / unit)) + name;
}

/** All digits of a count, where there is room for them: `84,149`. */
export const formatExactCount = (value: number | null | undefined): string => (isKnown(value) ? grouped(value) : UNKNOWN);

/** An amount with at least two telling digits: `$0`, `$0.0042`, `€0.218`, `$12.40`, `CHF 1,234.00`. */
export function formatMoney(value: number | null | undefined, currency: string | null | undefined): string {
  if (!isKnown(value)) return UNKNOWN;
  const symbol = currency ? (SYMBOLS[currency] ?? `${currency} `) : "";
  if (value < 0) return `-${formatMoney(-value, currency)}`;
  if (value === 0) return `${symbol}0`;
  if (value < 0.00001) return `<${symbol}0.00001`;
  const cents = WITHOUT_CENTS.includes(currency ?? "") ? 0 : 2;
  const digits = moneyDigits(value, cents);
  // What rounds up to more takes the digits of that: 0.9996 is 1.00, as 1 is.
  return symbol + fixed(value, moneyDigits(round(value * 10 ** digits) / 10 ** digits, cents));
}

/** A share of one in whole percent: `61%`. */
export const formatPercent = (share: number | null | undefined): string =>
  isKnown(share) ? `${grouped(round(100 * share))}%` : UNKNOWN;

/** How many there are in a time: `38/s`, `3.8/s`, `12/min`. */
export const formatRate = (perSecond: number): string =>
  perSecond < 1 ? `${Math.max(1, round(60 * perSecond))}/min` : `${fixed(perSecond, perSecond < 9.95 ? 1 : 0)}/s`;

/** A length of time that nobody knows exactly: `5 s`, `40 s`, `3 min`, `2 h`. */
export function formatRoughly(seconds: number): string {
  const step = seconds < 17.5 ? 5 : 10;
  if (seconds < 95) return `${Math.max(1, round(seconds / step)) * step} s`;
  return seconds < 5370 ? `${round(seconds / 60)} min` : `${round(seconds / 3600)} h`;
}

/** A counted noun: `1 task`, `3 tasks`, `2 retries`, `2 matches`. */
export function pluralize(amount: number, noun: string): string {
  if (amount === 1) return `1 ${noun}`;
  if (/[^aeiou]y$/.test(noun)) return `${grouped(amount)} ${noun.slice(0, -1)}ies`;
  return `${grouped(amount)} ${noun}${/(?:s|x|z|ch|sh)$/.test(noun) ? "es" : "s"}`;
}

/** How many digits stand after the point. */
function moneyDigits(value: number, cents: number): number {
  if (value >= 1) return value >= 10 ? cents : Math.max(cents, 1);
  if (value >= 0.1) return 3;
  let digits = 3;
  while (digits < LEAST_DIGITS && value * 10 ** digits < 10) digits += 1;
  return digits;
}

/** To the nearest whole number, halves up. */
const round = (value: number): number => Math.floor(value + 0.5);

/** With so many digits after the point, and commas between thousands. */
function fixed(value: number, digits: number): string {
  if (digits === 0) return grouped(round(value));
  const [scale, scaled] = [10 ** digits, round(value * 10 ** digits)];
  return `${grouped(Math.floor(scaled / scale))}.${String(scaled % scale).padStart(digits, "0")}`;
}

const grouped = (value: number): string => String(value).replace(/\B(?=(?:\d{3})+$)/g, ",");
