"""A class: folders of students with runs of exercises, what checks leave in them, and what may lie there."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ensemble_notebook import (
    CostConfiguration,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    config,
)
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from tests.support.store import wait_for_store

SECRET: Final = "the oven of Anna is cold"
REASON: Final = "delete was called by Ben's agent"

_RATES: Final = CostConfiguration(input_rate="0.001", output_rate="0.002")


def break_down(task: object) -> str:
    raise ValueError(SECRET)


def work(name: str = "lesson 1", *, fails: bool = False) -> EnsembleOutput:
    """A run of an exercise."""
    task = Task.of("Say a", name="say", handler=break_down) if fails else Task.of("Say a", name="say")
    ensemble = Ensemble(name=name, tasks=[task], llm=ScriptedChatModel(default="done"), cost=_RATES)
    handle = ensemble.start()
    with suppress(TaskExecutionError):
        handle.result()
    assert handle.output is not None
    return handle.output


def with_checks(output: EnsembleOutput, **held: bool) -> ExecutionTrace:
    """The trace with what a check leaves in it."""
    scores = [
        ScoreRecord(
            name=f"check.{name}('x')",
            kind=ScoreKind.CODE,
            scored_at=datetime.now(UTC),
            run_id=output.run_id,
            value=float(passed),
            passed=passed,
            reason=None if passed else REASON,
        )
        for name, passed in held.items()
    ]
    return output.trace._with_scores(scores)


def fill_class(folder: Path) -> Path:
    """One student who is done, one who fails, one without a run, one with a damaged file, one with a store."""
    anna, ben, carl, dora, elif_ = (folder / name for name in ("anna", "ben", "carl", "dora", "elif"))
    for each in (anna, ben, carl, dora, elif_):
        each.mkdir(parents=True)
    work(fails=True).trace.save(anna / "1.trace.json")
    work(fails=True).trace.save(anna / "2.trace.json")
    with_checks(work(), called=True, matches=True).save(anna / "3.trace.json")
    with_checks(work("lesson 2"), called=False, matches=True).save(anna / "sub" / "4.trace.json.gz")
    work(fails=True).trace.save(ben / "1.trace.json")
    (dora / "1.trace.json").write_text((anna / "3.trace.json").read_text()[:4000])
    with_checks(work(), called=True, matches=False).save(dora / "2.trace.json")
    config.store = elif_ / "runs.db"
    try:
        work()
        work("lesson 2")
        wait_for_store()
    finally:
        config.store = None
    (folder / "names.txt").write_text("anna, ben")
    return folder
