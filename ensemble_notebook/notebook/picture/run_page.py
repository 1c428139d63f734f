"""A run as one page of HTML (T13): the timeline with all that it needs, which any browser opens without a network.

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

from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.static_picture import make_last_bundle
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

MOST_BYTES: Final = 20_000_000
"""Of the run in a page; what there is no room for, the page counts."""

_STATIC: Final = Path(__file__).parents[2] / "static"

# The timeline's module exports what shows a saved run; it is made of its text, as what is loaded late is.
_SCRIPT: Final = """
const { view, details, explorer, run } = JSON.parse(document.getElementById("parts").textContent);
const address = URL.createObjectURL(new Blob([view], { type: "text/javascript" }));
import(address).then(({ keepLateTexts, renderSaved }) => {
  keepLateTexts(details, explorer);
  document.getElementById("picture").remove();
  renderSaved(document.getElementById("run"), run);
});
"""
_STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 16px; max-width: 1600px; font: 14px system-ui, sans-serif; }
body { background: #fff; color: #1d2026; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e6e8ec; } }
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
<main id="run"></main>
<div id="picture">{picture}</div>
<script id="parts" type="application/json">{parts}</script>
<script>{script}</script>
</body>
</html>
"""


def make_page(trace: ExecutionTrace) -> str:
    """The page of a run, over or not. A browser without scripts shows the static picture."""
    messages = TimelineMessages(copy(trace._fold))
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode("ascii")
    parts = {
        "view": (_STATIC / "timeline.js").read_text(encoding="utf-8"),
        "details": (_STATIC / "details.js").read_text(encoding="utf-8"),
        "explorer": (_STATIC / "explorer.js").read_text(encoding="utf-8"),
        "run": messages.make_saved_view(MOST_BYTES),
    }
    return _PAGE.format(
        policy=_POLICY.format(digest),
        title=escape(remove_control_characters(trace.name or f"run {trace.run_id}")),
        style=_STYLE + (_STATIC / "timeline.css").read_text(encoding="utf-8"),
        picture=make_last_bundle(messages, "trace.task({}).output")["text/html"],
        parts=json.dumps(parts, ensure_ascii=False).replace("<", "\\u003c"),
        script=_SCRIPT,
    )
