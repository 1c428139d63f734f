// Short forms of texts: monograms, times of day, JSON, causes. Pure; knows nothing of spans.

import { FAULTS, LONGEST_CAUSE } from "../wire/words";

/** Two letters that stand for an agent: `Senior Researcher` is SR, `Ana` is An. */
export function monogram(name: string): string {
  const words = name.split(/[\s_\-./]+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const [first, second] = [words[0], words[words.length - 1]];
  if (!first) return "?";
  const letters = (text: string): string[] => [...text].filter((letter) => /[\p{L}\p{N}]/u.test(letter));
  if (words.length === 1 || !second) {
    const [head = "?", next = ""] = letters(first);
    return head.toUpperCase() + next.toLowerCase();
  }
  return ((letters(first)[0] ?? "") + (letters(second)[0] ?? "")).toUpperCase();
}

/** The hour and minute of an instant on the reader's clock, `more` where it is asked for, or null when it isn't one. */
export function formatTimeOfDay(iso: string | null | undefined, more?: Intl.DateTimeFormatOptions): string | null {
  const at = iso ? new Date(iso) : null;
  if (!at || Number.isNaN(at.getTime())) return null;
  return at.toLocaleTimeString([], { hour: "numeric", minute: "2-digit", ...more });
}

/** JSON with line breaks if the text is JSON, else the text itself. */
export function prettyPrint(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  const text = value.trim();
  if (!/^[[{]/.test(text)) return value;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return value;
  }
}

const statusIn = (reason: string | null | undefined): string | undefined => /\b([45]\d\d)\b/.exec(reason ?? "")?.[1];

/** A reason for waiting in a word or two that fit between two attempts: `HTTP 429`, `timeout`. */
export function shortCause(reason: string | null | undefined): string {
  if (!reason) return "retry";
  const status = statusIn(reason);
  return status ? `HTTP ${status}` : reason.replace(/_/g, " ").slice(0, LONGEST_CAUSE);
}

/** The same in full: `too many requests (HTTP 429)`. */
export function fullCause(reason: string | null | undefined): string {
  const status = statusIn(reason);
  if (!status) return shortCause(reason);
  return `${FAULTS[status] ?? FAULTS[status.charAt(0)]} (HTTP ${status})`;
}
