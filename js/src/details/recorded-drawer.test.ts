// @vitest-environment jsdom
// The drawer on messages of real runs (T28): whatever a run consists of can be opened.

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { RECORDED } from "../testing/recorded";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

it.each(RECORDED.map((one): [string, typeof one] => [one.name, one]))("opens every row of %s", async (_, recorded) => {
  page.kernel.snapshot = recorded.final;
  page.show();
  await page.nextFrame();
  const count = page.place.querySelectorAll(".et-row").length;
  expect(count).toBeGreaterThan(0);
  for (let place = 0; place < count; place += 1) {
    page.place.querySelectorAll<HTMLElement>(".et-row")[place]?.click();
    await page.nextFrame();
    for (const { kind, span_id } of page.kernel.sent.splice(0)) {
      if (kind === "details" && typeof span_id === "string") page.kernel.post(recorded.details[span_id]);
    }
    await page.nextFrame();
    expect(page.place.querySelector(".et-drawer")?.textContent).toBeTruthy();
  }
  expect(page.place.textContent).not.toContain("undefined");
  expect(page.place.textContent).not.toContain("NaN");
});
