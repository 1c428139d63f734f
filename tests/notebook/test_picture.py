"""Static pictures: what stays when nothing can move (W14, C30)."""

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from nbconvert.preprocessors.sanitize import SanitizeHTML

from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.notebook.picture.static_picture import (
    LONGEST_TEXT,
    TRACE_MIME,
    make_messages,
    make_output_bundle,
    make_plan_bundle,
    render_chart_html,
    render_chart_text,
)
from ensemble_notebook.testing.event_builder import EventBuilder
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

# What JupyterLab's sanitiser leaves in an untrusted notebook, of what is used here; it takes out scripts, style sheets
# and SVG with everything in them.
KEPT_BY_JUPYTERLAB = {
    *("div", "span", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
}


class Elements(HTMLParser):
    """All start tags with their attributes, and the visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def bundle_of(events) -> dict:
    return make_output_bundle(SimpleNamespace(trace=ExecutionTrace.from_events(events), late_warnings=()))


@pytest.fixture
def hostile():
    """A run in which every text that a person or a model writes tries to break out."""
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b]0;title\x07"
    build = EventBuilder({f"a {evil}": (), "b": [f"a {evil}"]}, agents={"b": evil}, name=evil)
    build.warn(evil)
    with build.task(f"a {evil}"), build.turn():
        build.llm(evil)
    with build.task("b"):
        build.fail(ValueError(evil))
    return bundle_of(build.finish())


@pytest.fixture
def ordinary():
    build = EventBuilder({"plan": (), "draft": ["plan"]}, name="report")
    with build.task("plan"), build.turn():
        build.llm("A plan.", seconds=2)
    with build.task("draft"), build.turn():
        build.llm("A draft. " * 1000, seconds=1)
    return bundle_of(build.finish())


@pytest.mark.parametrize("picture", ["hostile", "ordinary"])
def test_html_holds_only_what_sanitisers_leave_alone(picture, request):
    html = request.getfixturevalue(picture)["text/html"]
    elements = Elements(html)
    assert elements.open == []
    assert {tag for tag, _ in elements.found} <= KEPT_BY_JUPYTERLAB
    assert {name for _, attributes in elements.found for name in attributes} <= {"style", "colspan"}
    assert "url(" not in html


@pytest.mark.parametrize("picture", ["hostile", "ordinary"])
def test_sanitised_html_says_the_same(picture, request):
    html = request.getfixturevalue(picture)["text/html"]
    sanitised = SanitizeHTML(strip=True).sanitize_html_tags(html)
    assert Elements(sanitised).text.replace("\n", "") == Elements(html).text.replace("\n", "")


def test_bars_can_be_read_without_styles(ordinary):
    bare = re.sub(r' style="[^"]*"', "", ordinary["text/html"])
    rows = [Elements(row).text for row in re.findall(r"<tr>(.*?)</tr>", bare)]
    assert "✓ plan" in rows[1]
    assert "█" * 27 in rows[1]
    assert "\xa0" * 26 + "█" * 14 in rows[2]


def test_html_in_any_text_shows_as_text(hostile):
    assert "&lt;script&gt;" in hostile["text/html"]
    assert "onerror" not in " ".join(str(attributes) for _, attributes in Elements(hostile["text/html"]).found)


def test_plain_text_has_no_control_characters(hostile):
    assert "\x1b" not in hostile["text/plain"]
    assert "\x07" not in hostile["text/plain"]


def test_plain_text_is_a_table_with_a_status_line(ordinary):
    lines = ordinary["text/plain"].splitlines()
    assert lines[0].startswith("✓ completed · report · 3.0 s · 2/2 tasks · 30 tokens in 2 model calls")
    assert lines[1].split() == ["task", "agent", "0", "s", "3.0", "s", "time", "tokens"]
    assert [line.split()[:3] for line in lines[2:4]] == [["✓", "plan", "Writer"], ["✓", "draft", "Writer"]]
    assert len({line.index("Writer") for line in lines[2:4]}) == 1


def test_long_outputs_are_cut_and_say_so(ordinary):
    written = Elements(ordinary["text/html"]).text
    told = "\n[7,000 more characters are left out here. All of it: output['"
    assert ("A draft. " * 1000)[:LONGEST_TEXT] + told in written
    assert ("A draft. " * 1000)[: LONGEST_TEXT + 1] not in written


def test_saved_trace_is_json_and_bounded():
    build = EventBuilder({f"t{number}": () for number in range(60)})
    for number in range(60):
        with build.task(f"t{number}"), build.turn():
            build.llm("x" * 10_000)
    saved = bundle_of(build.finish())[TRACE_MIME]
    assert saved["kind"] == "saved"
    assert len(json.dumps(saved)) <= 200_000
    assert saved["details_left_out"] > 0


def test_run_without_an_end_has_a_picture_too():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm()
        chart = make_chart(TimelineMessages(TraceFold.from_events(build.events)).make_snapshot())
    assert render_chart_text(chart).startswith("● running")
    assert "running" in Elements(render_chart_html(chart)).text


def test_plan_has_a_picture():
    plan = EventBuilder({"a": (), "b": ["a"]}).events[1].plan
    bundle = make_plan_bundle(plan, "starting")
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("○ starting · 2 tasks")
    assert {tag for tag, _ in Elements(bundle["text/html"]).found} <= KEPT_BY_JUPYTERLAB


def test_a_view_knows_what_the_notebook_calls_the_output(shell):
    shell.run("from ensemble_notebook import ScriptedChatModel\nmodel = ScriptedChatModel(default='A draft.')")
    shell.run("%%ensemble -o report\nllm: model\ntasks: {draft: Write}")
    output = shell.names["report"]
    assert make_messages(output).make_snapshot()["run"]["variable"] == "report"
    shell.run("_ = report; del report")
    assert make_messages(output).make_snapshot()["run"]["variable"] is None
    shell.run("%%ensemble\nllm: model\ntasks: {draft: Write}")
    assert make_messages(shell.names["_ensemble"]).make_snapshot()["run"]["variable"] == "_ensemble"


def test_trace_of_a_run_shows_what_its_output_shows():
    build = EventBuilder({"find": ()}, agents={"find": "Ana"})
    with build.task("find"), build.turn():
        build.llm("The tide turns.", input_tokens=10, output_tokens=4)
    bundle = ExecutionTrace.from_events(build.finish())._repr_mimebundle_()
    assert {"text/plain", "text/html", TRACE_MIME} <= set(bundle)
    assert "find" in Elements(bundle["text/html"]).text
