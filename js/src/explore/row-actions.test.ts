// @vitest-environment jsdom

// Holds W157, W161 to W163: what is asked of the kernel about selected rows, and what is made of its answers.

import { h, render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, it } from "vitest";
import { KernelConnection } from "../kernel/connection";
import { run, snapshot } from "../testing/runs";
import { View } from "../view/view";
import { RowActions } from "./row-actions";
import { rowDeskOf } from "./row-desk";

const place = document.createElement("div");
afterEach(() => render(null, place));

function open(status: "completed" | "running" = "completed") {
  const sent: Record<string, unknown>[] = [];
  const connection = new KernelConnection((message) => void sent.push(message as never), () => 0);
  connection.store.fold(snapshot({ run: run({ status, task_noun: "row" }) }), 0);
  const view = new View(connection.store, new AbortController().signal);
  const tell = (more: object, at = -1) => act(() => connection.receive({ kind: "tryout", number: sent.at(at)?.number, ...more }));
  const show = (kernel: KernelConnection | null = connection) => act(() => render(h(RowActions, { view, connection: kernel, noun: "row", before: null, after: null }), place));
  const press = (name: string) => act(() => [...place.querySelectorAll("button")].find(({ textContent }) => textContent === name)?.click());
  document.body.append(place);
  return { sent, connection, view, tell, show, press };
}

const OFFER = { count: 2, lacking: " 1 row never ran, and is left out.", tasks: ["write"], models: [{ name: "fast", cost: 0.5 }], judges: ["polite"], cost: 1.25, currency: "USD" };

it("asks for nothing until a way is chosen, and then what can be done (W157)", () => {
  const { sent, tell, show, press } = open();
  show();
  expect(sent.filter(({ kind }) => kind === "tryout").map(({ act }) => act)).toEqual(["tell_row_acts"]);
  press("Run again with…");
  expect(sent.at(-1)).toMatchObject({ kind: "tryout", act: "offer_rows", spans: [] });
  tell({ rows: OFFER });
  expect(place.textContent).toContain("likely $1.25");
  expect(place.textContent).toContain("1 row never ran");
  press("Run 2 again");
  expect(sent.at(-1)).toMatchObject({ act: "fork_rows", task: "write", change: {} });
});

it("says what goes on, what came of it, and what failed, each for itself (W161, W163)", () => {
  const { sent, connection, tell, show } = open();
  show();
  const desk = rowDeskOf(connection);
  act(() => desk.begin("judge_rows", ["a"], "Beginning", { judge: "polite" }));
  act(() => desk.begin("label_rows", ["b"], "Beginning", { value: true }));
  tell({ progress: "1 of 2 rows judged" }, -2);
  tell({ error: "There is no such row" });
  expect([...place.querySelectorAll("[data-state]")].map(({ textContent }) => textContent)).toEqual(["1 of 2 rows judgedStop", "There is no such row"]);
  const judging = sent.at(-2)?.number;
  act(() => place.querySelector<HTMLElement>("[data-state] button")?.click());
  expect(sent.at(-1)).toMatchObject({ act: "stop", of: judging });
  tell({ said: "polite: 1 of 2 passed.", variable: "answers" }, -3);
  expect(place.querySelector("[data-state]")?.textContent).toBe("polite: 1 of 2 passed. In the notebook: answers");
});

it("shows what another view began, or this page before it was loaded again (W157)", () => {
  const { connection, show } = open();
  show();
  act(() => connection.receive({ kind: "tryout", number: 7, row_act: "judge_rows", progress: "1 of 2 rows judged" } as never));
  act(() => connection.receive({ kind: "tryout", number: 8, row_act: "label_rows", said: "2 rows labelled 'good'." } as never));
  expect([...place.querySelectorAll("[data-state]")].map(({ textContent }) => textContent)).toEqual(["1 of 2 rows judgedStop", "2 rows labelled 'good'."]);
});

it("has no buttons without a kernel, and a line says what would bring them (W157)", () => {
  const { show } = open();
  show(null);
  expect(place.querySelector("button")).toBeNull();
  expect(place.textContent).toBe("Run the cell in a kernel to run these rows again, to label them or to send them to a judge.");
  const { show: showLive } = open("running");
  showLive();
  expect(place.textContent).toContain("Wait for the end of the run");
});
