"""Ready figures (T26): what they draw is what the frames hold, and they show themselves without a network."""

import json
import math
import sys
import warnings
from xml.etree import ElementTree

import pytest
import vl_convert
from hypothesis import given, settings

from ensemble_notebook.errors import MissingPackageError, ValidationError
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.figures import MOST_GROUPS, MOST_ROWS
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams
from tests.trace.test_frames import research

FIGURES = ("tokens", "cost", "waterfall", "concurrency")
VEGA_LITE = "application/vnd.vegalite.v5+json"
FIGURE = "application/vnd.ensemble.figure+json"


def trace_of(events):
    return ExecutionTrace.from_events(events)


def layers(figure):
    """The records of each layer."""
    drawn = figure.to_dict()
    return [layer["data"].get("values") or drawn["datasets"][layer["data"]["name"]] for layer in drawn["layer"]]


def subtitle(figure):
    (text,) = figure.to_dict()["title"]["subtitle"]
    return text


def wide(count):
    """Many tasks at once, each with an agent of its own."""
    names = [f"t{number}" for number in range(count)]
    build = EventBuilder(dict.fromkeys(names, ()), agents={name: f"Agent {name}" for name in names})
    for number, name in enumerate(names):
        with build.task(name), build.turn():
            build.llm("x", input_tokens=number, output_tokens=1)
    return build.finish()


@settings(max_examples=5)
@given(streams())
def test_bars_add_up_to_the_totals_of_the_run(events):
    trace = trace_of(events)
    metrics, frames = trace.metrics, trace.frames
    for by in ("agent", "task", "phase", "model"):
        bars, totals = layers(trace.plot.tokens(by))
        shown = (metrics.input_tokens or 0) + (metrics.output_tokens or 0)
        assert sum(each["amount"] for each in bars) == sum(each["total"] for each in totals) == shown
    bars, _ = layers(trace.plot.cost())
    assert sum(each["amount"] for each in bars) == pytest.approx(float(frames.attempts.cost.sum()))


@settings(max_examples=5)
@given(streams())
def test_a_waterfall_and_the_concurrency_stay_inside_the_run_and_have_all_of_its_work(events):
    trace = trace_of(events)
    for figure in (trace.plot.waterfall(), trace.plot.concurrency()):
        end = figure.to_dict()["layer"][0]["encoding"]["x"]["scale"]["domain"][1]
        for each in (each for layer in layers(figure) for each in layer):
            assert 0 <= each.get("from", each.get("at", 0)) <= each.get("to", each.get("at", 0)) <= end + 1e-3
    drawn = {each["task"] for layer in layers(trace.plot.waterfall()) for each in layer}
    assert len(drawn) == trace.frames.tasks.start_ms.notna().sum() + len(
        trace.frames.spans.query("kind == 'task' and delegation_id.notna()")
    )


@pytest.mark.parametrize("events", [(), research(), research()[:20]], ids=["nothing", "failed", "going on"])
@pytest.mark.parametrize("name", FIGURES)
def test_every_run_has_every_figure(name, events):
    figure = getattr(trace_of(events).plot, name)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bundle, metadata = figure._repr_mimebundle_()
    assert set(bundle) == {FIGURE, VEGA_LITE, "image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"].startswith("<svg")
    assert metadata[VEGA_LITE]["embed_options"]["config"]["background"] == "transparent"
    assert "url" not in json.dumps(bundle[VEGA_LITE].get("datasets", {}))
    assert bundle[VEGA_LITE]["$schema"].endswith("/v5.json")


@pytest.mark.parametrize("name", FIGURES)
def test_a_page_has_a_figure_as_narrow_as_its_window_and_the_picture_is_as_wide_as_ever(name):
    figure = getattr(trace_of(research()).plot, name)()
    bundle, _ = figure._repr_mimebundle_()
    (width,) = bundle[VEGA_LITE]["params"]
    assert width["name"] == "width"
    narrow, wide = (widths_of(bundle[VEGA_LITE], width["expr"], window) for window in (480, 1400))
    assert narrow == 320
    assert wide == 700
    assert "params" not in figure.to_dict()
    chosen, _ = figure.properties(width=300)._repr_mimebundle_()
    assert "params" not in chosen[VEGA_LITE]
    assert FIGURE in bundle
    assert FIGURE not in chosen


def widths_of(spec, expression, window):
    """How wide it is drawn in a window of so many pixels."""
    said = expression.replace("windowSize()[0]", str(window))
    param = {"name": "width", "expr": said}
    drawn = ElementTree.fromstring(vl_convert.vegalite_to_svg({**spec, "params": [param]}, vl_version="v5.20"))
    return round(float(drawn.get("width")))


def test_text_and_background_have_the_colours_of_the_page():
    for name in FIGURES:
        spec = getattr(trace_of(research()).plot, name)().to_dict()
        assert "background" not in spec
        assert set(spec["config"]) == {"view"}
        assert not [key for key in spec["layer"][0]["encoding"]["x"]["axis"] if key.endswith("Color")]
        assert "color" not in spec["title"]


def test_another_renderer_that_was_chosen_is_used():
    import altair

    with altair.renderers.enable("mimetype"):
        bundle = trace_of(research()).plot.tokens()._repr_mimebundle_()
    assert "image/svg+xml" not in json.dumps(bundle)


def test_titles_say_how_much_and_what_is_unknown():
    build = EventBuilder({"a": ()}, provider="openai", model="unheard-of")
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=None, output_tokens=3)
    unknown = trace_of(build.finish()).plot
    assert (
        subtitle(unknown.tokens()) == "an unknown number in, 3 out, in 1 request; the tokens of 1 request are unknown"
    )
    assert subtitle(unknown.cost()) == "$0 for 0 requests; the price of 1 request is unknown"
    known = trace_of(research()).plot
    assert subtitle(known.tokens()).startswith("950 in, 85 out, in 6 requests")
    assert subtitle(known.concurrency()) == "13 s of work in 19 s; 1.2 at once while something was at work"
    assert subtitle(known.waterfall()) == "19 s; longest chain: search → write → check"
    assert subtitle(trace_of(()).plot.waterfall()) == "nothing has run"


def test_ticks_of_tokens_are_written_as_the_totals_beside_the_bars():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=1_400, output_tokens=30)
    picture, _ = trace_of(build.finish()).plot.tokens()._repr_mimebundle_()
    words = {each.text for each in ElementTree.fromstring(picture["image/svg+xml"]).iter() if each.text}
    assert {"0", "400", "1.2k"} <= words
    assert not {"0k", "0.2k", "0.4k"} & words


def test_what_there_is_no_room_for_is_counted():
    plot = trace_of(wide(MOST_ROWS + 5)).plot
    assert subtitle(plot.waterfall()).endswith("5 tasks left out")
    assert len({each["task"] for layer in layers(plot.waterfall()) for each in layer}) == MOST_ROWS
    _, totals = layers(plot.tokens())
    assert len(totals) == MOST_GROUPS
    assert totals[-1]["agent"] == f"{MOST_ROWS + 5 - MOST_GROUPS + 1} others"


def test_the_longest_chain_is_drawn_for_all_of_its_length():
    trace = trace_of(research())
    chain = layers(trace.plot.waterfall())[-1]
    assert {each["task"] for each in chain} == {"search", "write", "check"}
    assert math.isclose(sum(each["to"] - each["from"] for each in chain), trace.frames.runs.wall_ms.iloc[0] / 1000)


def test_what_can_not_be_grouped_by_is_refused_with_the_nearest_word():
    with pytest.raises(ValidationError, match=r"can't group by 'agents'\. Did you mean 'agent'"):
        trace_of(()).plot.tokens(by="agents")


def test_without_altair_the_line_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'altair>=[\d.]+' 'vl-convert-python>="):
        trace_of(()).plot.cost()


def test_without_a_drawer_of_pictures_the_chart_is_there_alone(monkeypatch):
    figure = trace_of(research()).plot.tokens()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    bundle, _ = figure._repr_mimebundle_()
    assert set(bundle) == {FIGURE, VEGA_LITE, "text/plain"}


def test_plots_say_what_there_is():
    assert repr(trace_of(()).plot) == "Plots(tokens, cost, waterfall, concurrency)"


def test_joined_figures_are_drawn_by_the_page_too():
    plot = trace_of(research()).plot
    for joined in (plot.tokens() | plot.cost(), (plot.tokens() & plot.cost()) | plot.waterfall()):
        bundle, _ = joined.properties(title="Both")._repr_mimebundle_()
        assert VEGA_LITE in bundle
        assert FIGURE not in bundle
        assert "text/html" not in bundle
        assert "cdn" not in json.dumps(bundle)
