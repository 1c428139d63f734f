"""Records the runs that the demos play: ``make demos`` has each team of `demo_teams` do its work once, in real time.

Each leaves three files in ``demos``: its cell, its trace, and what was said and done in it, for whoever forks it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import ensemble_notebook
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.notebook.magics.demo_command import RUN_ID
from tests.support.demo_teams import TEAMS, DemoTeam

FOLDER: Final = Path(__file__).parents[2] / "demos"
LARGEST: Final = 500_000
"""Bytes of all together."""


class Watcher:
    """Somebody who watches, so that models say their replies word by word."""

    wants_tokens: Final = True

    def on_event(self, _: object) -> None:
        """Look."""


def record(name: str, team: DemoTeam) -> None:
    """Record one."""
    cell = team.write_cell()
    (FOLDER / f"{name}.yaml").write_text(cell, encoding="utf-8")
    ensemble: Any = render_view("from_cell", f"%%ensemble\n{team.cell}", team.make_names())
    output = ensemble.run(listeners=[Watcher()])
    output.export(FOLDER / f"{name}.trace.json.gz")
    said = (json.dumps(each(True), ensure_ascii=False) for each in output._journal.documents)
    # As the cell that ships would have asked: a fork compares who is asked, and what.
    text = re.sub("ScriptedChatModel scripted-(large|small)", "scripted", "".join(f"{line}\n" for line in said))
    text = text.replace(output.run_id, RUN_ID)
    (FOLDER / f"{name}.said.jsonl").write_text(text, encoding="utf-8")
    print(f"{name}: {output!r}")


if __name__ == "__main__":
    ensemble_notebook.config.store = "off"
    FOLDER.mkdir(exist_ok=True)
    for each, its_team in TEAMS.items():
        record(each, its_team)
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"{size:,} bytes")
