"""V15: a map as a log of inspect_ai, which its own reader reads, and its rows as a table that pandas reads."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pytest

from ensemble_notebook import Agent, Ensemble, MapResult, Score, ScriptedChatModel, Task, ToolUse, ValidationError
from ensemble_notebook.trace.row_files import read_row_file

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

ROWS = [{"word": "tea", "expected": "brew"}, {"word": "rye", "expected": "bake"}, {"word": "oil", "expected": "press"}]


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: to brew"


def make_map(**fields: object) -> MapResult:
    script = [ToolUse("look_up", {"word": "tea"}), "brew it for $2", ToolUse("look_up", {"word": "rye"}), "bake it"]
    agent = Agent(role="Cook", goal="Cook", llm=ScriptedChatModel(replies=script), tools=[look_up])
    ensemble = Ensemble(tasks=[Task.of("What to do with {word}?", agent=agent)], name="cook", **fields)  # type: ignore[arg-type]

    def right(output, expected):  # type: ignore[no-untyped-def]
        return Score(expected in output.raw, reason=f"looked for {expected}")

    def length(output):  # type: ignore[no-untyped-def]
        return len(output.raw)

    return ensemble.map(ROWS, concurrency=1, score=[right, length])


def read_log(result: MapResult, folder: Path) -> EvalLog:
    from inspect_ai.log import read_eval_log  # hundreds of modules, which no other test needs

    return read_eval_log(str(result.export(folder / "cook.eval")))


def test_v15_a_log_of_inspect_ai_has_messages_scores_and_usage_as_the_map_has_them(tmp_path: Path) -> None:
    result = make_map()
    log = read_log(result, tmp_path)
    assert (log.status, log.eval.task, log.eval.run_id) == ("success", "cook", result.run_id)
    assert log.samples is not None
    assert [(each.id, each.epoch, each.target) for each in log.samples] == [
        ("row 0", 1, "brew"),
        ("row 1", 1, "bake"),
        ("row 2", 1, "press"),
    ]
    for sample, row in zip(log.samples, result, strict=True):
        assert row.output is not None
        messages, calls = row.output.frames.messages, row.output.frames.llm_calls
        assert [(each.role, each.text) for each in sample.messages] == [
            (each.role, each.text) for each in messages.itertuples()
        ]
        used = sample.model_usage["scripted"]
        assert (used.input_tokens, used.output_tokens) == (calls.input_tokens.sum(), calls.output_tokens.sum())
    first, _, failed = log.samples
    assert first.messages[2].tool_calls[0].arguments == {"word": "tea"}  # type: ignore[union-attr,index]
    assert first.messages[3].tool_call_id == first.messages[2].tool_calls[0].id  # type: ignore[union-attr,index]
    assert first.output.completion == "brew it for $2"
    assert first.scores is not None
    assert {name: (each.value, each.explanation) for name, each in first.scores.items()} == {
        "right": (True, "looked for brew"),
        "length": (len("brew it for $2"), None),
    }
    assert failed.error is not None
    assert "no answer left" in failed.error.message
    assert not failed.scores
    assert log.results is not None
    assert {each.name: each.metrics["mean"].value for each in log.results.scores} == {"right": 1.0, "length": 10.5}


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, at what inspect_ai does with it
def test_v15_the_frames_of_inspect_ai_are_made_of_such_a_log(tmp_path: Path) -> None:
    from inspect_ai.analysis import messages_df, samples_df

    file = str(make_map().export(tmp_path / "cook.eval"))
    samples, messages = samples_df(file, quiet=True), messages_df(file, quiet=True)
    assert samples.score_right.tolist()[:2] == [True, True]
    assert samples.message_count.tolist() == [5, 5, 2]
    assert messages.role.tolist() == ["system", "user", "assistant", "tool", "assistant"] * 2


def test_v15_variants_are_part_of_the_ids_and_no_texts_are_written_where_none_are_kept(tmp_path: Path) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}, {how}")], llm="scripted", capture_mode="metadata")
    result = ensemble.variants({"low": {"how": "softly-said"}, "loud": {"how": "loudly-said"}}).map(
        [{"word": "sesame"}]
    )
    log = read_log(result, tmp_path)
    assert log.samples is not None
    assert [each.id for each in log.samples] == ["variant 0/row 0", "variant 1/row 0"]
    assert all(word not in log.model_dump_json() for word in ("sesame", "softly-said", "loudly-said"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_v15_tables_hold_the_rows_as_pandas_reads_them(tmp_path: Path, ending: str) -> None:
    result = make_map()
    file = result.export(tmp_path / f"rows.{ending}")
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": lambda path: pd.read_json(path, lines=True)}
    found = read[ending](file)
    assert result.frames is not None
    rows = result.frames.rows
    assert list(found.columns) == list(rows.columns)
    if ending == "parquet":
        assert {each.unit for each in found.dtypes if hasattr(each, "unit")} <= {"us"}
    for name in ("run_id", "row", "status", "input_word", "output", "score_right", "score_length"):
        assert found[name].astype(object).where(found[name].notna(), None).tolist() == (
            rows[name].astype(object).where(rows[name].notna(), None).tolist()
        )


HOSTILE = [
    *("=1+1", "+a", "-b", "@c", "\td", "'=quoted", "''@twice", "-2+3", "+49 30 1", "="),
    *("'plain", "don't", "-5", "+0.5", "1e3"),
]


def test_v15_a_spreadsheet_evaluates_nothing_and_a_map_reads_back_what_was_exported(tmp_path: Path) -> None:
    rows = [{"=word": each, "number": -number} for number, each in enumerate(HOSTILE)]
    task = Task.of("Say", name="say", handler=lambda task: task.inputs["=word"])
    result = Ensemble(tasks=[task]).map(rows)
    file = result.export(tmp_path / "rows.csv")
    with file.open(newline="") as lines:
        cells = [cell for row in csv.reader(lines) for cell in row]
    assert [each for each in cells if each[:1] in ("=", "@", "\t")] == []
    assert {each for each in cells if each[:1] in ("+", "-")} <= {"-5", "+0.5", *(f"-{n}" for n in range(1, len(rows)))}
    read = read_row_file(file)
    assert result.frames is not None
    assert [str(each) for each in read["output"]] == list(result.frames.rows["output"]) == HOSTILE
    assert [str(each) for each in read["input_=word"]] == HOSTILE
    assert list(read["input_number"]) == [-number for number in range(len(rows))]
    kept = result.export(tmp_path / "kept.csv", formulas="keep").read_text()
    assert ("'=1+1" in kept, "=1+1" in kept) == (False, True)
    with pytest.raises(ValidationError, match="formulas must be 'text' or 'keep', got 'kept'"):
        result.export(tmp_path / "kept.csv", formulas=cast(Any, "kept"))


def test_v15_other_endings_are_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"can't be exported to 'rows.xlsx'.*\.eval \(a log of inspect_ai.*\.csv"):
        make_map().export(tmp_path / "rows.xlsx")
    with pytest.raises(ValidationError, match="There was no row to run"):
        Ensemble(tasks=[Task.of("Say {word}")], llm="scripted").map([]).export(tmp_path / "rows.csv")
    assert not list(tmp_path.iterdir())


def test_v15_a_report_is_made_of_one_fold_of_the_map(tmp_path: Path) -> None:
    result = make_map()
    result.export(tmp_path / "cook.html")
    assert result.output is not None
    assert result.trace is not result.output.trace  # that one has no scores
    assert ("_fold" in vars(result.trace), "_fold" in vars(result.output.trace)) == (True, False)
