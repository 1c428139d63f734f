// The few signs of the chrome as vector shapes in the colour of the text around them. Decoration only: what they mean is
// always said in words beside them or in a label.

import type { RowState } from "../store/row-state";

export const PATHS = {
  pending: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3",
  running: "M8 2.5v3.2M8 10.3v3.2M2.5 8h3.2M10.3 8h3.2M4.1 4.1l2.3 2.3M9.6 9.6l2.3 2.3M11.9 4.1 9.6 6.4M6.4 9.6l-2.3 2.3",
  ok: "m3.5 8.4 3 3 6-6.6",
  error: "m4.3 4.3 7.4 7.4M11.7 4.3l-7.4 7.4",
  cancelled: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3M4.5 11.5l7-7",
  skipped: "M3 8h6.5M7 4.8 10.2 8 7 11.2M13 4.5v7",
  waiting: "M5.7 4v8M10.3 4v8",
  retry: "M12.6 6.2A5 5 0 1 0 13 8.6M12.9 3v3.4H9.5",
  warning: "M8 2.8 14 13H2zM8 6.6v3M8 11.2v.3",
  stop: "M4.5 4.5h7v7h-7z",
  saved: "M3.5 3.5h7l2 2v7h-9zM6 3.5v2.7h4V3.5M5.8 12.5V9h4.4v3.5",
  resume: "M5.2 3.6v8.8l7-4.4z",
  right: "m6 4 4 4-4 4",
  down: "m4 6 4 4 4-4",
  budget: "M8 2.5a5.5 5.5 0 1 0 0 11A5.5 5.5 0 0 0 8 2.5M8 5v6M6 8h4",
  door: "M9 3.5H4v9h5M7 8h6M10.8 5.6 13.2 8l-2.4 2.4",
  search: "M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4M10.2 10.2l3.3 3.3",
  question: "M5.6 6a2.4 2.4 0 1 1 3.6 2.1c-.9.5-1.2.9-1.2 1.8M8 12.6v.2",
  clock: "M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8M8 5.2V8l2 1.4",
  empty: "M3 4.5h10v7H3zM6 8h4",
  restarted: "M3.4 6.2A5 5 0 1 1 3 8.6M3.1 3v3.4h3.4M8 5.6V8l1.6 1",
  gone: "M3 3l10 10M5.5 7.5A3 3 0 0 0 8 12h3.5M8 5.5A3 3 0 0 1 12.5 9",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name, size }: { name: IconName; size?: number }) => <Sign name={name} path={PATHS[name]} size={size} />;

export const Sign = ({ name, path, size = 14 }: { name: string; path: string; size?: number }) => (
  <svg class={`et-icon et-icon-${name}`} viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
    <path d={path} fill={name === "stop" ? "currentColor" : "none"} stroke="currentColor" stroke-width="1.7"
      stroke-linecap="round" stroke-linejoin="round" stroke-dasharray={name === "pending" ? "0.1 2.9" : undefined} />
  </svg>
);

export const iconOf = (state: RowState["key"]): IconName => (state === "interrupted" ? "cancelled" : state === "unknown" ? "question" : state);
