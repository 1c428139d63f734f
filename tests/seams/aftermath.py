"""What comes after a run: each function checks that what was written is read, and that what was done holds again."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pandas as pd
from pandas.testing import assert_frame_equal

from ensemble_notebook import CaptureMode, ExecutionTrace, LlmToken, MapResult, load_traces
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.store.run_store import RunStore
from tests.seams.doors import INPUTS, Done
from tests.support.same_tables import assert_same
from tests.support.store import wait_for_store

_OF_THE_MOMENT: Final = re.compile(r'"saved_at": "[^"]+"|"n": [0-9]+')
"""When a page was written, and the number of the last event, streamed pieces included, which no store keeps."""
FRAMES: Final = [name for name, value in vars(Frames).items() if isinstance(value, cached_property)]
Again = Callable[[Mapping[str, Any]], Done]
"""Run the same cell at the same door with these settings."""


def check_frames(found: ExecutionTrace, trace: ExecutionTrace) -> None:
    """Every table, and all that a trace says by itself, is the same."""
    for name in FRAMES:
        assert_same(getattr(found.frames, name), getattr(trace.frames, name), name)
    for name in ("run_id", "name", "workflow", "inputs", "status", "exit_reason", "capture_mode", "agents", "metrics"):
        assert getattr(found, name) == getattr(trace, name), name
    assert found.plan.to_dict() == trace.plan.to_dict()
    assert set(found.warnings) <= set(trace.warnings)
    assert _list_lasting(found) == _list_lasting(trace)


def store(done: Done, again: Again) -> None:
    wait_for_store()
    run_id = done.trace.run_id
    (listed,) = [each for each in RunStore.open().list_runs() if each.run_id == run_id]
    assert (listed.facts.name, listed.status) == (done.trace.name, done.trace.status)
    frames = load_traces()
    for name in FRAMES:
        stored, own = getattr(frames, name), getattr(done.trace.frames, name)
        ids = stored.run_id if "run_id" in stored.columns else stored.index.get_level_values("run_id")
        is_of_run = ids == run_id
        if "map_run_id" in stored.columns:  # of a row of a map, run_id is that of the row's own run
            is_of_run |= (stored.map_run_id == run_id).fillna(False)
        stored = stored[is_of_run]
        assert len(stored) == len(own), name
        for column in own.columns.intersection(stored.columns):
            assert _list_values(stored[column]) == _list_values(own[column]), (name, column)


def _list_values(column: pd.Series) -> list[Any]:
    """Its values, with None for those that are missing in any of the ways of pandas."""
    pairs = zip(column.to_list(), column.isna().to_list(), strict=True)
    return [None if is_missing else value for value, is_missing in pairs]


def load(done: Done, again: Again) -> None:
    check_frames(_load(done), done.trace)


def _load(done: Done) -> ExecutionTrace:
    wait_for_store()
    runs = RunStore.open()
    return runs.load_trace(runs.find_run(done.trace.run_id))


def save(done: Done, again: Again) -> None:
    first, second = Path("first.trace.json"), Path("second.trace.json")
    done.trace.save(first)
    loaded = ExecutionTrace.load(first)
    check_frames(loaded, done.trace)
    loaded.save(second)
    assert second.read_text() == first.read_text()


def export(done: Done, again: Again) -> None:
    loaded = _load(done)
    for ending in (".html", ".svg"):
        texts = [_OF_THE_MOMENT.sub("", each.export(Path(f"it{ending}")).read_text()) for each in (done.trace, loaded)]
        assert texts[1] == texts[0], ending
    files = [each.export(Path(f"{name}.trace.json")) for name, each in (("live", done.trace), ("loaded", loaded))]
    assert _list_lasting(ExecutionTrace.load(files[1])) == _list_lasting(ExecutionTrace.load(files[0]))
    tables = [pd.read_parquet(each.export(Path("it.parquet"))) for each in (done.trace, loaded)]
    assert_frame_equal(tables[1], tables[0])


def _list_lasting(trace: ExecutionTrace) -> list[dict[str, Any]]:
    """The events, but for the pieces of streamed texts, which no store keeps."""
    return [each.to_dict() for each in trace.events if not isinstance(each, LlmToken)]


def diff(done: Done, again: Again) -> None:
    loaded, other = _load(done), again({})
    for change in (done.trace.diff(loaded), loaded.diff(done.trace)):
        assert not any((change.definition, change.inputs, change.prompts, change.outputs)), repr(change)
        numbers = change.frame.select_dtypes("number").filter(like="delta_")
        assert not numbers.fillna(0).to_numpy().any()
    change = loaded.diff(other.trace)
    assert not any((change.definition, change.inputs, change.prompts, change.outputs)), str(change.definition)
    assert repr(change.frame.drop(columns=[each for each in change.frame if each.endswith("_ms")])) == repr(
        done.trace.diff(other.trace).frame.drop(columns=[each for each in change.frame if each.endswith("_ms")])
    )


def reuse(done: Done, again: Again) -> None:
    wait_for_store()
    if done.trace.capture_mode is CaptureMode.METADATA:  # nothing is there to be taken over, and it is refused
        return
    later = again({"reuse": True})
    _check_outputs(later, done)
    frame = (later.row or later).trace.frames.tasks
    ran = frame[~frame.reused & (frame.status == "ok") & frame.item_count.isna()]  # items are reused one by one
    # The first run has written into the memories that the second one reads.
    reasons = "reuse: never|so that its tasks are|what was found in the memory"
    assert ran.reuse_reason.str.contains(reasons, na=False).all(), ran.reuse_reason


def resume(done: Done, again: Again) -> None:
    wait_for_store()
    if done.trace.capture_mode is CaptureMode.METADATA:  # likewise
        return
    later = again({"resume": done.trace.run_id})
    _check_outputs(later, done)
    assert later.trace.metrics.llm_call_count == 0, later.trace.frames.llm_calls[["task", "status"]]


def pickled(done: Done, again: Again) -> None:
    for value in filter(None, (done.result, done.row, done.trace, done.error)):
        once = pickle.loads(pickle.dumps(value))
        assert repr(once) == repr(value)
        assert str(once) == str(value)
        if isinstance(value, MapResult):
            tables = [pd.DataFrame(each.frame).reset_index(drop=not value._shows_texts) for each in (once, value)]
            if not value._shows_texts:  # nor does what is read back have any
                tables = [each.drop(columns=["raw", *INPUTS], errors="ignore") for each in tables]
            assert_frame_equal(*tables)
        trace = value if isinstance(value, ExecutionTrace) else getattr(value, "trace", None)
        if trace is not None:
            check_frames(once if isinstance(once, ExecutionTrace) else once.trace, trace)
        assert repr(pickle.loads(pickle.dumps(once))) == repr(value)


def _check_outputs(later: Done, done: Done) -> None:
    assert later.error is None, later.error
    for a, b in ((later.trace, done.trace), *([(later.row.trace, done.row.trace)] if later.row and done.row else [])):
        columns = ["task", "status", "output", "agent"]
        assert_frame_equal(
            a.frames.tasks[columns].reset_index(drop=True), b.frames.tasks[columns].reset_index(drop=True)
        )


AFTER: Final[Mapping[str, Callable[[Done, Again], None]]] = {
    "store": store,
    "load": load,
    "save": save,
    "export": export,
    "diff": diff,
    "reuse": reuse,
    "resume": resume,
    "pickle": pickled,
}
