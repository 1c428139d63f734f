"""A run as a file of another kind (T13): what is in it, and that texts of a run do nothing there."""

import json
import re
import sys
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from hypothesis import given, settings
from pandas.testing import assert_frame_equal

from ensemble_notebook import Ensemble, ScriptedChatModel, Task
from ensemble_notebook.domain.definitions.review import ReviewDecision
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.errors import MissingPackageError, ValidationError
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams
from tests.trace.test_frames import everything, research
from tests.trace.test_plots import layers

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> <!-- & \x00\x1b[31m ]]>"
SVG = "{http://www.w3.org/2000/svg}"


def trace_of(events):
    return ExecutionTrace.from_events(events)


def hostile():
    build = EventBuilder({"a": ()}, agents={"a": HOSTILE[:30]}, name=HOSTILE)
    with build.task("a"), build.turn():
        build.llm(HOSTILE, error=OSError(HOSTILE))
    return build.finish()


def parts_of(page):
    (text,) = re.findall(r'<script id="parts" type="application/json">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_a_trace_file_can_be_loaded_again(tmp_path):
    trace = trace_of(research())
    file = trace.export(tmp_path / "deep" / "run.trace.json")
    assert ExecutionTrace.load(file).to_dict() == trace.to_dict()


def test_a_page_holds_the_timeline_with_all_its_rows_and_details_and_fetches_nothing(tmp_path):
    trace = trace_of(research())
    page = trace.export(tmp_path / "run.html").read_text(encoding="utf-8")
    parts = parts_of(page)
    assert parts["run"]["rows_left_out"] == parts["run"]["details_left_out"] == 0
    assert "renderSaved" in parts["view"]
    assert "default-src 'none'" in page
    outside = page.replace(json.dumps(parts), "").split('<script id="parts"')[0]
    assert not re.findall(r"""(?:src|href)=["']?https?:|@import|url\(["']?https?:""", outside)


@pytest.mark.parametrize("events", [(), research()[:20], everything()], ids=["nothing", "going on", "everything"])
@pytest.mark.parametrize("ending", [".html", ".svg", ".parquet", ".trace.json"])
def test_every_run_can_be_exported(ending, events, tmp_path):
    assert trace_of(events).export(tmp_path / f"run{ending}").stat().st_size > 0


def test_texts_of_a_run_are_no_markup_in_a_page(tmp_path):
    page = trace_of(hostile()).export(tmp_path / "run.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img src=x" not in page
    assert "<title>&lt;/script&gt;" in page


def test_texts_of_a_run_are_no_markup_in_a_picture(tmp_path):
    root = ET.parse(trace_of(hostile()).export(tmp_path / "run.svg")).getroot()
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        *("svg", "title", "style", "rect", "line", "text", "tspan")
    }
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("on") or "href" in name]


def test_a_picture_names_every_task_and_draws_its_bars_to_scale(tmp_path):
    trace = trace_of(research())
    root = ET.parse(trace.export(tmp_path / "run.svg")).getroot()
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    for name in ("search", "write", "check", "print"):
        assert any(name in text for text in texts)
    bars = {each.findtext(f"{SVG}title"): float(each.get("width")) for each in root.iter(f"{SVG}rect") if len(each)}
    assert bars["write, 12 s"] == pytest.approx(2 * bars["search, 6.0 s"], rel=0.01)
    assert "ConnectionError: gone" in " ".join(texts)


def test_w23_a_picture_calls_each_go_at_a_task_a_draft_and_no_call_an_attempt(tmp_path):
    build = EventBuilder({"find": (), "write": ("find",)})
    with build.task("find"), build.turn():
        build.llm("Found.", seconds=2)
    with build.task("write"):
        with build.turn():
            build.llm("Long.", seconds=3)
        build.review(ReviewDecision.retry("shorter"), seconds=1)
        build.again("shorter")
        with build.turn():
            build.llm("Short.", seconds=2)
    root = ET.parse(trace_of(build.finish()).export(tmp_path / "run.svg")).getroot()
    titles = [each.findtext(f"{SVG}title") for each in root.iter(f"{SVG}rect") if len(each)]
    assert {"model, 2.0 s", "draft 1, 3.0 s", "draft 2, 2.0 s"} <= {*titles}
    assert not [title for title in titles if "attempt" in title]


def test_a_picture_and_a_figure_show_what_was_reused(store_path, tmp_path):
    def make(word):
        tasks = [Task.of("Cook", name="cook", llm=model), Task.of(word, name="serve", llm=model, context=["cook"])]
        return Ensemble(tasks=tasks, name="dinner").run(reuse=True)

    model = ScriptedChatModel(default="pasta")
    make("Serve")
    again = make("Serve it hot")
    root = ET.parse(again.export(tmp_path / "run.svg")).getroot()
    assert "reused" in [each.text for each in root.iter(f"{SVG}text")]
    drawn = [each for layer in layers(again.plot.waterfall()) for each in layer if each["what"] == "reused"]
    assert [each["task"] for each in drawn] == ["cook"]


@settings(max_examples=20)
@given(streams())
def test_any_run_gives_a_picture_that_is_xml_and_keeps_its_bars_inside(events):
    root = ET.fromstring(render_view("svg", trace_of(events)))
    width = float(root.get("width"))
    for each in root.iter(f"{SVG}rect"):
        assert 0 <= float(each.get("x", 0)) <= width
        assert float(each.get("x", 0)) + float(each.get("width")) <= width


def test_the_table_of_spans_comes_back_from_parquet_with_its_dtypes(tmp_path):
    spans = trace_of(everything()).frames.spans
    loaded = pd.read_parquet(trace_of(everything()).export(tmp_path / "run.parquet"))
    assert_frame_equal(
        loaded.drop(columns="attributes"),
        spans.drop(columns="attributes").astype(
            {"start_time": loaded.start_time.dtype, "end_time": loaded.end_time.dtype}
        ),
        check_categorical=False,
        check_index_type=False,
    )
    assert loaded.start_time.dtype == "datetime64[us, UTC]"
    told = spans.attributes.dropna()
    assert [json.loads(each) for each in loaded.attributes.dropna()] == [json.loads(json.dumps(each)) for each in told]


def test_an_unknown_ending_is_refused_with_the_list(tmp_path):
    with pytest.raises(ValidationError, match=r"can't be exported to 'run\.pdf'.*\.json.*\.html.*\.svg.*\.parquet"):
        trace_of(()).export(tmp_path / "run.pdf")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_line_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'pyarrow>="):
        trace_of(()).export(tmp_path / "run.parquet")


def test_a_file_that_can_not_be_written_leaves_the_older_one(tmp_path, monkeypatch):
    file = tmp_path / "run.svg"
    file.write_text("older")
    trace = trace_of(research())
    monkeypatch.setattr(type(trace), "_fold", property(lambda _: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        trace.export(file)
    assert [each.name for each in tmp_path.iterdir()] == ["run.svg"]
    assert file.read_text() == "older"
