// What the built view costs the main thread of this page: `python -m benchmarks timeline` loads it and judges the numbers.

import { cellsOf, mapOf, variantsOf } from "./many.js";
import { crowd } from "./scenario.js";

/** Where nothing is judged, as few frames as show that something moves: thirty, from one end of a drag to the other. */
const IS_QUICK = new URLSearchParams(location.search).has("quick");
const FRAMES = IS_QUICK ? 30 : 90;
const BATCHES = IS_QUICK ? 10 : 40;
const BATCH = 200;

/** Makes a view in an empty place; `measure` ends it. */
async function show(widget, FakeModel, place, snapshot) {
  const model = new FakeModel();
  model.snapshot = snapshot;
  const end = new AbortController();
  place.replaceChildren();
  await widget.render({ model, el: place, signal: end.signal });
  return { model, end, canvas: place.querySelector("canvas") };
}

/** Until the view listens to the pointer, which it begins to after its first frames. */
async function settle() {
  for (let k = 0; k < 5; k += 1) await frame();
  await new Promise((done) => setTimeout(done, 100));
}

const frame = () => new Promise((done) => requestAnimationFrame(done));

/** After the frame that has just begun: its scripts, styles, layout and painting are done then. */
const frameEnd = () => new Promise((done) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done(performance.now());
  channel.port2.postMessage(0);
});

/** Does something and waits for the frame after it. The mark is how a recording of this page knows one frame from the next. */
async function markedFrame(act) {
  performance.mark("frame");
  act();
  await frame();
  await frameEnd();
}

/** Milliseconds from a snapshot's arrival to the first frame in which the chart has bars. */
export async function firstPaint(parts, tasks, calls) {
  const snapshot = crowd(tasks, calls);
  await frame();
  const began = performance.now();
  const { end, canvas } = await show(parts.widget, parts.FakeModel, parts.place, snapshot);
  const ctx = canvas.getContext("2d");
  // Bars have a colour; rows and grid, which are all of an empty chart, are grey.
  const isPainted = () => {
    if (canvas.width === 0) return false;
    const { data } = ctx.getImageData(600, 80, 400, 400);
    for (let k = 0; k < data.length; k += 4) if (data[k + 3] > 0 && (calls === 0 || Math.abs(data[k + 2] - data[k]) > 60)) return true;
    return false;
  };
  let painted = performance.now();
  for (let k = 0; k < 40 && !isPainted(); k += 1) {
    await frame();
    painted = await frameEnd();
  }
  end.abort();
  return painted - began;
}

/** Where the first bar of the picture stands that is no frame around others. */
const placeOf = (canvas) => {
  const bar = canvas.listBars().find(({ shape }) => shape !== "task");
  return `${bar?.span} ${bar?.x}`;
};

/** The bars in the picture, without the frames of tasks: those grow by the clock alone, whether or not anything is painted. */
const listSpans = (canvas) => JSON.stringify(canvas.listBars().filter(({ shape }) => shape !== "task"));

/** Opens what `View` opens, and gives its buttons by name. */
async function openView(place) {
  [...place.querySelectorAll("button")].find((button) => button.textContent === "View").click();
  for (let k = 0; k < 100 && !place.querySelector(".et-choice"); k += 1) await frame();
  return new Map([...place.querySelectorAll(".et-choice")].map((button) => [button.textContent, button]));
}

/** Marked frames, each of which brings the rows together by something else. */
export async function group(parts, tasks, calls) {
  const { end } = await show(parts.widget, parts.FakeModel, parts.place, crowd(tasks, calls));
  await settle();
  const buttons = await openView(parts.place);
  let where = "";
  const names = ["Agent", "Tool", "Status", "Model", "Phase and task"];
  for (let k = 0; k < 5 * names.length; k += 1) {
    await markedFrame(() => buttons.get(names[k % names.length]).click());
    const now = parts.place.querySelector(".et-row").textContent;
    if (calls > 0 && now === where) throw new Error(`the rows stayed as they were by ${names[k % names.length]}`);
    where = now;
  }
  performance.mark("frame");
  end.abort();
}

/**
 * Marked frames while a pointer drags the chart to and fro, zoomed in a little, so that most of the run is in the picture;
 * with rows that are grouped by what this button says, the first group of them open.
 */
export async function pan(parts, tasks, calls, grouping = null) {
  const { end, canvas } = await show(parts.widget, parts.FakeModel, parts.place, crowd(tasks, calls));
  await settle();
  if (grouping) {
    (await openView(parts.place)).get(grouping).click();
    await settle();
    parts.place.querySelector(".et-fold").click();
    await settle();
  }
  const box = canvas.getBoundingClientRect();
  const send = (type, x) => canvas.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: box.top + 100, button: 0, pointerId: 1, bubbles: true }));
  canvas.setPointerCapture = () => {};
  canvas.dispatchEvent(new WheelEvent("wheel", { ctrlKey: true, deltaY: -90, clientX: box.left + 300, clientY: box.top + 100, bubbles: true, cancelable: true }));
  await settle();
  let x = box.left + 400;
  let where = placeOf(canvas);
  send("pointerdown", x);
  for (let k = 0; k < FRAMES; k += 1) {
    x += k % 60 < 30 ? -5 : 5;
    await markedFrame(() => send("pointermove", x));
    if (k % 30 !== 29) continue;
    // A picture that stands still costs nothing, and would be a fine result of nothing.
    if (calls > 0 && placeOf(canvas) === where) throw new Error(`the chart did not move by frame ${k}`);
    where = placeOf(canvas);
  }
  performance.mark("frame");
  send("pointerup", x);
  end.abort();
}

/** What a person may do first, and what is in the page then. */
const FIRST = {
  pan: [drag, () => true],
  drawer: [(place) => press(place, "ArrowDown", "ArrowDown", "Enter"), (place) => place.querySelector(".et-panel")?.textContent],
  table: [(place) => press(place, "t"), (place) => place.querySelector(".et-grid-row")],
  search: [search, (place) => / of /.test(place.querySelector(".et-found")?.textContent)],
  rows: [(place) => press(place, "Home", "ArrowRight"), (place) => place.querySelectorAll(".et-row").length > 2],
};

function press(place, ...keys) {
  const gutter = place.querySelector(".et-gutter");
  gutter.focus();
  for (const key of keys) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

function drag(place) {
  const canvas = place.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  canvas.setPointerCapture = () => {};
  canvas.dispatchEvent(new WheelEvent("wheel", { ctrlKey: true, deltaY: -90, clientX: box.left + 300, clientY: box.top + 100, bubbles: true, cancelable: true }));
  for (const [type, x] of [["pointerdown", 400], ["pointermove", 380], ["pointerup", 380]]) {
    canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + 100, button: 0, pointerId: 1, bubbles: true }));
  }
}

function search(place) {
  const field = place.querySelector(".et-search input");
  field.value = "search";
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Marked frames from the first time that something is done in a view on, until it shows; `noun` is what the run is of. */
export async function first(parts, tasks, calls, noun, what) {
  const snapshot = crowd(tasks, calls);
  snapshot.run.task_noun = noun;
  const { end } = await show(parts.widget, parts.FakeModel, parts.place, snapshot);
  await settle();
  const [act, isDone] = FIRST[what];
  for (let k = 0; k < 6; k += 1) await markedFrame(() => {});
  await markedFrame(() => act(parts.place));
  for (let k = 0; k < 10 || (k < 300 && !isDone(parts.place)); k += 1) await markedFrame(() => {});
  performance.mark("frame");
  if (!isDone(parts.place)) throw new Error(`what was done first does not show: ${what}`);
  end.abort();
}

/** Marked frames, in each of which a key leads a page further: through very many rows to the last one, in a few to and fro. */
export async function pageDown(parts, tasks, calls) {
  const { end } = await show(parts.widget, parts.FakeModel, parts.place, crowd(tasks, calls));
  await settle();
  press(parts.place, "Home");
  await frame();
  const rowOf = () => parts.place.querySelector(".et-row[aria-selected=true]")?.getAttribute("aria-rowindex");
  const isFew = parts.place.querySelectorAll(".et-row").length >= tasks;
  for (let [k, before, at] = [0, "", rowOf()]; isFew ? k < FRAMES : at !== before; k += 1) {
    await markedFrame(() => press(parts.place, isFew && k % 2 ? "PageUp" : "PageDown"));
    [before, at] = [at, rowOf()];
    if (k < 10 && at === before) throw new Error(`no other row is selected at frame ${k}`);
  }
  performance.mark("frame");
  end.abort();
}

/** Marked frames while a pointer drags the playhead of a run that is over to and fro over all of it. */
export async function playhead(parts, tasks, calls) {
  const { end, canvas } = await show(parts.widget, parts.FakeModel, parts.place, crowd(tasks, calls));
  await settle();
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }));
  let track = null;
  for (let k = 0; k < 200 && track === null; k += 1) {
    await frame();
    track = parts.place.querySelector(".et-playhead-track");
  }
  track.setPointerCapture = () => {};
  track.hasPointerCapture = () => true;
  const { left, width } = track.getBoundingClientRect();
  const send = (type, x) => track.dispatchEvent(new PointerEvent(type, { clientX: x, button: 0, pointerId: 1, bubbles: true }));
  send("pointerdown", left + width / 2);
  await settle();
  const counts = new Set();
  for (let k = 0; k < FRAMES; k += 1) {
    const share = Math.abs(((k / 30) % 2) - 1);
    await markedFrame(() => send("pointermove", left + 10 + (width - 40) * share));
    if (k % 10 === 9) counts.add(canvas.listBars().length);
  }
  performance.mark("frame");
  if (calls > 1 && counts.size < 3) throw new Error("the bars did not follow the playhead");
  end.abort();
}

/** The snapshot of a crowd in which nothing but the tasks has begun, and the rest in batches in order of time. */
function makeLive(tasks, calls) {
  const whole = crowd(tasks, calls);
  const run = { ...whole.run, status: "running", tasks_total: tasks, tasks_done: 0, active: [] };
  const own = whole.rows.filter((row) => row.kind === "task").map((row) => ({ ...row, status: "running", end_ms: null }));
  const spans = whole.rows.filter((row) => row.kind !== "task").sort((a, b) => a.start_ms - b.start_ms);
  return { snapshot: { ...whole, run: { ...run, elapsed_ms: 0 }, rows: own }, run, spans };
}

/** Marked frames while batches of 200 spans over all tasks arrive ten times a second, until the run has them all. */
export async function live(parts, tasks, calls) {
  const { snapshot, run, spans } = makeLive(tasks, calls);
  const { model, end, canvas } = await show(parts.widget, parts.FakeModel, parts.place, snapshot);
  await settle();
  let [n, at, due] = [1, 0, performance.now()];
  for (let k = 0; k < FRAMES || at < spans.length; k += 1) {
    await markedFrame(() => {
      if (performance.now() < due || at >= spans.length) return;
      due += 100;
      const rows = spans.slice(at, at + BATCH);
      at += BATCH;
      model.post({ kind: "delta", from: n, n: n + 1, run: { ...run, elapsed_ms: rows.at(-1).end_ms }, rows, text: [] });
      n += 1;
    });
  }
  performance.mark("frame");
  if (canvas.listBars().every(({ shape }) => shape === "task")) throw new Error("no bar of the batches is in the picture");
  end.abort();
}

/** Marked frames, each with fold, layout and drawing of 200 changed spans, spread over all tasks of a live run that has all its spans. */
export async function batch(parts, tasks, calls) {
  const { snapshot, run, spans } = makeLive(tasks, calls);
  const { model, end, canvas } = await show(parts.widget, parts.FakeModel, parts.place, { ...snapshot, rows: [...snapshot.rows, ...spans] });
  await settle();
  const before = listSpans(canvas);
  for (let n = 1; n <= BATCHES; n += 1) {
    // In order of time the tasks take turns, so that the last ones are of all tasks.
    const rows = spans.slice(-BATCH).map((row) => ({ ...row, end_ms: row.end_ms + n / 10 }));
    const message = { kind: "delta", from: n, n: n + 1, run: { ...run, elapsed_ms: calls * 100 + n }, rows, text: [] };
    await markedFrame(() => model.post(message));
  }
  performance.mark("frame");
  if (spans.length > 0 && listSpans(canvas) === before) throw new Error(`the batches changed no bar of ${spans.length}`);
  end.abort();
}

/** Shows a map, and its table in place of the bars; gives what ends it, and how long that took from the click to the picture. */
async function showGrid(parts, snapshot, scene = {}) {
  const { model, end } = await show(parts.widget, parts.FakeModel, parts.place, snapshot);
  model.scene = { ...model.scene, ...scene };
  await settle();
  const press = (name) => [...parts.place.querySelectorAll("button")].find((button) => button.textContent === name)?.click();
  const began = performance.now();
  press("Grid");
  for (let k = 0; k < 100 && !parts.place.querySelector("[data-answer]"); k += 1) await frame();
  const field = parts.place.querySelector(".et-answers-field");
  const lines = Number(field?.ariaRowCount ?? field?.getAttribute("aria-rowcount")) - 1;
  if (!(lines > 0)) throw new Error("the table has no lines");
  return { end, field, took: (await frameEnd()) - began };
}

/** Shows a run that Python has made, and its graph in place of the bars; how long that took from the click to the picture. */
async function showGraph(parts, snapshot, graph) {
  // As another run, since a view takes over what the one before it had.
  const run = { ...snapshot.run, run_id: crypto.randomUUID() };
  const { model, end } = await show(parts.widget, parts.FakeModel, parts.place, { ...snapshot, run });
  const send = model.send.bind(model);
  model.send = (content) => (content.kind === "graph" ? model.post(graph) : send(content));
  await settle();
  const count = graph.graphs.aggregated.nodes.count;
  const began = performance.now();
  [...parts.place.querySelectorAll("button")].find((button) => button.textContent === "Graph")?.click();
  for (let k = 0; k < 200 && parts.place.querySelectorAll(".et-node").length < count; k += 1) await frame();
  const shown = parts.place.querySelectorAll(".et-node").length;
  if (shown !== count) throw new Error(`the graph has ${shown} nodes of ${count}`);
  return { model, run, end, took: (await frameEnd()) - began };
}

/** Milliseconds from the click on `Graph` to the first frame with all nodes. */
export async function graphOpened(parts, snapshot, graph) {
  const { end, took } = await showGraph(parts, snapshot, graph);
  end.abort();
  return took;
}

/** Marked frames, in each of which another task of a graph begins, and one ends. */
export async function graphLive(parts, snapshot, graph) {
  const { model, run, end } = await showGraph(parts, snapshot, graph);
  const tasks = snapshot.rows.filter((row) => row.kind === "task");
  let n = snapshot.n;
  for (let k = 0; k < FRAMES; k += 1) {
    const [old, next] = [tasks[k % tasks.length], tasks[(k + 1) % tasks.length]];
    const rows = [{ ...old, status: "ok", start_ms: k, end_ms: k + 900 + k, input_tokens: k, output_tokens: k }, { ...next, status: "running", start_ms: k, end_ms: null }];
    const message = { kind: "delta", version: snapshot.version, from: n, n: (n += 1), run: { ...run, elapsed_ms: 100 * k }, rows, text: [] };
    await markedFrame(() => model.post(message));
  }
  performance.mark("frame");
  const done = parts.place.querySelectorAll('.et-node[data-status="ok"]').length;
  if (done < Math.min(FRAMES, tasks.length) - 10) throw new Error(`only ${done} nodes have changed`);
  end.abort();
}

/**
 * Marked frames of a run of which so many tasks have a reply that comes, a few words of each ten times a second: as bars, or as the
 * graph where one is given.
 */
export async function streams(parts, snapshot, graph, count) {
  const tasks = snapshot.rows.filter((row) => row.kind === "task").slice(0, count);
  const calls = tasks.map(({ span_id }, k) => ({ span_id: `call ${k}`, parent_id: span_id, kind: "llm", name: "writer", status: "running", start_ms: 10 * k }));
  const run = { ...snapshot.run, status: "running", active: calls.map(({ span_id, kind, name }) => ({ span_id, kind, name })) };
  const rows = [...snapshot.rows.map((row) => (tasks.includes(row) ? { ...row, status: "running", start_ms: 0, end_ms: null } : row)), ...calls];
  const whole = { ...snapshot, run, rows };
  const { model, end } = graph ? await showGraph(parts, whole, graph) : await show(parts.widget, parts.FakeModel, parts.place, whole);
  const { run_id } = graph ? model.snapshot.run : run;
  await settle();
  let [n, due, said] = [snapshot.n, performance.now(), 0];
  for (let k = 0; k < 2 * FRAMES; k += 1) {
    await markedFrame(() => {
      if (performance.now() < due) return;
      due += 100;
      const text = calls.map(({ span_id }) => [span_id, `word ${said} of many `]);
      model.post({ kind: "delta", version: snapshot.version, from: n, n: (n += 1), run: { ...run, run_id, elapsed_ms: 100 * said }, rows: [], text });
      said += 1;
    });
  }
  performance.mark("frame");
  const countTold = () => [...parts.place.querySelectorAll(".et-node-said[data-is=words]")].filter((each) => each.textContent.includes(`word ${said - 1} `)).length;
  // A page that is slower than what comes takes it in later.
  for (let k = 0; graph && k < 600 && countTold() !== count; k += 1) await frame();
  if (graph && countTold() !== count) throw new Error(`${countTold()} nodes have words of ${count}`);
  end.abort();
}

/** Milliseconds from the click on `Grid` to the first frame with answers. */
export async function gridOpened(parts, rows, tasks) {
  const { end, took } = await showGrid(parts, mapOf(rows, tasks));
  end.abort();
  return took;
}

/** Marked frames while the table of a map under three variants is scrolled, far with each. */
export async function scrollTable(parts, rows) {
  const { end, field } = await showGrid(parts, variantsOf(rows, 3), { cellsOf });
  const step = Math.max(1, Math.floor((rows * 42) / FRAMES));
  const seen = new Set();
  for (let k = 0; k < FRAMES; k += 1) {
    await markedFrame(() => (field.scrollTop = k * step));
    seen.add(field.querySelector("[data-line] [role=rowheader]")?.textContent);
  }
  performance.mark("frame");
  if (rows > 1000 && seen.size < FRAMES / 4) throw new Error(`the table came by ${seen.size} rows`);
  end.abort();
}

/** How many animation frames and timers a view of a finished run asks for in this time, once it has settled. */
export async function callbacksAtRest(parts, tasks, calls, seconds) {
  const { end } = await show(parts.widget, parts.FakeModel, parts.place, crowd(tasks, calls));
  await new Promise((done) => setTimeout(done, 1000));
  let count = 0;
  const originals = {};
  for (const name of ["requestAnimationFrame", "setTimeout", "setInterval"]) {
    originals[name] = window[name];
    window[name] = (...values) => {
      count += 1;
      return originals[name].apply(window, values);
    };
  }
  await new Promise((done) => originals.setTimeout.call(window, done, seconds * 1000));
  Object.assign(window, originals);
  end.abort();
  return count;
}
