"""Random ensembles as notebook cells, edits of them, and an oracle that says which requests a run with reuse makes.

The oracle knows nothing of fingerprints: it goes through the tasks in order, and a task asks its model where what
counts for it was never the same before.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from ensemble_notebook import Agent, Ensemble, Task, Workflow
from tests.support.code_cell import Notebook
from tests.support.openai_server import Answer, Request

_numbers = itertools.count(1)
TEXT = re.compile(r"\[\[(\w+)\]\]")
CELL = """
LIMITS = {limits}

def shared(text):
    return text[: {shared}]
"""
TOOLS = '''
def helper_{n}(text):
    {comment}return [text, {helper}{layout}]

start_{n} = {default}

def make_{n}(limit):
    def tool_{n}(query: str, count: int = start_{n}) -> str:
        """Find it."""
        return (helper_{n}(query) * count)[:limit] + [{uses}]
    return tool_{n}

tool_{n} = make_{n}({constant})

def handler_{n}(task):
    read = [] if {is_deaf} else [each.raw for each in task.context]
    return reply([str(helper_{n}("")), str({constant}), *read])
'''
COUNTED = ("word", "goal", "helper", "default", "constant", "temperature")
UNCOUNTED = ("comment", "layout", "order", "name", "nothing")


@dataclass(frozen=True)
class Part:
    """One task: what it reads, and versions of all that can be edited."""

    reads: tuple[int, ...] = ()
    is_handler: bool = False
    is_deaf: bool = False
    has_shared: bool = False
    word: int = 0
    goal: int = 0
    helper: int = 0
    default: int = 1
    constant: int = 1
    temperature: int = 0
    comment: int = 0
    layout: int = 0
    order: int = 0
    name: int = 0
    nothing: int = 0

    def describe(self, world: int) -> str:
        """Its description; the model of a deaf one always answers alike."""
        return f"Word {self.word} of world {world}{' for the deaf' if self.is_deaf else ''}."

    def write(self, n: int) -> str:
        """The cell with its tool and its handler."""
        return TOOLS.format(
            n=n,
            comment="# as it is\n    " * self.comment,
            layout=",\n    " if self.layout % 2 else "",
            helper=self.helper,
            default=self.default,
            constant=self.constant,
            is_deaf=self.is_deaf,
            uses="shared(query), LIMITS" if self.has_shared else "",
        )


@dataclass(frozen=True)
class World:
    """All tasks of a cell, and the helper that several of their tools share. Its number tells it from all others."""

    parts: tuple[Part, ...]
    number: int
    shared: int = 1

    def edit(self, at: int, what: str, value: int) -> World:
        """The same after one edit."""
        if what == "shared":
            return replace(self, shared=value)
        at %= len(self.parts)
        changed: Any = replace(self.parts[at], **{what: value})
        return replace(self, parts=(*self.parts[:at], changed, *self.parts[at + 1 :]))

    def build(self, notebook: Notebook, url: str) -> Ensemble:
        """Execute the cells anew, and declare the ensemble."""
        turn = sum(part.order for part in self.parts)
        limits = "{'a': 1, 'b': 2}" if turn % 2 else "{'b': 2, 'a': 1}"
        notebook.names["reply"] = reply
        notebook.run("# again\n" * turn + CELL.format(limits=limits, shared=self.shared))
        tasks: list[Task] = []
        for n, part in enumerate(self.parts):
            notebook.run(part.write(n))
            worker: dict[str, Any] = {"handler": notebook.names[f"handler_{n}"]}
            if not part.is_handler:
                fields = [("model", "m"), ("base_url", url), ("temperature", part.temperature / 10)]
                llm = dict(reversed(fields) if part.order % 2 else fields)
                tools = [notebook.names[f"tool_{n}"]]
                worker = {"agent": Agent(role=f"Agent {n}", goal=f"Goal {part.goal}", llm=llm, tools=tools)}
            context, name = [tasks[at] for at in part.reads], f"task-{n}-{part.name}"
            tasks.append(Task.of(part.describe(self.number), name=name, context=context, **worker))
        return Ensemble(tasks=tasks, workflow=Workflow.PARALLEL)


def reply(texts: list[str]) -> str:
    """What a task says to what it was told and has read."""
    return f"[[{hashlib.sha256(repr(texts).encode()).hexdigest()[:12]}]]"


def answer(request: Request) -> Answer:
    """What the model says: by the description, and by the texts that were read, unless it is deaf."""
    context, _, task = request.prompt.partition("## Task")
    told = task.partition("## Expected Output")[0].strip()
    return Answer(reply(["deaf"] if "deaf" in told else [told, *TEXT.findall(context)]))


class Oracle:
    """Which tasks ask a model, run after run."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def list_requests(self, world: World) -> list[str]:
        """The roles of the agents that ask in a run of this world."""
        outputs: list[str] = []
        asked = []
        for n, part in enumerate(world.parts):
            read = [outputs[at] for at in part.reads]
            if part.is_handler:
                texts = [str(["", part.helper]), str(part.constant)]
                outputs.append(reply(texts if part.is_deaf else [*texts, *read]))
                continue
            shared = world.shared if part.has_shared else None
            counts = (n, shared, *(getattr(part, name) for name in COUNTED), *read)
            if counts not in self.seen:
                asked.append(f"Agent {n}")
            self.seen.add(counts)
            texts = ["deaf"] if part.is_deaf else [part.describe(world.number), *(each.strip("[]") for each in read)]
            outputs.append(reply(texts))
        return asked


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A graph of up to six tasks, of which some are handlers, some answer alike whatever they read."""
    count = draw(st.integers(1, 6))
    parts = [
        Part(
            reads=tuple(sorted(draw(st.sets(st.integers(0, n - 1), max_size=3)))) if n else (),
            is_handler=draw(st.integers(0, 3)) == 0,
            is_deaf=draw(st.booleans()),
            has_shared=draw(st.booleans()),
        )
        for n in range(count)
    ]
    return World(tuple(parts), next(_numbers))


edits = st.tuples(st.integers(0, 5), st.sampled_from((*COUNTED, *UNCOUNTED, "shared")), st.integers(0, 3))
