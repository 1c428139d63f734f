// Holds W10: what is said to people who listen.

import { expect, it } from "vitest";
import { run } from "../testing/runs";
import { Announcer } from "./announcer";

it("says that a run began, then what is done, at most once in five seconds", () => {
  const announcer = new Announcer();
  expect(announcer.next(run(), 0)).toBe("report is running.");
  expect(announcer.next(run({ tasks_done: 1 }), 1000)).toBeNull();
  expect(announcer.next(run({ tasks_done: 1 }), 5000)).toBe("1 of 2 tasks done.");
  expect(announcer.next(run({ tasks_done: 1 }), 20_000)).toBeNull();
});

it("says errors and the end at once", () => {
  const announcer = new Announcer();
  announcer.next(run(), 0);
  expect(announcer.next(run({ error_count: 1 }), 10)).toBe("1 error so far in report.");
  const failed = run({ error_count: 1, status: "failed", elapsed_ms: 8000, error: { type: "E", message: "web failed." } });
  expect(announcer.next(failed, 20)).toBe("report failed after 8.0 s: web failed.");
  expect(announcer.next(failed, 30)).toBeNull();
});

it("says the end even when nothing was said before", () => {
  const done = run({ status: "completed", tasks_done: 2, elapsed_ms: 400 });
  expect(new Announcer().next(done, 0)).toBe("report completed in 400 ms: 2 tasks.");
});

it("reports no wish that nobody had", () => {
  const early = (exit_reason: string) => run({ status: "exited_early", elapsed_ms: 400, exit_reason });
  expect(new Announcer().next(early("user_exit_early"), 0)).toBe("report was ended early after 400 ms, as you wished.");
  const nobody = "report was ended early after 400 ms, since nobody could be asked.";
  expect(new Announcer().next(early("nobody_to_ask"), 0)).toBe(nobody);
});

it("is silent about what has not begun", () => expect(new Announcer().next(run({ status: "pending" }), 0)).toBeNull());

it("counts many items in place of their task (W25)", () => {
  const announcer = new Announcer();
  announcer.next(run(), 0);
  const many = { total: 1700, done: 148, failed: 3, start_ms: 0 };
  expect(announcer.next(run({ many }), 6000)).toBe("151 of 1,700 items ended.");
  expect(announcer.next(run({ many }), 12_000)).toBeNull();
});

it("tells of tasks that are at work, and not of their models", () => {
  const announcer = new Announcer();
  announcer.next(run(), 0);
  const active = [{ span_id: "l", kind: "llm", name: "scripted" }, { span_id: "m", kind: "llm", name: "scripted" }];
  expect(announcer.next(run({ tasks_done: 1, active }), 6000, ["draft", "check"])).toBe("1 of 2 tasks done; now draft, check.");
});

it("says how far a run had come whose kernel was restarted, in place of how it goes on", () => {
  const announcer = new Announcer();
  announcer.next(run(), 0);
  const broken = "interrupted, 10:52 PM · 1 of 3 tasks · 18 s";
  expect(announcer.next(run({ tasks_done: 1, tasks_total: 3 }), 6000, ["memo"], broken)).toBe(`report: ${broken}.`);
  expect(announcer.next(run({ status: "completed", tasks_done: 2 }), 7000)).toBe("report completed in 1.0 s: 2 tasks.");
});
