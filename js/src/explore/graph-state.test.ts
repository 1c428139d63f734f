import { describe, expect, it } from "vitest";
import { row } from "../testing/runs";
import type { Row } from "../wire/rows";
import type { Node } from "./graph-model";
import { loopWords, type RowsThen, stateOf, toPlain, widthOfEdge } from "./graph-state";

const node = (more: Partial<Node> = {}): Node => ({
  key: "task:web", kind: "task", title: "web", x: 0, y: 0, width: 200, height: 78, place: 0, level: 1, inside: [],
  members: [{ span: "t", go: null }], ...more,
});

function then(rows: Row[], more: Partial<RowsThen> = {}): RowsThen {
  const known = new Map(rows.map((each) => [each.span_id, each]));
  return {
    row: (span) => known.get(span), children: (span) => rows.filter((each) => each.parent_id === span), now: 5000, isMoving: false,
    words: () => "", wait: () => "", troubles: () => ({ errors: 0, retries: 0 }), ...more,
  };
}

const task = (more: Partial<Row> = {}): Row => row({ span_id: "t", kind: "task", name: "web", agent: "Ana", start_ms: 0, end_ms: 2000, duration_ms: 2000, ...more });

describe("a node of the graph (W32)", () => {
  it("says who did it, how it ended, how long it took, and what it used", () => {
    const state = stateOf(node(), then([task({ input_tokens: 900, output_tokens: 300, cost: 0.002, currency: "USD" })]));
    expect(state).toMatchObject({ status: "ok", name: "done", title: "web", about: "Ana", figures: "2.0 s · 1.2k tok · $0.0020" });
  });

  it("is to come as long as there is no row, with what is declared", () => {
    const state = stateOf(node({ members: [], agent: "Bo", model: "gpt", settings: "review after" }), then([]));
    expect(state).toMatchObject({ status: "pending", about: "Bo", figures: "", said: "review after" });
  });

  it("says nothing about tokens where nothing is known of them", () => {
    expect(stateOf(node(), then([task()])).figures).toBe("2.0 s");
  });

  it("streams the last words of its call, and says what it waits for first", () => {
    const running = task({ status: "running", end_ms: null, duration_ms: null });
    expect(stateOf(node(), then([running], { words: () => "so it was" }))).toMatchObject({ status: "running", said: "so it was", isSaid: "words", figures: "5 s" });
    expect(stateOf(node(), then([running], { words: () => "so", wait: () => "rate limit" }))).toMatchObject({ said: "rate limit", isSaid: "wait" });
  });

  it("says why it failed, or never ran", () => {
    expect(stateOf(node(), then([task({ status: "error", error_message: "no luck" })]))).toMatchObject({ said: "no luck", isSaid: "error" });
    const skipped = task({ status: "skipped", start_ms: null, end_ms: null, reason: "condition not met" });
    expect(stateOf(node(), then([skipped]))).toMatchObject({ status: "skipped", said: "condition not met" });
  });

  it("counts its items, and those that failed", () => {
    const items = ["ok", "ok", "error", "running"].map((status, k) => row({ span_id: `i${k}`, kind: "task", parent_id: "t", status: status as Row["status"], start_ms: 0 }));
    const state = stateOf(node(), then([task({ status: "running", end_ms: null, item_count: 8 }), ...items]));
    expect(state).toMatchObject({ title: "web x 8", said: "3 of 8", done: 3 / 8, failed: 1 / 8 });
  });

  it("of many tells the worst state, how many are in which, and the sums", () => {
    const rows = [1, 2, 3].map((k) => task({ span_id: `r${k}`, status: k === 2 ? "error" : "ok", cost: 0.5, currency: "USD", start_ms: 1000 * k, end_ms: 1000 * k + 500 }));
    const state = stateOf(node({ members: rows.map(({ span_id }) => ({ span: span_id, go: null })) }), then(rows));
    expect(state).toMatchObject({ status: "error", name: "2 done, 1 failed", title: "web x 3", figures: "2.5 s · $1.50" });
  });

  it("of one go says when that was, and no tokens, which nobody counted", () => {
    const again = task({ status: "running", end_ms: null, input_tokens: 5, rounds: [{ start_ms: 0, end_ms: 800 }, { start_ms: 3000 }] });
    expect(stateOf(node({ members: [{ span: "t", go: 1 }] }), then([again]))).toMatchObject({ status: "ok", figures: "800 ms" });
    expect(stateOf(node({ members: [{ span: "t", go: 2 }] }), then([again]))).toMatchObject({ status: "running", figures: "2 s" });
  });

  it("that is a box without a row stands as what is in it", () => {
    const inside = [node(), node({ key: "task:b", place: 2, members: [{ span: "b", go: null }] })];
    const box = node({ kind: "round", members: [], inside });
    expect(stateOf(box, then([task()])).status).toBe("running");
    expect(stateOf(box, then([task(), task({ span_id: "b", status: "error" })])).status).toBe("error");
  });

  it("of a written task stands as its manager once that is over, and who did it is unknown", () => {
    const manager = node({ key: "task:manager", place: 1 });
    const written = node({ kind: "written", members: [], around: manager });
    expect(stateOf(written, then([task({ status: "running", end_ms: null })]))).toMatchObject({ status: "pending", name: "pending", said: "" });
    expect(stateOf(written, then([task()]))).toMatchObject({ status: "ok", name: "done", said: "who did it is unknown" });
    expect(stateOf(written, then([task({ status: "error" })]))).toMatchObject({ status: "error", name: "failed", said: "who did it is unknown" });
  });

  it("of which a fallback took over says in place of whom, with which model, and what had failed", () => {
    const rows = [
      task({ agent: "Bo", is_fallback: true }),
      row({ span_id: "a", kind: "turn", parent_id: "t", status: "error", error_message: "server error" }),
      row({ span_id: "b", kind: "llm", parent_id: "a", status: "error", attempt: 3 }),
      row({ span_id: "c", kind: "turn", parent_id: "t", status: "ok", is_fallback: true }),
      row({ span_id: "d", kind: "llm", parent_id: "c", status: "ok", is_fallback: true, model: "small" }),
    ];
    const fell = node({ agent: "Ana", model: "large" });
    expect(stateOf(fell, then(rows))).toMatchObject({ about: "Bo, small, in place of Ana", said: "fell back after 3 attempts: server error", isSaid: "note" });
    expect(stateOf(fell, then(rows.slice(0, 1)))).toMatchObject({ about: "Bo, in place of Ana", said: "fell back" });
    const two = [task({ agent: "Bo", is_fallback: true }), task({ span_id: "u" })];
    const many = node({ agent: "Ana", model: "large", members: two.map(({ span_id }) => ({ span: span_id, go: null })) });
    expect(stateOf(many, then(two))).toMatchObject({ about: "Ana", said: "1 of 2 by the fallback" });
  });

  it("of work that was refused says why", () => {
    const refused = row({ span_id: "t", kind: "delegation", name: "Poet", agent: "Manager", status: "error", error_message: "no such agent", start_ms: 0, end_ms: 0 });
    expect(stateOf(node({ kind: "worker" }), then([refused]))).toMatchObject({ about: "refused", figures: "", said: "no such agent" });
    const both = [refused, task({ span_id: "u", agent: "Poet" })];
    const twice = node({ kind: "worker", members: both.map(({ span_id }) => ({ span: span_id, go: null })) });
    expect(stateOf(twice, then(both))).toMatchObject({ about: "Poet", failed: 0.5 });
  });
});

describe("what a node tells of trouble (W146)", () => {
  const troubles = () => ({ errors: 2, retries: 3 });

  it("is how much failed inside, how often a call was tried again, and who took over", () => {
    expect(stateOf(node(), then([task({ is_fallback: true })], { troubles }))).toMatchObject({ agent: "Ana", errors: 2, retries: 3, isFallback: true });
    expect(stateOf(node(), then([task({ status: "error" })], { troubles }))).toMatchObject({ errors: 0, retries: 3 });
  });

  it("is the error with the time alone beside it", () => {
    const state = stateOf(node(), then([task({ status: "error", error_message: "no luck", input_tokens: 9 })]));
    expect(state).toMatchObject({ figures: "2.0 s", said: "no luck" });
  });

  it("has no chip of many agents, and that of who is to do it before it begins", () => {
    const two = node({ members: [{ span: "t", go: null }, { span: "u", go: null }] });
    expect(stateOf(two, then([task(), task({ span_id: "u", agent: "Bo" })])).agent).toBe("");
    expect(stateOf(node({ members: [], agent: "Bo" }), then([])).agent).toBe("Bo");
  });
});

describe("a loop", () => {
  it("says how often and what came of it last, and before that how it was declared", () => {
    expect(loopWords(node({ kind: "phase" }), then([task()]), "until good")).toBe("until good");
    const rounds = [{ start_ms: 0, end_ms: 1, verdict: "sent back" }, { start_ms: 2, end_ms: 3, verdict: "approved" }];
    expect(loopWords(node({ kind: "phase" }), then([task({ rounds })]), "until good")).toBe("2 rounds · approved");
  });
});

describe("words in the graph", () => {
  it("have no signs of Markdown", () => {
    expect(toPlain("## Tides\n\n**3:07** holds, `so`.\n")).toBe("Tides 3:07 holds, so.");
  });
});

describe("an edge", () => {
  it("is the wider the more was handed over, and thin where nobody knows", () => {
    expect([widthOfEdge(null), widthOfEdge(0), widthOfEdge(10)]).toEqual([1.5, 1.5, 1.5]);
    expect(widthOfEdge(3000)).toBeCloseTo(3.5);
    expect(widthOfEdge(1e9)).toBe(6);
  });
});
