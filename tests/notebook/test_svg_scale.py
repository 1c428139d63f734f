"""The time axis of the exported picture, which folds what the timeline folds (W8)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.notebook.picture.svg_picture import BARS_FROM, BARS_TO, FOLD, TimeScale, draw_svg
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.event_builder import EventBuilder

WIDTH = float(BARS_TO - BARS_FROM)


def run(*, startup_s=8.0, work_s=2.0, beside_s=0.0):
    """A task that waits for its model, and does its work; beside it a handler, for so long."""
    build = EventBuilder({"a": (), "b": ()}, agents={"a": "Ana", "b": "Handler"})
    for name in build.beside(["b", "a"] if beside_s else ["a"]):
        with build.task(name, output="done"):
            if name == "b":
                build.wait(beside_s)
                continue
            with build.startup("Starting the local model X"):
                build.wait(startup_s)
            if work_s:
                with build.turn():
                    build.llm(seconds=work_s)
    return ExecutionTrace.from_events(build.finish())


def scale_of(trace):
    end = trace._fold.run.end_ms
    return TimeScale.of(trace._fold, end, WIDTH)


def bars(svg):
    """What the picture says of each bar, with its width."""
    found = re.findall(r'width="([\d.]+)" height="\d+" rx="\d" style="fill:[^"]+"><title>([^<]+)<', svg)
    return {said: float(width) for width, said in found}


def test_w8_a_startup_in_which_nothing_else_went_on_is_as_wide_as_its_words():
    svg = draw_svg(run())
    assert "startup 8.0 s" in svg
    assert svg.count('class="break"') == 2
    assert bars(svg)["model, 2.0 s"] == pytest.approx(WIDTH - FOLD)
    assert bars(svg)["Starting the local model X, 8.0 s"] == pytest.approx(FOLD)


def test_w8_times_on_the_axis_are_those_of_the_run():
    svg = draw_svg(run())
    ticks = re.findall(r'<text class="faint middle" x="([\d.]+)" y="[\d.]+">([\d.]+) s<', svg)
    assert [said for _, said in ticks] == ["8.5", "9.0", "9.5", "10.0"]
    per_ms = (WIDTH - FOLD) / 2000
    assert [float(x) for x, _ in ticks] == pytest.approx(
        [BARS_TO - (10.0 - float(said)) * 1000 * per_ms for _, said in ticks], abs=0.1
    )
    near = draw_svg(run(startup_s=70.0, work_s=0.4))
    labels = re.findall(r'<text class="faint middle"[^>]*>([^<]+)<', near)
    assert labels == ["1:10.1", "1:10.2", "1:10.3", "1:10.4"]


@pytest.mark.parametrize(
    "trace",
    [
        run(startup_s=1.0, work_s=9.0),
        run(work_s=0.0),
        run(beside_s=10.0),
    ],
    ids=["a short one", "one that nothing follows", "one beside which a handler was at work"],
)
def test_w8_other_startups_are_not_folded(trace):
    assert scale_of(trace).folds == ()
    assert 'class="break"' not in draw_svg(trace)


def test_w8_only_what_is_left_of_a_startup_is_folded():
    ((start, stop),) = scale_of(run(beside_s=1.5)).folds
    assert (start, stop) == pytest.approx((1500, 8000))


@given(st.lists(st.floats(0, 100_000), min_size=1, max_size=9, unique=True), st.floats(0, 100_000))
def test_w8_later_times_stand_further_right_and_the_ends_at_the_edges(edges, at):
    cuts = sorted({round(each) for each in edges})
    folds = tuple((float(a), float(b)) for a, b in zip(cuts[::2], cuts[1::2], strict=False))
    scale = TimeScale(100_001.0, 1000.0, folds)
    assert scale.find_x(0) == 0
    assert scale.find_x(scale.end) == pytest.approx(1000)
    assert scale.find_x(at) < scale.find_x(at + 0.5)
    assert scale.find_x(-5) == 0
    for start, stop in folds:
        assert scale.find_x(stop) - scale.find_x(start) == pytest.approx(FOLD)
