"""Static pictures: what stays when nothing can move (W14, C30)."""

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from nbconvert.preprocessors.sanitize import SanitizeHTML

from ensemble_notebook import (
    Agent,
    Ensemble,
    Phase,
    Reply,
    Review,
    ReviewDecision,
    ScriptedChatModel,
    Task,
    Tool,
    ToolUse,
    leave_pending,
)
from ensemble_notebook.domain.events import TaskCompleted, TaskFailed
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.notebook.live import run_display
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.notebook.picture.run_page import make_page
from ensemble_notebook.notebook.picture.static_picture import (
    LONGEST_TEXT,
    TRACE_MIME,
    make_first_bundle,
    make_interim_bundle,
    make_messages,
    make_output_bundle,
    make_trace_bundle,
    render_chart_html,
    render_chart_text,
)
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder

AT_A_TIME = r"\d+:\d\d [AP]M (?:UTC|GMT[+-][\d:]+)"
# What JupyterLab's sanitiser leaves in an untrusted notebook, of what is used here; it takes out scripts, style sheets
# and SVG with everything in them.
KEPT_BY_JUPYTERLAB = {
    *(
        "div",
        "span",
        "strong",
        "small",
        "code",
        "pre",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
    ),
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
    return make_output_bundle(SimpleNamespace(trace=ExecutionTrace.from_events(events), _late_warnings=()))


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
    assert "✓ Writer plan" in rows[1]
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


def test_phase_that_a_person_left_is_not_called_skipped_e27():
    asked = Task.of("Ask", name="ask", handler=lambda _: "x", review=Review(timing="after"))
    never = Task.of("Tell", name="tell", handler=lambda _: "y")
    leave = ReviewDecision.exit_early()
    output = Ensemble(phases=[Phase.of("talk", asked, never)], review_handler=lambda _: leave).run()
    lines = make_trace_bundle(output.trace)["text/plain"].splitlines()
    phase = next(at for at, line in enumerate(lines) if line.startswith("↷ talk"))
    assert lines[phase + 1].strip() == "↳ exited early: somebody chose to leave the run"


def test_long_outputs_are_cut_and_say_so(ordinary):
    written = Elements(ordinary["text/html"]).text
    told = "\n[7,000 more characters are left out here. All of it: output['"
    assert ("A draft. " * 1000)[:LONGEST_TEXT] + told in written
    assert ("A draft. " * 1000)[: LONGEST_TEXT + 1] not in written


def test_saved_trace_is_json_and_bounded():
    build = EventBuilder({f"t{number}": () for number in range(60)})
    for number in range(60):
        with build.task(f"t{number}"), build.turn():
            build.llm(f"{number} " * 4_000)
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


def test_picture_of_a_run_that_goes_on_says_how_far_it_has_come_and_is_small_w24():
    build = EventBuilder({f"t{number}": () for number in range(2000)})
    with build.task("t0"), build.turn():
        build.llm()
    build.wait(18)
    messages = TimelineMessages(TraceFold.from_events(build.events), lambda: build.now)
    bundle = make_interim_bundle(messages)
    assert set(bundle) == {"text/plain", "text/html"}
    said = rf"^● running when saved, {AT_A_TIME} · 1 of 2,000 tasks · {format_duration(build.now_s * 1000)} · "
    assert re.search(said, bundle["text/plain"])
    assert re.search(said.removeprefix("^"), Elements(bundle["text/html"]).text)
    assert sum(len(each.encode()) for each in bundle.values()) <= 20_000
    assert "more lines are not shown here" in bundle["text/plain"]


def test_exported_page_of_a_run_that_goes_on_says_so_w24():
    build = EventBuilder({"a": (), "b": ["a"]})
    with build.task("a"), build.turn():
        build.llm()
    page = make_page(ExecutionTrace.from_events(build.events))
    picture = Elements(page.split('<div id="picture">')[1].split("</div>\n</section>")[0]).text
    assert re.search(rf"● running when saved, {AT_A_TIME} · 1 of 2 tasks · ", picture)
    run = json.loads(page.split('<script id="parts" type="application/json">')[1].split("</script>")[0])["run"]
    assert (run["run"]["status"], run["run"]["tasks_done"]) == ("running", 1)


def test_run_without_a_reader_keeps_its_picture_up_to_date_w24(shell, monkeypatch):
    monkeypatch.setattr(run_display, "PICTURE_S", 0.0)
    shell.names["is_told"] = lambda: any("running when saved" in each["data"]["text/plain"] for each in shell.displayed)
    shell.run("import time\ndef hold(task):\n    while not is_told():\n        time.sleep(0.01)\n    return 'done'")
    shell.run("%%ensemble -o night\ntasks: {hold: {description: Hold, handler: hold}}")
    (picture, _) = shell.seen()
    assert picture["text/plain"].startswith("✓ completed · night · ")
    assert not any("pending" in each["data"]["text/plain"] for each in shell.displayed)


def test_output_alone_is_as_whole_as_its_timeline_where_somebody_reads_it_w30(shell, monkeypatch):
    shell.run("def hold(task): return 'held'")
    shell.run("%%ensemble -o night\ntasks: {hold: {description: Hold, handler: hold}}")
    still, _ = shell.ip.display_formatter.format(shell.names["night"])
    assert set(still) == {"text/plain", "text/html", TRACE_MIME}
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "widget")
    shown, _ = shell.ip.display_formatter.format(shell.names["night"])
    widget = shell.names["night"].timeline
    assert shown["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    widget.close()


def test_plan_has_a_picture():
    plan = EventBuilder({"a": (), "b": ["a"]}).events[1].plan
    bundle = make_first_bundle(plan)
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


MANY = """
def work(task):
    if int(task.name.split("[")[-1].rstrip("]")) % 10 == 3:
        raise ValueError("no such item")
    return "# A heading\\n\\n" + task.name

items = [f"item {number}" for number in range(300)]
rows = [{"topic": item} for item in items]
"""
FOR_EACH = """%%ensemble -o report
error_strategy: partial
tasks:
  summarise: {for_each: items, description: "Summarise {item}", handler: work}
"""
FAILED = [f"summarise[{number}]" for number in range(3, 123, 10)]


def test_answer_of_a_task_with_items_is_a_table_with_what_failed_first_w25(shell):
    shell.run(MANY)
    shell.run(FOR_EACH)
    picture, answer = shell.seen()
    assert re.search(r"^= 1 task in \d+(\.\d)? m?s, 30 of 300 items failed", picture["text/plain"], re.MULTILINE)
    said, head, *lines, more = answer["text/plain"].splitlines()
    assert said == "300 items of summarise: 270 completed, 30 failed"
    assert head.split() == ["status", "error", "duration", "at", "work"]
    assert [line.split()[0] for line in lines] == FAILED
    assert more == (
        '288 more items; all of them: report["summarise"].item_outputs; what failed: report["summarise"].item_failures'
    )
    page = Elements(answer["text/html"])
    assert [tag for tag, _ in page.found].count("tr") == 13
    assert not {"h1", "h2"} & {tag for tag, _ in page.found}
    assert len(shell.ip.ev('report["summarise"].item_outputs')) == 270


def test_table_of_a_map_begins_with_what_failed_w25(shell):
    shell.run(MANY.replace('int(task.name.split("[")[-1].rstrip("]"))', 'int(task.inputs["topic"].split()[-1])'))
    shell.run("%%ensemble -o res --map rows\ntasks: {summarise: {description: 'Summarise {topic}', handler: work}}")
    picture, answer = shell.seen()
    rows = [line.split()[1:4] for line in picture["text/plain"].splitlines() if line.startswith("✕")]
    assert rows[0] == ["270", "done,", "30"]  # and one line for each that failed, with what failed in it
    assert [row[:2] for row in rows[1::2]] == [["row", str(3 + 10 * k)] for k in range(30)]
    assert "row 4 " not in picture["text/plain"]
    lines = answer["text/plain"].splitlines()
    first = next(place for place, line in enumerate(lines) if line.split()[1:2] == ["failed"])
    assert [line.split()[:2] for line in lines[first : first + 12]] == [[str(3 + 10 * k), "failed"] for k in range(12)]
    assert lines[-1] == "288 more rows; all of them: res.frame"


UNFAIR = """
def work(task):
    style, number = task.inputs["style"], task.inputs["number"]
    if (style == "a" and number < failed) or (style == "b" and number == 40):
        raise ValueError("no")
    return f"{style} {number}"

failed = 20
rows = [{"number": number} for number in range(50)]
"""
VARIED = """%%ensemble -o res --map rows --vary style=a --vary style=b
tasks:
  say: {description: "Say {number} {style}", handler: work}
"""


@pytest.mark.parametrize(
    "failed, shown",
    [
        (20, [*(("style=a", number) for number in range(11)), ("style=b", 40)]),  # what failed, of both
        (
            1,
            [
                *(("style=a", 0), ("style=b", 40)),
                *(("style=a", number) for number in range(1, 6)),
                *(("style=b", number) for number in range(5)),
            ],
        ),
    ],
)
def test_table_of_a_map_has_rows_of_all_variants_alike_w25(shell, failed, shown):
    shell.run(UNFAIR)
    shell.run(f"failed = {failed}")
    shell.run(VARIED)
    _, answer = shell.seen()
    found = re.findall(r"^(style=\w)?\s+(\d+)\s+(?:failed|completed)", answer["text/plain"], re.MULTILINE)
    variants = [variant for variant, _ in found]
    filled = [next(filter(None, reversed(variants[: place + 1]))) for place in range(len(found))]
    assert [(variant, int(number)) for variant, (_, number) in zip(filled, found, strict=True)] == shown
    assert "88 more rows; all of them: res.frame" in answer["text/plain"]
    assert "variantrowstatus" in Elements(answer["text/html"]).text  # the heads of the first columns


def test_work_on_many_is_counted_while_it_goes_on_w25(shell):
    shell.run(MANY)
    shell.run(FOR_EACH)
    events = shell.names["report"].trace.events
    ended = [place for place, each in enumerate(events) if isinstance(each, TaskCompleted | TaskFailed)][:300]
    assert len(ended) == 300
    fold = TraceFold.from_events(events[: ended[150] + 1])
    run = TimelineMessages(fold).make_snapshot()["run"]
    assert (run["tasks_done"], run["tasks_total"]) == (0, 1)
    assert (run["many"]["total"], run["many"]["done"] + run["many"]["failed"]) == (300, 151)
    assert run["many"]["failed"] in range(10, 20)
    assert "· 151 of 300" in render_chart_text(make_chart(TimelineMessages(fold).make_snapshot())).splitlines()[0]
    assert "· 0 of 1 task · 151 of 300 items ·" in make_interim_bundle(TimelineMessages(fold))["text/plain"]
    assert make_messages(shell.names["report"]).make_snapshot()["run"]["many"] is None


def test_calls_that_wait_stand_in_text_picture_and_saved_view_with_the_line_that_answers_them_w166():
    def refund(order: str) -> str:
        """Give the money of an order back."""
        return "paid"

    calls = [ToolUse("refund", {"order": f"<b>{number}\u202e" + number * "x"}) for number in range(120)]
    llm = ScriptedChatModel(replies=[Reply(calls=calls), "done"])
    clerk = Agent(role="Clerk", goal="Settle", llm=llm, tools=[Tool(refund, review="before")], max_iterations=200)
    output = Ensemble(tasks=[Task.of("Settle", name="settle", agent=clerk)], review_handler=leave_pending()).run()
    bundle = make_output_bundle(output, variable="claims")
    line = f'claims.ensemble.run(resume=claims, answers={{"{output.pending[0].id}": "approve"}})'
    assert f'‖ refund(order="<b>0[U+202E]") waits for an answer · Clerk · settle\n    {line}' in bundle["text/plain"]
    assert repr(output).startswith("<EnsembleOutput exited_early: 0/1 task, 120 calls left waiting, in ")
    assert "‖ 115 more wait: see pending" in bundle["text/plain"]
    shown = Elements(bundle["text/html"])
    assert line in shown.text
    assert "b" not in {tag for tag, _ in shown.found}
    pending = bundle[TRACE_MIME]["run"]["pending"]
    assert (pending["count"], len(pending["calls"])) == (120, 100)
    assert pending["calls"][99]["id"] == output.pending[99].id
    assert max(len(each["text"]) for each in pending["calls"]) <= 200
    assert len(json.dumps(bundle[TRACE_MIME])) <= 200_000
