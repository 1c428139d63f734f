"""Records the runs that the demos play: ``make demos`` has each team of `demo_teams` do its work once, in real time.

Each leaves three files in ``demos``: its cell, its trace, and what was said and done in it, for whoever forks it.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import ensemble_notebook
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.notebook.magics.demo_command import RUN_ID
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.demo_teams import TEAMS, DemoTeam

FOLDER: Final = Path(__file__).parents[2] / "demos"
LARGEST: Final = 500_000
"""Bytes of all together."""
_COSTS: Final = ("spanId", "cost", "costInput", "costOutput")


class Watcher:
    """Somebody who watches, so that models say their replies word by word."""

    wants_tokens: Final = True

    def on_event(self, _: object) -> None:
        """Look."""


def record(name: str, team: DemoTeam) -> None:
    """Record one."""
    (FOLDER / f"{name}.yaml").write_text(team.write_cell(), encoding="utf-8")
    ensemble: Any = render_view("from_cell", f"%%ensemble\n{team.cell}", team.make_names())
    if team.map:
        variants, rest = team.map["variants"], {name: each for name, each in team.map.items() if name != "variants"}
        result = ensemble.variants(variants).map(**rest)
        print(f"{name}: {result.compare()!r}")
        write_trace(name, result.trace)
        return
    output = ensemble.run(listeners=[Watcher()])
    print(f"{name}: {output!r}")
    write_trace(name, output.trace)
    said = (json.dumps(each(True), ensure_ascii=False) for each in output._journal.documents)
    # As the cell that ships would have asked: a fork compares who is asked, and what.
    text = re.sub("ScriptedChatModel scripted-(large|small)", "scripted", "".join(f"{line}\n" for line in said))
    (FOLDER / f"{name}.said.jsonl").write_text(text.replace(output.run_id, RUN_ID), encoding="utf-8")


def write_trace(name: str, trace: ExecutionTrace) -> None:
    """Write what a trace is made of, without what follows from that, so that it is a third as large."""
    document = trace.to_dict()
    costs = [{name: span[name] for name in _COSTS} for span in document["spans"] if "cost" in span]
    document |= {"taskTraces": [], "phases": [], "spans": costs}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / f"{name}.trace.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    ensemble_notebook.config.store = "off"
    FOLDER.mkdir(exist_ok=True)
    for each in sys.argv[1:] or TEAMS:
        record(each, TEAMS[each])
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"{size:,} bytes")
