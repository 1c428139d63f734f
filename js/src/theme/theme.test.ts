// @vitest-environment jsdom

// Holds W11: the palette follows what lies behind the view.

import { afterEach, beforeEach, expect, it } from "vitest";
import { PALETTES } from "./palette";
import { applyTheme, watchTheme } from "./theme";

let root: HTMLElement;

beforeEach(() => {
  root = document.body.appendChild(document.createElement("section")).appendChild(document.createElement("div"));
});

afterEach(() => {
  document.body.replaceChildren();
  document.body.removeAttribute("style");
  document.body.removeAttribute("class");
});

it("takes the palette that can be seen on what lies behind it", () => {
  expect(applyTheme(root).colorScheme).toBe("light");
  document.body.style.backgroundColor = "rgb(17, 17, 17)";
  expect(applyTheme(root)).toMatchObject({ colorScheme: "dark", hues: PALETTES.dark });
  expect(root.dataset.theme).toBe("dark");
  expect(root.style.getPropertyValue("--et-llm")).toBe(PALETTES.dark.llm);
});

it("looks through see-through ancestors to the nearest that isn't", () => {
  document.body.style.backgroundColor = "rgb(17, 17, 17)";
  (root.parentElement as HTMLElement).style.backgroundColor = "rgba(255, 255, 255, 0.1)";
  expect(applyTheme(root).colorScheme).toBe("dark");
  (root.parentElement as HTMLElement).style.backgroundColor = "rgb(250, 250, 250)";
  expect(applyTheme(root).colorScheme).toBe("light");
});

it("looks out of a shadow root", () => {
  document.body.style.backgroundColor = "rgb(17, 17, 17)";
  const inner = (root.parentElement as HTMLElement).attachShadow({ mode: "open" }).appendChild(document.createElement("div"));
  expect(applyTheme(inner).colorScheme).toBe("dark");
});

it("notices that the page changed its theme, until it ends", async () => {
  let changes = 0;
  const end = new AbortController();
  watchTheme(root, () => (changes += 1), end.signal);
  document.body.className = "dark";
  await Promise.resolve();
  expect(changes).toBe(1);
  end.abort();
  document.body.className = "light";
  await Promise.resolve();
  expect(changes).toBe(1);
});
