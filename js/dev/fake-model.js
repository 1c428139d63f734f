// Stands where anywidget's model would: answers what the view sends, and plays a scenario in deltas every 100 ms.

import { GATES_END, gateDetailsOf, gatesAt } from "./gates.js";
import { pieceOf } from "./replies.js";
import { END, detailsOf, stateAt, textAt } from "./scenario.js";

const SCENES = {
  report: { end: END, stateAt, detailsOf, textAt },
  gates: { end: GATES_END, stateAt: gatesAt, detailsOf: gateDetailsOf, textAt: () => ({}) },
};

export class FakeModel {
  constructor({ isLive = true, status = null, scene = "report", ask = {} } = {}) {
    this.scene = SCENES[scene];
    this.ask = ask;
    this.listeners = new Map();
    this.sent = [];
    this.isLive = isLive;
    this.status = status;
    this.n = 0;
    this.texts = {};
    this.feed_id = crypto.randomUUID();
    this.snapshot = null;
  }

  get(name) {
    return this[name];
  }

  on(name, act) {
    this.listeners.set(name, [...(this.listeners.get(name) ?? []), act]);
  }

  off(name, act) {
    this.listeners.set(name, (this.listeners.get(name) ?? []).filter((other) => other !== act));
  }

  emit(name, ...values) {
    for (const act of this.listeners.get(name) ?? []) act(...values);
  }

  post(content) {
    this.emit("msg:custom", content, []);
  }

  send(content) {
    this.sent.push(content);
    if (!this.isLive && content.kind !== "hello") return;
    if (content.kind === "ping") setTimeout(() => this.post({ kind: "pong", nonce: content.nonce }), 20);
    if (content.kind === "details") setTimeout(() => this.post(this.scene.detailsOf(content.span_id, this.at)), 30);
    if (content.kind === "piece") setTimeout(() => this.post(pieceOf(content)), 30);
    if (content.kind === "cells" && this.scene.cellsOf) setTimeout(() => this.post(this.scene.cellsOf(content.span_ids)), 20);
    if (content.kind === "stop") setTimeout(() => this.stop(), 700);
    if (content.kind === "hello" && this.snapshot !== null) this.post(this.snapshot);
  }

  full(t) {
    return { kind: "snapshot", version: 1, n: this.n, ...this.scene.stateAt(t, this.status, this.ask) };
  }

  /** Shows the run as it is at one moment. */
  show(t) {
    this.at = t;
    this.n += 1;
    this.snapshot = this.full(t);
    this.post(this.snapshot);
  }

  /** Plays from `from` on, until the end or `until`. */
  play(from = 0, until = Infinity) {
    this.show(from);
    const began = performance.now() - from;
    this.timer = setInterval(() => {
      const t = Math.min(performance.now() - began, until);
      this.step(t);
      if (t >= this.scene.end || t >= until) clearInterval(this.timer);
    }, 100);
  }

  step(t) {
    const before = new Map(this.scene.stateAt(this.at, this.status, this.ask).rows.map((row) => [row.span_id, JSON.stringify(row)]));
    const { run, rows } = this.scene.stateAt(t, this.status, this.ask);
    const texts = this.scene.textAt(t);
    const text = Object.entries(texts).map(([id, all]) => [id, all.slice((this.texts[id] ?? "").length)]).filter(([, piece]) => piece);
    this.texts = texts;
    this.at = t;
    const from = this.n;
    this.n += 1;
    this.snapshot = this.full(t);
    this.post({ kind: "delta", from, n: this.n, run, rows: rows.filter((row) => before.get(row.span_id) !== JSON.stringify(row)), text });
  }

  stop() {
    clearInterval(this.timer);
    this.status = "interrupted";
    this.step(this.at + 1);
  }
}
