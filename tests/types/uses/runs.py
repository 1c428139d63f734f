"""How ensembles are run, and what is read from outputs and events, rightly and wrongly, as mypy and pyright see it.

Nothing here runs; see ``definitions.py``.
"""

# pyright: strict

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import pandas as pd

from ensemble_notebook import (
    CostEstimate,
    Ensemble,
    EnsembleOutput,
    Event,
    ExecutionPlan,
    ExecutionTrace,
    ExitReason,
    Failure,
    Improvement,
    LlmCallCompleted,
    MapResult,
    Metrics,
    Partial,
    RunEnded,
    RunHandle,
    RunStatus,
    RunStream,
    Skipped,
    Task,
    TaskCompleted,
    TaskExecutionError,
    TaskFailed,
    TaskOutput,
    TokenUsage,
    ToolCallCompleted,
    ToolOutcome,
    auto_review,
)

team = Ensemble(tasks=[Task.of("Write about {topic}", name="draft")])

# --- The ways to run --------------------------------------------------------------------------------------------------

output = team.run({"topic": "tides"}, timeout=5, record="run.yaml", count=3)
assert_type(output, EnsembleOutput)
team.run(topic="tides", replay=Path("run.yaml"))
team.run(timeout=[5])  # error: list[int]
team.run(["topic"])  # error: list[str]
team.run(record=3)  # error: run
team.ran()  # error: ran

handle = team.start({"topic": "tides"}, listeners=[lambda event: print(event.seq)], review_handler=auto_review())
assert_type(handle, RunHandle)
assert_type(handle.status, RunStatus)
assert_type(handle.is_done, bool)
assert_type(handle.events, Sequence[Event])
assert_type(handle.output, EnsembleOutput | None)
assert_type(handle.result(timeout=3), EnsembleOutput)
handle.cancel()
handle.result("3")  # error: result
handle.stop()  # error: stop
team.start(listeners=[3])  # error: int
team.start(review_handler=print)  # error: review_handler

assert_type(team.plan(topic="tides"), ExecutionPlan)
assert_type(team.estimate({"topic": "tides"}), CostEstimate)
assert_type(team.validate(), tuple[str, ...])


async def run_here() -> None:
    assert_type(await team.arun(topic="tides", timeout=3), EnsembleOutput)
    assert_type(await handle, EnsembleOutput)
    async for event in team.astream(topic="tides"):
        assert_type(event, Event)
    async with team.stream(topic="tides", timeout=3) as run:
        assert_type(run, RunStream)
        assert_type([piece async for piece in run.text()], list[str])
        assert_type([each async for each in run], list[Event])
        async for partial in run.partials("draft"):
            assert_type(partial, Partial)
            assert_type(partial.attempt, int)
            assert_type(partial.task, str)
            assert_type(partial["title"], Any)
        run.partials(3)  # error: str
    assert_type(run.output, EnsembleOutput | None)
    team.stream(timeout="3")  # error: timeout
    await team.arun(timeout="3")  # error: timeout
    await team.run()  # error: EnsembleOutput


# --- Outputs ----------------------------------------------------------------------------------------------------------

assert_type(output.raw, str)
assert_type(output.parsed_output, Any)
assert_type(output.status, RunStatus)
assert_type(output.exit_reason, ExitReason)
assert_type(output.failures, tuple[Failure, ...])
assert_type(output.skipped, tuple[Skipped, ...])
assert_type(output.total_duration, timedelta)
assert_type(output.events, tuple[Event, ...])
assert_type(output.warnings, tuple[str, ...])
assert_type(output.task_outputs, tuple[TaskOutput, ...])
assert_type(output.phase_outputs, dict[str, tuple[TaskOutput, ...]])
assert_type(output.trace, ExecutionTrace)
assert_type(output.frames.tasks, pd.DataFrame)
assert_type(output.metrics, Metrics)
assert_type(output.metrics.llm_call_count, int)
assert_type(output["draft"], TaskOutput)
assert_type(output.get("draft"), TaskOutput | None)
assert_type(output.ensemble.run(topic="ebb"), EnsembleOutput)
assert_type(output.ensemble.name, str | None)
assert_type(output.ensemble.replace(llm="local").run(topic="ebb"), EnsembleOutput)
assert_type(team.map([{"topic": "tides"}], resume="-1", budget="$2"), MapResult)
team.map([{"topic": "tides"}], budget=2)  # error: budget
better = team.improve([{"topic": "tides"}], score=len, change="task.draft.description", budget="$2", held_out=0.3)
assert_type(better, Improvement)
assert_type(better.is_confirmed, bool)
team.improve([{"topic": "tides"}], change=3)  # error: change
assert_type([each.name for each in output], list[str])
assert_type(len(output), int)
output[0]  # error: str
output.text  # error: text
output.frames.nonsense  # error: nonsense
output.get(3)  # error: get
output.ensemble.run(timeout="5")  # error: timeout


class Summary:
    text: str


draft = output["draft"]
assert_type(draft.raw, str)
assert_type(draft.duration, timedelta)
assert_type(draft.completed_at, datetime)
assert_type(draft.get_parsed_output(Summary), Summary)
assert_type(draft.metrics, Metrics | None)
draft.raw = "other"  # error: raw
draft.text  # error: text

try:
    team.run(topic="tides")
except TaskExecutionError as error:
    assert_type(error.task_description, str)
    assert_type(error.agent_role, str)
    error.nonsense  # error: nonsense

# --- Events -----------------------------------------------------------------------------------------------------------

for event in output.events:
    assert_type(event.seq, int)
    assert_type(event.parent_id, str | None)
    if isinstance(event, TaskCompleted):
        assert_type(event.output, TaskOutput)
    elif isinstance(event, TaskFailed):
        assert_type(event.error, BaseException)
    elif isinstance(event, LlmCallCompleted):
        event.nonsense  # error: nonsense
    elif isinstance(event, ToolCallCompleted):
        assert_type(event.outcome, ToolOutcome | None)
    elif isinstance(event, RunEnded):
        assert_type(event.status, RunStatus)
    event.output  # error: output
    event.seq = 3  # error: seq

assert_type(TokenUsage(input_tokens=3).output_tokens, int | None)
TokenUsage(input_tokens="3")  # error: input_tokens
