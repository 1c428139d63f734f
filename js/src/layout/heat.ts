// How busy many rows are together, for the one row that stands in for them: pure, from intervals to columns.

import type { Row } from "../wire/rows";
import { type TimeWindow, toPixel } from "./time-scale";

/** When each of many tasks was at work, and when those that failed did. */
export interface Heat {
  readonly from: Float64Array;
  /** Infinity for what still runs. */
  readonly to: Float64Array;
  readonly errors: Float64Array;
}

export function heatOf(rows: readonly Row[]): Heat {
  const begun = rows.filter((row) => row.start_ms != null);
  return {
    from: Float64Array.from(begun, (row) => row.start_ms as number),
    to: Float64Array.from(begun, (row) => row.end_ms ?? Infinity),
    errors: Float64Array.from(rows.filter((row) => row.status === "error"), (row) => row.end_ms ?? row.start_ms ?? 0),
  };
}

/** How many are at work in each of `width` columns of a window, counting a part of a column as a part. */
export function heatColumns(heat: Heat, window: TimeWindow, width: number, now: number): Float32Array {
  // Each interval adds its slope at both ends, so that the cost follows intervals and columns, not their product.
  const columns = new Float32Array(Math.max(1, Math.ceil(width)) + 2);
  const last = columns.length - 2;
  const step = (ms: number, by: number): void => {
    const at = toPixel(window, width, ms);
    if (at >= last) return;
    const x = Math.max(0, at);
    const column = Math.floor(x);
    columns[column] = (columns[column] as number) + by * (1 - (x - column));
    columns[column + 1] = (columns[column + 1] as number) + by * (x - column);
  };
  for (let k = 0; k < heat.from.length; k += 1) {
    step(heat.from[k] as number, 1);
    step(Math.min(heat.to[k] as number, now), -1);
  }
  for (let x = 1; x < columns.length; x += 1) columns[x] = (columns[x] as number) + (columns[x - 1] as number);
  return columns.subarray(0, last);
}
