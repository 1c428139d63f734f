// Makes an explorable timeline of each run in a page: when it comes into view, or, where there is a button, at a click.
const part = (name) => fetch(new URL(name, import.meta.url)).then((found) => found.text());
const dress = () => new Promise((done) => {
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("timeline.css", import.meta.url), onload: done });
  document.head.append(link);
});
let loaded;
const load = () => (loaded ??= Promise.all([import("./timeline.js"), dress(), ...["details.js", "explorer.js", "views.js"].map(part)])
  .then(([view, , ...late]) => {
    view.keepLateTexts(...late);
    return view;
  }));

async function show(place) {
  const [view, run] = await Promise.all([load(), fetch(new URL(`runs/${place.dataset.run}`, import.meta.url)).then((found) => found.json())]);
  place.replaceChildren();
  view.renderSaved(place, run);
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    show(target);
  }
});
for (const place of document.querySelectorAll(".run[data-run]")) {
  const button = place.querySelector("button[data-explore]");
  if (button) button.addEventListener("click", () => show(place), { once: true });
  else seen.observe(place);
}
