import pickle
import subprocess
import sys

import pytest

from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus, SpanStatus
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from tests.support.event_builder import EventBuilder


def events():
    build = EventBuilder({"draft": (), "check": ["draft"]}, agents={"check": "Critic"}, inputs={"topic": "llamas"})
    with build.task("draft"), build.turn():
        build.llm("Llamas.", seconds=2, input_tokens=10, output_tokens=3)
    with build.task("check"), build.turn():
        build.llm("Fine.", seconds=1, input_tokens=20, output_tokens=4)
    return build.finish()


def test_a_trace_tells_of_the_run():
    trace = ExecutionTrace.from_events(events())
    assert (trace.run_id, trace.name, trace.workflow) == ("run", "demo", "parallel")
    assert (trace.status, trace.exit_reason) == (RunStatus.COMPLETED, ExitReason.COMPLETED)
    assert trace.inputs == {"topic": "llamas"}
    assert trace.plan.total_tasks == 2
    assert trace.duration.total_seconds() == 3.0
    assert trace.ended_at - trace.started_at == trace.duration
    assert repr(trace) == "ExecutionTrace('demo', completed, 2 tasks, 3.0 s)"


def test_parts_of_a_trace_are_a_line_each_where_they_are_shown():
    trace = ExecutionTrace.from_events(events())
    for part in (*trace.tasks, *trace.tasks[0].turns, *trace.tasks[0].spans):
        assert len(repr(part)) < 100
        assert f"{part.span.name if hasattr(part, 'span') else part.name!r}" in repr(part)
    task = trace.tasks[0]
    assert repr(task) == f"<TaskTrace {task.name!r}: ok in 2.0 s>"
    assert repr(task.span) == f"<Span task {task.name!r}: ok in 2.0 s>"
    assert len(repr(task.messages[0])) < 300 + len(task.messages[0].text)


def test_a_trace_takes_a_fold_that_was_made_meanwhile():
    trace, fold = ExecutionTrace.from_events(events()), TraceFold()
    for event in events()[:-1]:
        fold.add(event)
    assert not trace._take_fold(fold)  # a view may have given up before the end
    assert trace.status is RunStatus.COMPLETED
    later = ExecutionTrace.from_events(events())
    fold.add(events()[-1])
    assert later._take_fold(fold)
    assert later._fold is fold
    assert (later.status, later.metrics, len(later.spans)) == (trace.status, trace.metrics, len(trace.spans))


def test_a_task_has_its_own_part():
    trace = ExecutionTrace.from_events(events())
    check = trace.task("check")
    assert (check.span.agent, check.span.status, check.span.output) == ("Critic", SpanStatus.OK, "Fine.")
    assert {span.task for span in check.spans} == {"check"}
    assert [message.role for message in check.messages] == ["system", "user", "assistant"]
    assert (check.metrics.input_tokens, trace.metrics.input_tokens) == (20, 30)
    assert sum(len(task.spans) for task in trace.tasks) == len(trace.spans) - 1


def test_an_unknown_task_is_refused_with_the_nearest_name():
    with pytest.raises(KeyError, match="Did you mean 'draft'"):
        ExecutionTrace.from_events(events()).task("drafd")


def test_a_run_that_never_started_has_an_empty_trace():
    trace = ExecutionTrace.from_events(())
    assert (trace.run_id, trace.status, trace.spans, trace.tasks) == ("", RunStatus.PENDING, (), ())
    assert (trace.started_at, trace.ended_at, trace.duration) == (None, None, None)
    assert (trace.metrics.input_tokens, trace.metrics.cost) == (0, 0)


def test_a_trace_pickles():
    trace = ExecutionTrace.from_events(events())
    again = pickle.loads(pickle.dumps(trace))
    assert again.spans == trace.spans
    assert again.metrics == trace.metrics
    task = pickle.loads(pickle.dumps(trace.task("draft")))
    assert task.metrics == trace.task("draft").metrics


def test_making_a_trace_loads_neither_pandas_nor_the_price_list():
    program = (
        "import sys; from ensemble_notebook.trace.execution_trace import ExecutionTrace;"
        "trace = ExecutionTrace.from_events(()); trace.metrics; trace.tasks;"
        "sys.exit(bool({'pandas', 'genai_prices', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
