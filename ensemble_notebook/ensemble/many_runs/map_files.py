"""A map as a file of another kind (V15): its rows as a table, or a log of inspect_ai with messages and scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.ensemble.many_runs.rows import to_kept_value
from ensemble_notebook.errors import MissingPackageError, ValidationError, summarize_error
from ensemble_notebook.evaluation.scored_runs import group_by_run
from ensemble_notebook.evaluation.scorer import EXPECTED_COLUMNS
from ensemble_notebook.trace.analysis.map_rows import MAP_ROWS
from ensemble_notebook.trace.parquet_files import check_parquet, write_parquet
from ensemble_notebook.trace.row_files import Formulas, write_csv, write_jsonl
from ensemble_notebook.trace.run_files import FORMATS as RUN_FORMATS
from ensemble_notebook.trace.run_files import find_format
from ensemble_notebook.trace.tables.arrow_tables import write_value
from ensemble_notebook.trace.trace_file import write_whole

if TYPE_CHECKING:
    from inspect_ai.event import ModelEvent
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessage, ModelUsage
    from inspect_ai.scorer import Score

    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.trace.spans.span import Message


_NO_MODEL: Final = "none"
_STATUSES: Final[Mapping[RunStatus, Literal["cancelled", "error"]]] = {
    RunStatus.INTERRUPTED: "cancelled",
    RunStatus.BUDGET_EXCEEDED: "error",
    RunStatus.FAILED: "error",
}


def export_map(result: Any, path: Path, formulas: Formulas) -> Path:
    """Write a `MapResult` as what the end of the file's name says; gives the file.

    Raises:
        ValidationError: no format has this ending, `formulas` is no such way, or there was never a row to run.
        MissingPackageError: the format needs a package that is not installed.
        OSError: it can't be written; what was there before is still there.
    """
    check_export(path)
    if formulas not in (ways := get_args(Formulas)):
        raise ValidationError(f"formulas must be {' or '.join(map(repr, ways))}, got {formulas!r}.")
    if result.trace is None:
        raise ValidationError("There was no row to run, so there is nothing to export.")
    write = _find_format(path)
    if write is None:
        return find_format(path)(result.trace, path)
    written: Path = write(result, path, formulas)
    return written


def check_export(path: Path) -> None:
    """See whether a map can be written as what the end of the file's name says.

    Raises:
        ValidationError: no format has this ending, neither of maps nor of runs, which a map is, too.
        MissingPackageError: the format needs a package that is not installed.
    """
    name = path.name.lower()
    if name.endswith(".eval") and find_spec("inspect_ai") is None:
        raise MissingPackageError("Logs of inspect_ai are written by its own classes", extra="inspect")
    if name.endswith(".parquet"):
        check_parquet()
    if _find_format(path) is None:
        try:
            find_format(path)
        except ValidationError:
            meanings = {
                ending: meaning for formats in (RUN_FORMATS, FORMATS) for ending, (_, meaning) in formats.items()
            }
            known = ", ".join(f"{ending} ({meaning})" for ending, meaning in meanings.items())
            raise ValidationError(
                f"A map can't be exported to {path.name!r}. The end of the name says what it becomes: {known}."
            ) from None


def _find_format(path: Path) -> Any:
    """Who writes the rows; None where it is the run of the map that is written."""
    return next((write for ending, (write, _) in FORMATS.items() if path.name.lower().endswith(ending)), None)


def _write_csv(result: Any, path: Path, formulas: Formulas) -> Path:
    return write_whole(path, lambda draft: write_csv(_take_rows(result), draft, formulas))


def _write_jsonl(result: Any, path: Path, _: Formulas) -> Path:
    return write_whole(path, lambda draft: write_jsonl(_take_rows(result), draft))


def _write_parquet(result: Any, path: Path, _: Formulas) -> Path:
    return write_whole(path, lambda draft: write_parquet(_take_rows(result), MAP_ROWS, draft))


def _write_page(result: Any, path: Path, _: Formulas) -> Path:
    return write_whole(path, lambda draft: draft.write_text(render_view("map_page", result), encoding="utf-8"))


def _take_rows(result: Any) -> Any:
    assert result.frames is not None
    return result.frames.rows.reset_index(drop=True)


# --- A log of inspect_ai: a row is a sample, a repeat is an epoch -----------------------------------------------------


def _write_inspect_log(result: Any, path: Path, _: Formulas) -> Path:
    from inspect_ai import log as inspect

    output = result._last_output
    assert output is not None
    scores = group_by_run(result.score_records)
    samples = [_make_eval_row(result, row, scores.get(row.run_id or "", [])) for row in result]
    usage: dict[str, ModelUsage] = {}
    for sample in samples:
        for model, used in sample.model_usage.items():
            usage[model] = usage[model] + used if model in usage else used
    means = []  # of each score over runs, as the viewer shows it; a label has none
    for name in dict.fromkeys(each.name for each in result.score_records):
        values = [each.value for each in result.score_records if each.name == name and each.value is not None]
        metrics = {"mean": inspect.EvalMetric(name="mean", value=math.fsum(values) / len(values))} if values else {}
        means.append(inspect.EvalScore(name=name, scorer=name, scored_samples=len(values), metrics=metrics))
    started, ended = _find_times(output)
    log = inspect.EvalLog(
        status=_STATUSES.get(result.status, "success"),
        eval=inspect.EvalSpec(
            created=started,
            task=mask(getattr(result.ensemble, "name", None) or "ensemble"),
            run_id=output.run_id,
            dataset=inspect.EvalDataset(
                name="rows",
                samples=len({each.id for each in samples}),
                sample_ids=list(dict.fromkeys(each.id for each in samples)),
                shuffled=False,
            ),
            model=next(iter(usage), _NO_MODEL),
            config=inspect.EvalConfig(epochs=max((each.epoch for each in samples), default=1)),
            metadata={"map_run_id": output.run_id},
        ),
        results=inspect.EvalResults(
            total_samples=len(samples),
            completed_samples=sum(each.error is None and each.output.completion != "" for each in samples),
            scores=means,
        ),
        stats=inspect.EvalStats(started_at=started, completed_at=ended, model_usage=usage),
        samples=samples,
    )
    return write_whole(path, lambda draft: inspect.write_eval_log(log, draft, format="eval"))


def _make_eval_row(result: Any, row: Any, scores: list[ScoreRecord]) -> EvalSample:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import ModelOutput

    place, output = result._describe_place(row), row.output
    names = [each for each in (place["variant"], place["row"] or row.name) if each]
    inputs = {name: to_kept_value(value) for name, value in row.inputs.items()} if result._shows_texts else {}
    expected = next((inputs[name] for name in EXPECTED_COLUMNS if inputs.get(name) is not None), "")
    usage, times = ({}, (None, None)) if output is None else (_read_usage(output), _find_times(output))
    messages, events = ([], []) if output is None else _read_conversations(output)
    raw = mask(row.raw) if row.raw is not None and result._shows_texts else ""
    message = "" if row.error is None else mask(summarize_error(row.error))
    masked = json.loads(mask(json.dumps(inputs, default=str)))
    return EvalSample(
        id="/".join(names),
        epoch=row.repeat or 1,
        input=mask(write_value(inputs)),
        target=mask(write_value(expected)),
        messages=messages,
        events=events,
        output=ModelOutput.from_content(next(iter(usage), _NO_MODEL), raw) if raw else ModelOutput(),
        scores={each.name: _make_score(each) for each in scores if each.measure is not None},
        metadata={"status": row.status, "run_id": row.run_id, "variant": place["variant"], "inputs": masked},
        model_usage=usage,
        started_at=times[0],
        completed_at=times[1],
        total_time=None if output is None else output.total_duration.total_seconds(),
        error=EvalError(message=message, traceback=message, traceback_ansi=message) if message else None,
    )


def _make_score(record: ScoreRecord) -> Score:
    from inspect_ai.scorer import Score

    value: Any = record.label if record.label is not None else record.value
    if record.passed is not None:
        value = record.passed
    about = {"kind": record.kind.value, "scorer": record.scorer, "model": record.model, "author": record.author}
    known = {name: each for name, each in about.items() if each is not None}
    return Score(value=value, explanation=record.reason, metadata=known)


def _read_conversations(output: EnsembleOutput) -> tuple[list[ChatMessage], list[ModelEvent]]:
    """What was said in a run, in order, and the model calls in which it was.

    The viewer shows the first, and the frames of inspect_ai are made of the second. What an earlier run had said, which
    a task goes on with, is in its model calls alone.
    """
    from inspect_ai.event import ModelEvent
    from inspect_ai.model import ChatCompletionChoice, GenerateConfig, ModelOutput

    said: list[tuple[int, ChatMessage]] = []
    calls: list[tuple[int, ModelEvent]] = []
    for task in output.trace._fold.messages.values():
        before: list[ChatMessage] = []
        for message in task:
            made = _make_message(message)
            if not message.is_earlier:
                said.append((message.number, made))
            if made.role == "assistant" and not message.is_earlier:
                model = message.span.model or message.span.model_requested or _NO_MODEL
                reply = ModelOutput(model=model, choices=[ChatCompletionChoice(message=made)])
                call = ModelEvent(
                    timestamp=message.time,
                    model=model,
                    input=list(before),
                    tools=[],
                    tool_choice="auto",
                    config=GenerateConfig(),
                    output=reply,
                )
                calls.append((message.number, call))
            before.append(made)
    in_order = [sorted(each, key=lambda pair: pair[0]) for each in (said, calls)]
    messages, events = ([each for _, each in pairs] for pairs in in_order)
    return messages, events


def _make_message(message: Message) -> ChatMessage:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser
    from inspect_ai.tool import ToolCall

    if message.role == "system":
        return ChatMessageSystem(content=message.text)
    if message.role == "user":
        return ChatMessageUser(content=message.text)
    if message.role == "tool":
        return ChatMessageTool(content=message.text, function=message.name, tool_call_id=message.span.tool_call_id)
    calls = []
    for call in message.tool_calls:
        try:
            value = json.loads(call.arguments)
        except ValueError:
            value = call.arguments
        arguments = value if isinstance(value, dict) else {"arguments": value}
        calls.append(ToolCall(id=call.id, function=call.name, arguments=arguments))
    return ChatMessageAssistant(content=message.text, tool_calls=calls or None, model=message.span.model)


def _read_usage(output: EnsembleOutput) -> dict[str, ModelUsage]:
    """Tokens and costs by model, as far as they are known."""
    from inspect_ai.model import ModelUsage

    found: dict[str, ModelUsage] = {}
    for each in output.frames.llm_calls.astype(object).to_dict("records"):
        known = {name: value for name, value in each.items() if isinstance(value, int | float) and value == value}
        used = ModelUsage(
            input_tokens=known.get("input_tokens", 0),
            output_tokens=known.get("output_tokens", 0),
            total_tokens=known.get("total_tokens", 0),
            input_tokens_cache_read=known.get("cache_read_tokens"),
            input_tokens_cache_write=known.get("cache_write_tokens"),
            reasoning_tokens=known.get("reasoning_tokens"),
            total_cost=known.get("cost"),
        )
        model = each["model"] if isinstance(each["model"], str) else str(each["model_requested"])
        found[model] = found[model] + used if model in found else used
    return found


def _find_times(output: EnsembleOutput) -> tuple[str, str]:
    """When a run began and ended, as ISO 8601 has it."""
    started = output.trace.started_at or datetime.now(UTC)
    return started.isoformat(), (started + output.total_duration).isoformat()


FORMATS: Final[dict[str, tuple[Callable[..., Path], str]]] = {
    ".html": (_write_page, "a report as one page, without a network"),
    ".eval": (_write_inspect_log, "a log of inspect_ai, for inspect view"),
    ".csv": (_write_csv, "the table of rows"),
    ".jsonl": (_write_jsonl, "the table of rows, a line for each"),
    ".parquet": (_write_parquet, "the table of rows"),
}
"""What a map can be written as: the end of the name, who writes it, and what it is."""
