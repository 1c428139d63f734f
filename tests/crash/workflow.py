"""The workflow that is killed: what it declares, what its model says, and how a child process runs it.

Its model is a server that answers by what it is asked, so that each order of requests comes to the same outputs.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from ensemble_notebook import (
    Agent,
    Ensemble,
    Phase,
    PhaseReview,
    Review,
    ReviewDecision,
    ReviewRequest,
    Task,
    TaskOutput,
    config,
)
from ensemble_notebook.domain import events as ev
from ensemble_notebook.trace.store import run_store
from ensemble_notebook.trace.store.run_writer import Entry, Intake, PendingResult, RunWriter, StoredExchange, Taken
from ensemble_notebook.trace.store.store_writer import StoreWriter
from tests.support.openai_server import Answer, Request


class Count(BaseModel):
    """How often something happens."""

    what: str
    times: int


def make_ensemble(llm: str, notes: Path) -> Ensemble:
    """Three phases: tools, a correction, a guardrail, a review that sends back, a person, a delegation.

    Args:
        llm: the model.
        notes: a file that gets a line for each call of a tool and each question to the person.
    """

    def note(line: str) -> None:
        with notes.open("a") as file:
            file.write(f"{line}\n")

    def search(q: str) -> str:
        """Look it up."""
        note(f"search {q}")
        return f"found {q}"

    def is_final(output: TaskOutput) -> str | None:
        return None if "final" in output.raw else "It is not final."

    def ask(request: ReviewRequest) -> ReviewDecision:
        if request.subject == "tool":  # it was killed at a call, and is asked whether to make it again
            return ReviewDecision.approve()
        note(f"review {request.text}")
        return ReviewDecision.approve() if "Bold" in request.text else ReviewDecision.retry("bolder")

    worker = Agent(role="Worker", goal="Work")
    facts = Task.of("Find facts", name="facts", agent=Agent(role="Searcher", goal="Find", tools=[search]))
    counts = Task.of("Count the tides", name="counts", agent=Agent(role="Counter", goal="Count"), output_type=Count)
    risks = Task.of("Name a risk", name="risks", agent=worker)
    draft = Task.of(
        "Write a draft",
        name="draft",
        agent=Agent(role="Writer", goal="Write"),
        context=[facts, counts],
        output_guardrails=[is_final],
        max_guardrail_retries=1,
    )
    title = Task.of("Find a title", name="title", agent=worker, context=[risks])
    editor = Task.of("Review the draft", name="review", agent=Agent(role="Editor", goal="Judge"))
    brief = Task.of("Write a brief", name="brief", agent=worker, context=[draft, title], review=Review(timing="after"))
    lead = Agent(role="Lead", goal="Lead", allow_delegation=True)
    check = Task.of("Have it checked", name="check", agent=lead)
    return Ensemble(
        phases=[
            Phase(name="research", tasks=[facts, counts, risks], workflow="parallel"),
            Phase(
                name="writing",
                tasks=[draft, title],
                after=["research"],
                workflow="parallel",
                review=PhaseReview(editor),
            ),
            Phase(name="end", tasks=[brief, check], after=["writing"], workflow="parallel"),
        ],
        agents=[facts.agent, counts.agent, worker, draft.agent, editor.agent, lead],
        llm=llm,
        review_handler=ask,
        name="tides",
    )


def answer(request: Request) -> Answer:
    """What the model says to a request: the same to the same."""
    messages = request.body["messages"]
    role = messages[0]["content"].partition("You are ")[2].partition(".")[0]
    prompt, turn = messages[1]["content"], sum(each["role"] == "assistant" for each in messages)
    match role, turn:
        case "Searcher", 0:
            return Answer(None, calls=[("search", {"q": "tides"}), ("search", {"q": "moon"})])
        case "Searcher", 1:
            return Answer(None, calls=[("call_3", "search", {"q": "wind"})])
        case "Searcher", _:
            return Answer("Facts: " + ", ".join(each["content"] for each in messages if each["role"] == "tool"))
        case "Counter", 0:
            return Answer("Two a day, I think.")
        case "Counter", _:
            return Answer(json.dumps({"what": "tides", "times": 2}))
        case "Writer", _:
            revised = "final draft, " if "Revision" in prompt else "rough draft"
            return Answer(f"{revised}{'short' if 'shorter' in prompt else 'long'}")
        case "Editor", _:
            return Answer("APPROVE" if "short" in prompt else "RETRY draft: shorter")
        case "Lead", 0:
            return Answer(None, calls=[("delegate", {"agent_role": "Worker", "task_description": "Check the tides"})])
        case "Lead", _:
            return Answer("Checked: " + messages[-1]["content"])
    task = prompt.partition("## Task")[2].split()
    return Answer(f"{'Bold: ' if 'bolder' in prompt else 'Done: '}{' '.join(task[:3])}")


class SteppingIntake(Intake):
    """Has a commit at once, after each exchange, result and end: on a quick machine as often as on a slow one."""

    PAUSE_S: ClassVar[float] = 0.0
    STEPS: ClassVar = (StoredExchange, PendingResult, ev.RunEnded)

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[tuple[RunWriter, Entry | None]] = deque()

    def take(self, limit_s: float) -> dict[RunWriter, Taken]:
        batch: dict[RunWriter, Taken] = {}
        while True:
            while not self._waiting:
                for run, taken in super().take(limit_s).items():
                    self._waiting.extend((run, entry) for entry in taken.entries)
                    self._waiting.extend([(run, None)] * taken.has_ended)
            run, entry = self._waiting.popleft()
            step = batch.setdefault(run, Taken([], has_ended=False))
            step.has_ended = entry is None
            if entry is not None:
                step.entries.append(entry)
            if entry is None or isinstance(entry, self.STEPS):
                return batch


class SteppingWriter(StoreWriter):
    """Commits step by step."""

    PATIENCE_S: ClassVar[float | None] = None

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.intake = SteppingIntake()


class Boundaries:
    """One before and one after each commit of this process, which is killed at one of them.

    Args:
        kill_at: its number, from 0. None for no kill.

    Attributes:
        passed: how many it has passed.
    """

    def __init__(self, kill_at: int | None) -> None:
        self.passed = 0
        self._kill_at = kill_at

    def make_connection_type(self) -> type[sqlite3.Connection]:
        """A connection whose commits have boundaries."""
        pass_one = self._pass_one

        class Bounded(sqlite3.Connection):
            def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
                if sql != "COMMIT":
                    return super().execute(sql, *args)
                pass_one()
                cursor = super().execute(sql, *args)
                pass_one()
                return cursor

        return Bounded

    def _pass_one(self) -> None:
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1


def run(llm: str, folder: Path, resume: str | None, kill_at: int | None) -> None:
    """Run the workflow, in a process of its own, to its end or to the boundary at which it is killed.

    Args:
        llm: the model.
        folder: has the store, and gets notes and the result.
        resume: the run to go on with.
        kill_at: number of the boundary. None to run to the end.
    """
    config.store = folder / "runs.db"
    boundaries = Boundaries(kill_at)
    sqlite3.connect = partial(sqlite3.connect, factory=boundaries.make_connection_type())  # type: ignore[assignment]
    run_store.StoreWriter = SteppingWriter  # type: ignore[misc]
    output = make_ensemble(llm, folder / "notes").run(resume=resume)
    for thread in threading.enumerate():
        if thread.name == "ensemble-store":
            thread.join()
    said: dict[str, Any] = {each.name: each.raw for each in output.task_outputs}
    result = {
        "said": said,
        "typed": output["counts"].get_parsed_output(Count).model_dump(),
        "status": output.status,
        "calls": output.metrics.llm_call_count,
        "boundaries": boundaries.passed,
    }
    (folder / "result.json").write_text(json.dumps(result))


def ask_often(llm: str, folder: Path) -> None:
    """Ask the model hundreds of things, six at a time, in a process of its own; each task has a text of its own.

    Args:
        llm: the model.
        folder: has the store.
    """
    config.store = folder / "runs.db"
    agent = Agent(role="Clerk", goal="Answer")
    tasks = [Task.of(f"Say reply-{number}.", name=f"say {number}", agent=agent) for number in range(500)]
    Ensemble(name="often", tasks=tasks, agents=[agent], workflow="parallel", max_concurrency=6, llm=llm).run()
