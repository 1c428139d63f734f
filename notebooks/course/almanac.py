"""The harbour office of the lesson on traces: its tools, its model, and what exercises are held to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from course import Expectation
from ensemble_notebook import EnsembleOutput, Fail, Reply, Score, ScriptedChatModel, ToolUse

TABLE = """| Port | Springs | Neaps |
|---|---|---|
| Northhaven | 9th | 2nd |
| Southhaven | 10th | 3rd |
| Eastport | 8th | 1st |
| Westport | 11th | 4th |

Mind your anchors in May."""
LOG = "12 May, wind west 6: a schooner dragged her anchor, no harm done. "


def tide_table(port: str) -> str:
    """High and low water of a port."""
    time.sleep(0.2)
    return f"{port}: high water 05:12 and 17:40, low water 11:25 and 23:51, range 3.4 m."


def search_log(words: str) -> str:
    """Entries of the harbour log."""
    time.sleep(0.25)
    if words == "1911":
        raise LookupError("the log of 1911 is lost")
    return f"Three entries about {words}. {LOG * 12}"


def look_up(messages: list[Any]) -> Reply:
    """A pilot: one look into the tables, then the answer."""
    port = next(each for each in ("north", "south", "east", "west") if f"the {each}" in messages[1].content)
    if messages[-1].type != "tool":
        return Reply(calls=[ToolUse("tide_table", {"port": f"{port.title()}haven"})], delay=0.05)
    return Reply(f"In the {port}: springs on the 9th, neaps on the 2nd.", delay=0.15)


def dig(messages: list[Any]) -> Reply:
    """The archivist: one look after the other, and an answer that says what is lost."""
    since = messages[1].content.rpartition("since ")[2].split()[0].rstrip(".")
    wanted = ["wrecks", since, "anchors", "storms"]
    found = [each.content for each in messages if each.type == "tool"]
    if len(found) < len(wanted):
        return Reply(calls=[ToolUse("search_log", {"words": wanted[len(found)]})], delay=0.05)
    lost = f" What happened in {since} is not known." if "is lost" in found[1] else ""
    return Reply(f"A schooner dragged her anchor in May.{lost}", delay=1.1)


def write(messages: list[Any]) -> Reply:
    """The editor: a few lines, or a table where one is asked for."""
    if "table" in messages[-1].content.rpartition("## Task")[2]:
        return Reply(TABLE, delay=1.8)
    return Reply("Springs on the 9th, neaps on the 2nd. Mind your anchors in May.", delay=0.4)


model = ScriptedChatModel.match(
    {
        "Find mistakes": [Fail(429, delay=0.05), Reply("All dates agree with the tables.", delay=0.3)],
        "You are Editor": write,
        "You are Archivist": dig,
        "You are Pilot": look_up,
    },
    model_name="harbour-1",
)


def bottleneck_of(run: EnsembleOutput) -> str:
    """The task with the largest part of the critical path."""
    path = run.frames.critical_path
    return str(path.groupby("task", observed=True).duration_ms.sum().idxmax())


def names_the_bottleneck(rule: Callable[[EnsembleOutput], Any]) -> Expectation:
    """Pass where a function names the task that made this run as long as it was."""

    def names_the_task_that_the_run_waited_for(run: EnsembleOutput) -> Score:
        said = rule(run)
        path = run.frames.critical_path
        on_path = path[path.task == said].duration_ms.sum()
        reason = f"it says {said!r}, on which the run waited for {on_path / 1000:.1f} s"
        return Score(value=said == bottleneck_of(run), reason=reason)

    return names_the_task_that_the_run_waited_for


def tells_the_loss(rule: Callable[[EnsembleOutput], Any]) -> Expectation:
    """Pass where a function tells by how many milliseconds the rate limit made this run longer."""

    def tells_what_the_limit_cost(run: EnsembleOutput) -> Score:
        said, without = float(rule(run)), run.what_if(drop_waits="rate_limit")
        reason = f"it says {said:.0f} ms, and without the limit the run takes {without.wall_ms:.0f}"
        return Score(value=abs(said - without.saved_ms) < 5, reason=f"{reason} of {without.actual_ms:.0f} ms")

    return tells_what_the_limit_cost


def objects_to(expectation: Callable[[EnsembleOutput], Any]) -> Expectation:
    """Pass where an expectation does not hold of this run."""

    def does_not_hold(run: EnsembleOutput) -> Score:
        said = expectation(run)
        holds = said.value if isinstance(said, Score) else said
        return Score(value=not holds, reason=f"it says {holds}")

    does_not_hold.__name__ = f"objects_to({getattr(expectation, '__name__', expectation)})"
    return does_not_hold
