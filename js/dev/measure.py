"""What the built view costs in the system's Chromium: first paint, pan, live batches, and whether it rests when idle.

Usage: python js/dev/measure.py
"""

from __future__ import annotations

import json

from playwright.sync_api import sync_playwright
from shots import FLAGS, serve

COUNT_CALLBACKS = """
() => {
  window.calls = 0;
  for (const name of ["requestAnimationFrame", "setTimeout", "setInterval"]) {
    const original = window[name].bind(window);
    window[name] = (act, ...rest) => original((...values) => { window.calls += 1; return act(...values); }, ...rest);
  }
}
"""

# Calls what the page calls, in the page, and waits for the frame in which it was painted.
FIRST_PAINT = """
async ([tasks, calls]) => {
  const model = new FakeModel();
  model.snapshot = crowd(tasks, calls);
  place.replaceChildren();
  const end = new AbortController();
  const began = performance.now();
  await widget.render({ model, el: place, signal: end.signal });
  const canvas = place.querySelector("canvas");
  const isPainted = () => canvas.width > 0 && canvas.getContext("2d").getImageData(600, 0, 100, 300).data.some((v) => v > 0);
  let painted = 0;
  for (let k = 0; k < 40; k += 1) {
    await new Promise((done) => requestAnimationFrame(done));
    painted = performance.now();
    if (isPainted()) break;
  }
  window.current = { model, end, canvas };
  return painted - began;
}
"""

PAN = """
async () => {
  const { canvas } = current;
  const box = canvas.getBoundingClientRect();
  const send = (type, x) => canvas.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: box.top + 100, button: 0, pointerId: 1 }));
  canvas.setPointerCapture = () => {};
  send("pointerdown", box.left + 400);
  const costs = [];
  for (let k = 0; k < 60; k += 1) {
    await new Promise((done) => requestAnimationFrame(done));
    const began = performance.now();
    send("pointermove", box.left + 400 - 3 * (k + 1));
    await new Promise((done) => requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0); }));
    costs.push(performance.now() - began);
  }
  send("pointerup", box.left);
  costs.sort((a, b) => a - b);
  return { median: costs[30], p95: costs[57] };
}
"""

BATCH = """
() => {
  const { model } = current;
  const rows = model.snapshot.rows.filter((row) => row.kind !== "task").slice(0, 200).map((row) => ({ ...row, end_ms: row.end_ms + 1 }));
  const costs = [];
  for (let k = 1; k <= 30; k += 1) {
    const message = { kind: "delta", from: k, n: k + 1, run: { ...model.snapshot.run, elapsed_ms: 9e6 + k }, rows: rows.map((row) => ({ ...row })), text: [] };
    const began = performance.now();
    model.post(message);
    costs.push(performance.now() - began);
  }
  costs.sort((a, b) => a - b);
  return { median: costs[15], p95: costs[28] };
}
"""


def main() -> None:
    found: dict[str, object] = {}
    with serve() as base, sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 700}, device_scale_factor=2)
        page.goto(f"{base}?empty")
        page.wait_for_selector("body[data-ready]")
        for name, shape in (("10,000 spans", [100, 100]), ("100,000 spans", [100, 1000])):
            page.evaluate(FIRST_PAINT, shape)
            found[f"first paint, {name}, ms"] = round(page.evaluate(FIRST_PAINT, shape), 1)
            found[f"pan, {name}, ms"] = page.evaluate(PAN)
            found[f"batch of 200, {name}, ms"] = page.evaluate(BATCH)
        page = browser.new_page(viewport={"width": 900, "height": 700})
        page.add_init_script(f"({COUNT_CALLBACKS})()")
        page.goto(f"{base}?from=14500")
        page.wait_for_selector("body[data-ready]")
        page.wait_for_timeout(1000)
        before = page.evaluate("calls")
        page.wait_for_timeout(3000)
        found["callbacks in 3 s after the end"] = page.evaluate("calls") - before
        browser.close()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
