// How long a run would have taken under other conditions (W138): what a person wants to be different, and what the kernel says to that.

import type { KernelConnection } from "../kernel/connection";
import { GONE, lackOf } from "../view/tryable";
import type { View } from "../view/view";
import { isObject } from "../wire/guards";

/** What is different; each may be as it was. */
export interface Scenario {
  /** How many times as fast models are. */
  readonly models: number;
  /** How many tasks run at once; null: as many as in the run. */
  readonly places: number | null;
  /** A wait that takes no time, by its name, or `all`. */
  readonly wait: string;
  /** A task by its name, and how many times as fast it is. */
  readonly task: string;
  readonly factor: number;
}

export const AS_IT_WAS: Scenario = { models: 1, places: null, wait: "", task: "", factor: 1 };

export interface Prediction {
  readonly summary: string;
  /** The tasks that the length would hang on, in order of time. */
  readonly path: readonly string[];
  readonly wall_ms: number;
  /** When each task would run, by its span. */
  readonly tasks: ReadonlyMap<string, { readonly from: number; readonly to: number; readonly isCritical: boolean }>;
}

export class WhatIf {
  isOpen = false;
  scenario = AS_IT_WAS;
  prediction: Prediction | null = null;
  isAsking = false;
  error = "";
  readonly #stop: (() => void) | undefined;
  /** Random at first, since what another view asks is answered here, too. */
  #number = Math.floor(Math.random() * 2 ** 40);

  /** `redraw`: shows what has changed since. */
  constructor(readonly view: View, readonly connection: KernelConnection | null, readonly redraw: () => void) {
    this.#stop = connection?.tryout.subscribe((told) => told && told.tryout.number === this.#number && this.#hear(told.tryout));
  }

  /** What has to be done before it can be asked, in words; null where it can. */
  get lacks(): string | null {
    const lack = lackOf(this.view, this.connection);
    if (lack) return lack;
    return this.view.layout.value.tracks.some(({ row }) => row.delta) ? "Look at one run by itself" : null;
  }

  toggle(): void {
    this.isOpen = !this.isOpen;
    this.change(AS_IT_WAS);
    // What is shown now is shown along with the chart.
    this.view.panel.value = null;
  }

  /** Asks the kernel, unless all is as it was. */
  change(more: Partial<Scenario>): void {
    this.scenario = { ...this.scenario, ...more };
    this.error = "";
    const { models, places, wait, task, factor } = this.scenario;
    const speedup = { ...(models !== 1 && { llm: models }), ...(task && factor !== 1 && { [task]: factor }) };
    this.#number += 1;
    this.isAsking = Object.keys(speedup).length > 0 || places !== null || wait !== "";
    if (!this.isAsking) this.prediction = null;
    else if (!this.connection?.post({ kind: "tryout", act: "predict", number: this.#number, scenario: { max_concurrency: places, speedup, drop_waits: wait === "all" || [wait].filter(Boolean) } })) {
      this.isAsking = false;
      this.error = GONE;
    }
    this.redraw();
  }

  end(): void {
    this.#stop?.();
  }

  #hear(told: Readonly<Record<string, unknown>>): void {
    this.isAsking = false;
    this.error = typeof told.error === "string" ? told.error : "";
    this.prediction = readPrediction(told.prediction);
    this.redraw();
  }
}

function readPrediction(told: unknown): Prediction | null {
  if (!isObject(told) || typeof told.summary !== "string" || typeof told.wall_ms !== "number" || !Array.isArray(told.path) || !Array.isArray(told.tasks)) return null;
  const tasks = new Map((told.tasks.filter(Array.isArray) as [string, number, number, boolean][]).map(([span, from, to, isCritical]) => [span, { from, to, isCritical }]));
  return { summary: told.summary, path: told.path.map(String), wall_ms: told.wall_ms, tasks };
}
