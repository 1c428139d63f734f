"""Exported pages are reports (T13): what a person reads first, for runs and maps, without scripts."""

from __future__ import annotations

import re
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    MapResult,
    ScriptedChatModel,
    Task,
    TaskInput,
)
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.notebook.picture import map_report
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.hostile_texts import KNOWN

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


class Reader(HTMLParser):
    """What a page says where no script runs."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()
        self._inside: list[str] = []
        self.instant = ""
        self.feed(page)
        self.text = " ".join(self.words)
        self.headings = re.findall(r"<h[12]>([^<]*)</h[12]>", page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside.append(tag)
        self.tags.add(tag)
        if tag == "time":
            self.instant = dict(attrs)["datetime"] or ""

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style", "title"} & {*self._inside} and data.strip():
            self.words.append(" ".join(data.split()))


def read(file: Path) -> Reader:
    return Reader(file.read_text(encoding="utf-8"))


def make_team(answer: str = "Tea is **old**.") -> Ensemble:
    researcher = Agent(role="Researcher", goal="find facts")
    tasks = [
        Task(
            description="Find facts about {topic}",
            name="research",
            agent=researcher,
            llm=ScriptedChatModel(default="Facts"),
        ),
        Task.of("Write about {topic}", name="write", llm=ScriptedChatModel(default=answer), context=["research"]),
    ]
    return Ensemble(tasks=tasks, name="report on tea")


def test_the_page_of_a_run_is_a_report_w158(tmp_path: Path) -> None:
    output = make_team().run(topic="green tea")
    page = read(output.export(tmp_path / "tea.html"))
    assert page.headings == [
        *("report on tea", "Question", "Answer", "Timeline", "Team", "Models and prices", "Definition")
    ]
    assert datetime.fromisoformat(page.instant) == output.trace.started_at
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page.text)
    assert "topic green tea" in page.text
    assert "Writer · write wrote: Tea is old ." in page.text
    assert page.text.index("Tea is") < page.text.index("Timeline") < page.text.index("Team")
    assert "Find facts about green tea" in page.text.split("Definition")[1]
    assert "per million in" in page.text


def test_a_run_without_an_answer_says_why_w158(tmp_path: Path) -> None:
    team = Ensemble(tasks=[Task.of("Go", name="go", handler=lambda _: 1 / 0)])
    with pytest.raises(EnsembleError) as failure:
        team.run()
    page = read(failure.value.output.export(tmp_path / "a.html"))
    assert "None: the run is failed. ZeroDivisionError" in page.text.split("Timeline")[0]


def test_a_report_without_texts_has_none_w158(tmp_path: Path) -> None:
    output = make_team("the secret sauce").replace(capture_mode=CaptureMode.METADATA).run(topic="the secret topic")
    page = output.export(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "secret" not in page
    assert "No texts of this run were kept." in page


def test_texts_of_anybody_stay_texts_in_a_report_w158(tmp_path: Path) -> None:
    texts = [HOSTILE, *KNOWN[::6]]
    tasks = [
        Task.of("Say {w} " + HOSTILE, name=f"say{place}", llm=ScriptedChatModel(default=text))
        for place, text in enumerate(texts)
    ]
    page = Ensemble(tasks=tasks, name=HOSTILE).run(w=HOSTILE).export(tmp_path / "a.html")
    assert page.read_text(encoding="utf-8").count("<script") == 2
    assert not {"img", "iframe", "a", "form", "input", "object"} & read(page).tags


def test_the_answer_of_a_loaded_run_is_not_its_reviewers_w158(tmp_path: Path) -> None:
    trace = tmp_path / "a.trace.json"
    make_team("the last word").run(topic="x").export(trace)
    assert "write wrote: the last word" in read(ExecutionTrace.load(trace).export(tmp_path / "a.html")).text


# --- Maps -------------------------------------------------------------------------------------------------------------


def is_short(output: EnsembleOutput) -> bool:
    return len(output.raw) < 8


def answer(task: TaskInput) -> str:
    if "fail" in task.description:
        raise ValueError(HOSTILE)
    return "4" if "tersely" in task.description else "It is **four**."


def map_sums(rows: list[dict[str, object]], **settings: Any) -> MapResult:
    team = Ensemble(tasks=[Task.of("Answer {q} {style}", name="add", handler=answer)], name="sums")
    return team.variants({word: {"style": word} for word in ("plainly", "tersely")}).map(rows, **settings)


def test_the_page_of_a_map_has_the_verdict_and_the_table_w159(tmp_path: Path) -> None:
    result = map_sums([{"q": f"2 + {place}"} for place in range(12)] + [{"q": "fail"}], score=is_short)
    page = read(result.export(tmp_path / "sums.html"))
    assert page.headings == ["sums", "Verdict", "Rows", "Timeline", "Team", "Definition"]
    verdict, rows = page.text.split("Timeline")[0].split("Rows row q")
    assert result.compare(failed="leave out").describe().splitlines()[0] in verdict
    heads = "plainly: answer plainly: is_short tersely: answer tersely: is_short"
    assert rows.startswith(f" {heads} 0 2 + 0 It is **four**.")
    assert rows.count("✓ passed") == 12
    assert "✗ failed Task 'add' (Handler) failed: ValueError: " in rows
    assert "img" not in page.tags
    assert read(result.trace.export(tmp_path / "trace.html")).headings == page.headings


def test_a_map_of_one_row_without_scores_has_a_page_w159(tmp_path: Path) -> None:
    team = Ensemble(tasks=[Task.of("Answer {q}", name="add", handler=answer)], name="sums")
    rows = [{"q": "2 + 2"}]
    result = team.map(rows)
    again = team.map(rows, resume=result)
    for number, each in enumerate((result, again)):
        page = read(each.export(tmp_path / f"{number}.html"))
        assert page.headings[:3] == ["sums", "Result", "Rows"]
        assert "It is **four**." in page.text
    assert "reused" in page.text.split("Timeline")[0]


def test_odd_values_of_rows_are_texts_that_are_cut_w159(tmp_path: Path) -> None:
    rows = [{"q": "y" * 1_000_000}, {"q": float("nan")}, {"q": {"a": [1, None]}}, {"q": HOSTILE}]
    file = map_sums(rows).export(tmp_path / "a.html")
    page = read(file)
    assert "[996,000 more characters]" in page.text
    assert '{"a": [1, null]}' in page.text
    assert file.read_text(encoding="utf-8").count("<script") == 2
    assert file.stat().st_size < 3_000_000


def test_a_page_says_which_rows_it_leaves_out_w159(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_report, "MOST_ROWS", 3)
    result = map_sums([{"q": f"2 + {place}"} for place in range(4)] + [{"q": "fail"}])
    page = read(result.export(tmp_path / "a.html"))
    said = "These are the first 3 of 5 rows. 2 are left out here, 2 of their runs failed: "
    assert said + 'result.export("rows.csv") writes all of them.' in page.text
    rows = page.text.split("Timeline")[0]
    assert "2 + 2" in rows
    assert "2 + 3" not in rows
