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

it("is silent about what has not begun", () => expect(new Announcer().next(run({ status: "pending" }), 0)).toBeNull());
