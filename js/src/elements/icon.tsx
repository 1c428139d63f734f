// The few signs of the chrome as vector shapes in the colour of the text around them. Decoration only: what they mean is
// always said in words beside them or in a label.

import type { RowState } from "../store/row-state";

const PATHS = {
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
  left: "m10 4-4 4 4 4",
  down: "m4 6 4 4 4-4",
  fit: "M6 3H3v3M10 3h3v3M6 13H3v-3M10 13h3v-3",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  budget: "M8 2.5a5.5 5.5 0 1 0 0 11A5.5 5.5 0 0 0 8 2.5M8 5v6M6 8h4",
  door: "M9 3.5H4v9h5M7 8h6M10.8 5.6 13.2 8l-2.4 2.4",
  search: "M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4M10.2 10.2l3.3 3.3",
  filter: "M2.5 4h11M4.8 8h6.4M7 12h2",
  arrows: "M3 3v4.5c0 2 1 3 3 3h7M10.5 8 13 10.5 10.5 13M1.5 3h3",
  critical: "M2 3.8h5M6 8h4.5M9.5 12.2H14",
  table: "M2.8 3.5h10.4v9H2.8zM2.8 6.6h10.4M2.8 9.6h10.4M6.3 6.6v5.9",
  grid: "M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3zM9 9h4v4H9z",
  question: "M5.6 6a2.4 2.4 0 1 1 3.6 2.1c-.9.5-1.2.9-1.2 1.8M8 12.6v.2",
  clock: "M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8M8 5.2V8l2 1.4",
  copy: "M6 6V3.5A.5.5 0 0 1 6.5 3h6a.5.5 0 0 1 .5.5v6a.5.5 0 0 1-.5.5H10M3.5 6h6a.5.5 0 0 1 .5.5v6a.5.5 0 0 1-.5.5h-6a.5.5 0 0 1-.5-.5v-6a.5.5 0 0 1 .5-.5",
  empty: "M3 4.5h10v7H3zM6 8h4",
  restarted: "M3.4 6.2A5 5 0 1 1 3 8.6M3.1 3v3.4h3.4M8 5.6V8l1.6 1",
  gone: "M3 3l10 10M5.5 7.5A3 3 0 0 0 8 12h3.5M8 5.5A3 3 0 0 1 12.5 9",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 14 }: { name: IconName; size?: number }) {
  const isDotted = name === "pending";
  return (
    <svg class={`et-icon et-icon-${name}`} viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      <path d={PATHS[name]} fill={name === "stop" ? "currentColor" : "none"} stroke="currentColor" stroke-width="1.7"
        stroke-linecap="round" stroke-linejoin="round" stroke-dasharray={isDotted ? "0.1 2.9" : undefined} />
    </svg>
  );
}

export const iconOf = (state: RowState["key"]): IconName => (state === "interrupted" ? "cancelled" : state === "unknown" ? "question" : state);
