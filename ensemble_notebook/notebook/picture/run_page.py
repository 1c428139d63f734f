"""A run as one page of HTML (T13): a report, and in it the timeline with all that it needs, without a network.

The report is static. Where scripts run, the timeline takes the place of the static picture, but for paper.
What the page may do is said in its own security policy: run the one script that is in it and what that makes, and
fetch nothing. Texts of a run are data in it, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
from copy import copy
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.loaded_map import make_result
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.notebook.picture.map_report import write_map_report
from ensemble_notebook.notebook.picture.report import write_report
from ensemble_notebook.notebook.picture.static_picture import render_chart_html
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

MOST_BYTES: Final = 20_000_000
"""Of the run in a page; what there is no room for, the page counts."""

_STATIC: Final = Path(__file__).parents[2] / "static"

# The timeline's module exports what shows a saved run; it is made of its text, as what is loaded late is. The static
# picture stays for paper, where what is folded is open. The lists of the timeline have styles of their own.
_SCRIPT: Final = """
const { view, details, explorer, views, run } = JSON.parse(document.getElementById("parts").textContent);
const address = URL.createObjectURL(new Blob([view], { type: "text/javascript" }));
import(address).then(({ keepLateTexts, renderSaved }) => {
  keepLateTexts(details, explorer, views);
  document.body.classList.add("plays");
  renderSaved(document.getElementById("run"), run);
});
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open])")) each.open = true;
});
"""
STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 16px 24px 48px; max-width: 1600px; font: 15px/1.5 system-ui, sans-serif; }
body { background: #fff; color: #1d2026; overflow-wrap: anywhere; }
h1 { font-size: 28px; line-height: 1.2; margin: 12px 0 6px; }
h2 { font-size: 18px; margin: 32px 0 8px; padding-top: 10px; border-top: 1px solid rgba(128,128,128,.35); }
h3 { font-size: 15px; margin: 14px 0 4px; }
main > header > p, main > section > p { margin: 3px 0; max-width: 52rem; }
section > .ensemble-answer { max-width: 52rem; }
dl:where(:not(#run *)) {
  display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: 3px 16px; margin: 0; max-width: 52rem;
}
dt:where(:not(#run *)) { opacity: .75; }
dd:where(:not(#run *)) { margin: 0; white-space: pre-wrap; }
summary { cursor: pointer; }
.text { white-space: pre-wrap; }
.graph, .wide { overflow-x: auto; margin-bottom: 10px; }
.graph > div, .wide > div { overflow: visible !important; }
.passed { color: #1a7f37; }
.failed { color: #c4162f; }
.cards { border-collapse: collapse; font-size: 13px; }
.cards th, .cards td { text-align: left; vertical-align: top; padding: 4px 16px 4px 0; }
.cards th { font-weight: normal; opacity: .75; white-space: nowrap; }
.cards tr { border-bottom: 1px solid rgba(128,128,128,.25); }
.wide .cards td { min-width: 4rem; max-width: 30rem; overflow-wrap: break-word; }
body.plays #picture { display: none; }
@media (prefers-color-scheme: dark) {
  body { background: #16181d; color: #e6e8ec; }
  .passed { color: #4cc38a; }
  .failed { color: #ff8590; }
}
@media (max-width: 600px) {
  body { padding: 12px 12px 32px; }
  dl:where(:not(#run *)) { display: block; }
  dd:where(:not(#run *)) { margin: 0 0 8px; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards thead { display: none; }
  .cards tr { padding: 6px 0; }
  .cards td, .wide .cards td { padding: 0; max-width: none; }
  .cards td:empty { display: none; }
  .cards td:first-child { font-weight: 600; }
  .cards td:not(:first-child)::before { content: attr(data-head) ": "; opacity: .75; }
  .cards.short td:not(:first-child) { display: inline-block; margin-right: 14px; }
}
@media print {
  :root { color-scheme: light; }
  body { background: #fff; color: #000; padding: 0; }
  .passed { color: #1a7f37; }
  .failed { color: #c4162f; }
  #run { display: none; }
  body.plays #picture { display: block; }
  .graph, .wide { overflow: visible; }
  .graph { zoom: .65; }
  h2, h3 { break-after: avoid; }
  tr { break-inside: avoid; }
}
"""
_POLICY: Final = (
    "default-src 'none'; script-src 'sha256-{}' blob:; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{before}
<section><h2>Timeline</h2>
<div id="run"></div>
<div id="picture">{picture}</div>
</section>
{after}
</main>
<script id="parts" type="application/json">{parts}</script>
<script>{script}</script>
</body>
</html>
"""


def make_page(trace: ExecutionTrace) -> str:
    """The page of a run, over or not: of a map with its rows and verdict.

    Raises:
        StoreError: it is a map, which is damaged.
    """
    return _make_page(trace, make_result(trace) if trace.events else None)


def make_map_page(result: MapResult) -> str:
    """The page of the result of a map that had a row to run."""
    assert result.trace is not None
    return _make_page(result.trace, result)


def _make_page(trace: ExecutionTrace, made: MapResult | EnsembleOutput | None) -> str:
    messages = TimelineMessages(copy(trace._fold))
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode("ascii")
    parts = {
        "view": (_STATIC / "timeline.js").read_text(encoding="utf-8"),
        "details": (_STATIC / "details.js").read_text(encoding="utf-8"),
        "explorer": (_STATIC / "explorer.js").read_text(encoding="utf-8"),
        "views": (_STATIC / "views.js").read_text(encoding="utf-8"),
        "run": messages.make_saved_view(MOST_BYTES),
    }
    chart = make_chart(messages.make_outline(), messages.make_rows)
    if made is None or isinstance(made, EnsembleOutput):
        report = write_report(trace, made, chart)
    else:
        report = write_map_report(made, trace, chart)
    return _PAGE.format(
        policy=_POLICY.format(digest),
        title=escape(remove_control_characters(report.title)),
        style=STYLE + (_STATIC / "timeline.css").read_text(encoding="utf-8"),
        before=report.before,
        picture=render_chart_html(chart, messages.get_task_outputs(), "trace.task({}).output"),
        after=report.after,
        parts=json.dumps(parts, ensure_ascii=False).replace("<", "\\u003c"),
        script=_SCRIPT,
    )
