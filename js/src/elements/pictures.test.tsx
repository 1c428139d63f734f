// @vitest-environment jsdom

// Holds W167: what becomes a picture, and what stays a text.

import { render } from "preact";
import { expect, it } from "vitest";
import { findPictures, Pictures, pictureOf, shortenMarks } from "./pictures";

const [RED, PDF] = ["a1b2c3d4".repeat(8), "0".repeat(64)];
const TEXT = `Look at [picture sha256:${RED}] and [PDF of 2 pages sha256:${PDF}], and again [picture sha256:${RED}]`;
const KNOWN = { [RED]: ["scan.png · picture · 3 kB", "UklGRiQAAABXRUJQ"], [PDF]: ["report.pdf · PDF of 2 pages · 8 kB", null] };

it("shows each picture once, with its words, and a PDF in words alone (W167)", () => {
  const place = document.createElement("div");
  render(<Pictures pictures={findPictures(TEXT, KNOWN)} />, place);
  expect([...place.querySelectorAll("img")].map(({ src, alt }) => [src, alt])).toEqual([["data:image/webp;base64,UklGRiQAAABXRUJQ", "scan.png · picture · 3 kB"]]);
  expect([...place.querySelectorAll("figcaption")].map((each) => each.textContent)).toEqual(["scan.png · picture · 3 kB · a1b2c3d4", "report.pdf · PDF of 2 pages · 8 kB · 00000000"]);
  expect(shortenMarks(TEXT)).toBe("Look at [picture a1b2c3d4] and [PDF of 2 pages 00000000], and again [picture a1b2c3d4]");
});

it.each([
  ["https://example.org/a.png"], ["data:image/svg+xml;base64,PHN2Zz4="], ["UklG\" onerror=\"alert(1)"], ["A".repeat(20_001)], [7], [{}],
])("makes no image of what is no WebP from the trace: %j (W167)", (thumbnail) => {
  expect(pictureOf({ [RED]: ["<b>name</b>", thumbnail] }, RED)?.thumbnail).toBeNull();
});

it.each([[null], ["x"], [{ [RED]: "x" }], [{ [RED]: [7, "UklGRiQAAABXRUJQ"] }], [{ constructor: ["x"] }]])("finds nothing where the kernel knows nothing: %j (W167)", (known) => {
  expect(findPictures(`${TEXT} [picture sha256:constructor]`, known)).toEqual([]);
});
