"""Two made-up runs of one report, for the test and the picture of a comparison (W17)."""

from __future__ import annotations

from typing import Any

from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.trace.analysis.joined_runs import JoinedRuns
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder

RATES = CostConfiguration(input_rate="0.0000025", output_rate="0.00001", currency="USD")
TASKS = {"plan": (), "facts": ["plan"], "risks": ["plan"], "brief": ()}
AGENTS = {"plan": "Editor", "facts": "Researcher", "risks": "Analyst", "brief": "Writer", "check": "Editor"}


def save_comparison() -> dict[str, Any]:
    """The saved view of both: the second takes longer to think, is refused once, and has its brief checked."""
    diff = write_report(1.0).diff(write_report(1.6, has_check=True))
    return TimelineMessages(JoinedRuns(diff)).make_saved_view()


def write_report(pace: float, *, has_check: bool = False) -> ExecutionTrace:
    """One run; what models do takes `pace` times as long."""
    tasks = {**TASKS, "check": ["brief"]} if has_check else TASKS
    writing = ["brief", "check"] if has_check else ["brief"]
    phases = {"research": ["plan", "facts", "risks"], "writing": writing}
    build = EventBuilder(tasks, phases=phases, after={"writing": ["research"]}, agents=AGENTS, name="research-report")
    with build.phase("research"):
        with build.task("plan"), build.turn():
            build.llm("A plan.", seconds=1.2 * pace, input_tokens=300, output_tokens=50)
        for name in build.beside(["facts", "risks"]):
            with build.task(name):
                with build.turn(1):
                    build.llm("", seconds=1.1 * pace, asks=["search"], input_tokens=400, output_tokens=20)
                    build.tool("search", seconds=0.9)
                with build.turn(2):
                    refusals = [("429", 1.0)] if has_check and name == "risks" else []
                    build.llm("Found.", seconds=pace, input_tokens=600, output_tokens=int(80 * pace), retries=refusals)
    with build.phase("writing"):
        with build.task("brief"), build.turn():
            build.llm("The brief.", seconds=2.6 / pace, input_tokens=900, output_tokens=300)
        if has_check:
            with build.task("check"), build.turn():
                build.llm("Fine.", seconds=0.8, input_tokens=350, output_tokens=5)
    return ExecutionTrace.from_events(build.finish(), RATES)
