"""V9: scores stand beside the events of a run, and last as long as it does, wherever it is kept."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from ensemble_notebook import Ensemble, ExecutionTrace, MapResult, Task, TraceFormatError, load_traces
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.evaluation.scorer import keep_scores
from ensemble_notebook.trace.store.store_file import VERSION
from tests.support.store import wait_for_store

COLUMNS = [
    *("variant", "row", "repeat", "name", "value", "label", "passed", "reason"),
    *("kind", "cost", "model", "from_ms", "to_ms", "scorer", "pair_of", "against", "has_changed_mind", "scored_at"),
    *("map_run_id", "run_id", "span_id"),
]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ROWS = [{"word": "tea"}, {"word": "rye"}]


def make_map(**fields: Any) -> MapResult:
    task = Task.of("Say {word}, {how}", name="say", handler=lambda given: given.description)
    return (
        Ensemble(tasks=[task], name="said", **fields)
        .variants({"low": {"how": "low"}, "loud": {"how": "loud"}})
        .map(ROWS)
    )


def read_store(path: Path) -> bytes:
    """What is in the file of the store, and in those beside it."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def score(result: MapResult, place: int, name: str, **fields: Any) -> ScoreRecord:
    given = {"kind": ScoreKind.CODE, "scored_at": NOW, "scorer": name, **fields}
    return ScoreRecord(name=name, **result._describe_place(result[place]), **given)


def score_all(result: MapResult) -> list[ScoreRecord]:
    """One of each kind: passed, a number, a word of a judge, no opinion, and a scorer that failed."""
    return [
        score(result, 0, "right", passed=True, value=1.0, reason="it is tea"),
        score(result, 1, "right", passed=False, value=0.0),
        score(result, 2, "right", error="ValueError: no"),
        score(result, 3, "right"),
        score(result, 0, "status", value=0.5),
        score(
            result, 1, "tone", label="warm", kind=ScoreKind.JUDGE, model="m", cost=Decimal("0.25"), reason="it is warm"
        ),
        score(result, 1, "label", label="good", kind=ScoreKind.HUMAN, author="ada"),
    ]


def test_v9_scores_are_a_table_and_columns_by_their_names_beside_an_object_that_stays() -> None:
    result = make_map()
    scored = result._with_scores(score_all(result))
    assert result.score_records == ()
    assert "right" not in result.frame
    frame, scores = scored.frame, scored.frames.scores  # type: ignore[union-attr]
    assert list(frame.columns[:8]) == [
        *("status", "raw", "right", "score_status", "tone", "label", "score_cost", "score_error")
    ]
    assert (str(frame.right.dtype), str(frame.score_status.dtype), str(frame.tone.dtype)) == (
        "boolean",
        "Float64",
        "string",
    )
    assert frame.right.tolist() == [True, False, pd.NA, pd.NA]
    assert frame.score_cost.dropna().tolist() == [0.25]
    assert frame.score_error.dropna().tolist() == ["ValueError: no"]
    assert list(scores.columns) == COLUMNS
    assert scores.passed.tolist()[:3] == [True, False, pd.NA]
    assert scores.reason.tolist()[:3] == ["it is tea", pd.NA, "ValueError: no"]
    assert scores.kind.tolist() == ["code"] * 5 + ["judge", "human"]
    assert scores.variant.tolist()[:4] == ["low", "low", "loud", "loud"]
    assert scores.row.tolist()[:2] == ["row 0", "row 1"]
    assert set(scores.map_run_id) == {result.run_id}
    joined = frame.reset_index().merge(scores[scores.name == "right"], on="run_id", suffixes=("", "_of_score"))
    assert (joined.variant == joined.variant_of_score).all()
    assert len(joined) == 4
    again = pickle.loads(pickle.dumps(scored))
    assert_frame_equal(again.frame, frame)
    assert_frame_equal(again.frames.scores, scores)


def test_v9_scores_are_in_the_store_in_files_and_in_many_runs_at_once(store_path: Path, tmp_path: Path) -> None:
    result = make_map()
    other = make_map()
    records = score_all(result)
    wait_for_store()
    before = load_traces().spans
    assert keep_scores(records) is True
    assert keep_scores(records[:2]) is True  # they are there already
    scored = result._with_scores(records)
    loaded = load_traces()
    assert_frame_equal(loaded.scores, scored.frames.scores)  # type: ignore[union-attr]
    assert loaded._count_rows()["scores"] == len(records)  # type: ignore[attr-defined]
    assert_frame_equal(loaded.spans, before)
    file = scored.trace.save(tmp_path / "scored.trace.json")  # type: ignore[union-attr]
    again = ExecutionTrace.load(file)
    assert again.scores == tuple(records)
    assert again.to_dict() == scored.trace.to_dict()  # type: ignore[union-attr]
    assert_frame_equal(load_traces(file).scores, scored.frames.scores)  # type: ignore[union-attr]
    assert "scores" not in other.trace.to_dict()  # type: ignore[union-attr]
    assert list(other.frames.scores.columns) == COLUMNS  # type: ignore[union-attr]


def test_v9_two_who_score_at_once_both_keep_theirs_and_who_replaces_says_so(store_path: Path) -> None:
    result = make_map()
    wait_for_store()
    threads = [
        threading.Thread(target=keep_scores, args=([score(result, 0, "label", label=each, kind=ScoreKind.HUMAN)],))
        for each in ("good", "bad", "fair", "poor")
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(load_traces().scores.label) == {"good", "bad", "fair", "poor"}
    keep_scores([score(result, 0, "label", label="last", kind=ScoreKind.HUMAN, replaces=True)])
    assert load_traces().scores.label.tolist() == ["last"]
    with closing(sqlite3.connect(store_path)) as connection:
        assert connection.execute("SELECT count(*) FROM scores").fetchone() == (5,)


def test_v9_where_no_texts_are_kept_there_are_no_reasons_and_no_words_of_judges_and_people(store_path: Path) -> None:
    result = make_map(capture_mode="metadata")
    records = score_all(result)
    wait_for_store()
    keep_scores(records)
    for scores in (load_traces().scores, result._with_scores(records).frames.scores):  # type: ignore[union-attr]
        assert scores.reason.dropna().tolist() == ["ValueError"]
        assert scores.label.isna().all()
        assert scores.variant.tolist()[:3] == ["variant 0", "variant 0", "variant 1"]
    told = read_store(store_path) + pickle.dumps(result._with_scores(records))
    assert not any(word in told for word in (b"it is tea", b"warm", b"good", b"loud"))


def test_v9_secrets_in_scores_are_masked(store_path: Path, tmp_path: Path) -> None:
    result = make_map()
    secret = "sk-proj-" + "a1B2c3D4" * 5
    records = [
        score(result, 0, "right", passed=True, value=1.0, reason=f"it said {secret}"),
        score(result, 0, "word", label=secret),
    ]
    wait_for_store()
    keep_scores(records)
    scored = result._with_scores(records)
    file = scored.trace.save(tmp_path / "scored.trace.json")  # type: ignore[union-attr]
    shown = (load_traces().scores.to_csv(), scored.frames.scores.to_csv(), scored.frame.to_csv(), file.read_text())  # type: ignore[union-attr]
    assert not any(secret in each for each in shown)
    assert secret.encode() not in read_store(store_path) + pickle.dumps(scored)


def test_v9_a_file_with_a_broken_score_is_refused_and_a_broken_one_in_the_store_is_left_out(
    store_path: Path, tmp_path: Path
) -> None:
    result = make_map()
    records = score_all(result)
    file = result._with_scores(records).trace.save(tmp_path / "scored.trace.json")  # type: ignore[union-attr]
    file.write_text(file.read_text().replace('"scoredAt": "2026', '"scoredAt": "yesterday'))
    with pytest.raises(TraceFormatError, match="scores is damaged"):
        ExecutionTrace.load(file)
    wait_for_store()
    keep_scores(records)
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute("UPDATE scores SET data = '{' WHERE number = 1")
    assert len(load_traces().scores) == len(records) - 1


def test_v9_a_store_of_a_time_without_scores_is_read_and_takes_them(store_path: Path) -> None:
    result = make_map()
    wait_for_store()
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute("DROP TABLE scores")
        connection.execute("PRAGMA user_version = 2")
    assert len(load_traces().scores) == 0
    assert keep_scores(score_all(result)) is True
    assert len(load_traces().scores) == 7
    with closing(sqlite3.connect(store_path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_v9_a_run_that_the_store_does_not_have_keeps_no_scores(store_path: Path) -> None:
    result = make_map()
    wait_for_store()
    unknown = ScoreRecord(name="right", kind=ScoreKind.CODE, scored_at=NOW, run_id="unknown", passed=True, value=1.0)
    assert keep_scores([unknown, score(result, 0, "right", passed=True, value=1.0)]) is False
    assert load_traces().scores.run_id.tolist() == [result[0].run_id]


KILLED = """
import os, sqlite3, time
from contextlib import closing

from ensemble_notebook import Ensemble, Task


def count_scores():
    try:
        with closing(sqlite3.connect("file:" + os.environ["ENSEMBLE_NOTEBOOK_STORE"] + "?mode=ro", uri=True)) as store:
            return store.execute("SELECT count(*) FROM scores").fetchone()[0]
    except sqlite3.Error:  # it is not there yet
        return 0


def say(given):
    if given.inputs["word"] == "last":
        while count_scores() < 3:
            time.sleep(0.01)
        os._exit(1)
    return given.description


rows = [{"word": word} for word in ("tea", "rye", "oat", "last", "never")]
Ensemble(tasks=[Task.of("Say {word}", name="say", handler=say)]).map(rows, concurrency=1, score=lambda output: 1)
"""


def test_v9_scores_of_rows_that_are_done_outlast_a_process_that_is_killed(store_path: Path) -> None:
    environment = {**os.environ, "ENSEMBLE_NOTEBOOK_STORE": str(store_path)}
    subprocess.run([sys.executable, "-c", KILLED], env=environment, timeout=60, check=False)
    loaded = load_traces()
    assert loaded.scores.row.tolist() == ["row 0", "row 1", "row 2"]
    assert loaded.rows.score_score.tolist()[:3] == [1, 1, 1]
    result = loaded.load_map(loaded.rows.map_run_id[0])
    assert [each.status for each in result] == ["completed"] * 3 + ["interrupted", "skipped"]
    assert result.frame.score.dropna().tolist() == [1, 1, 1]
