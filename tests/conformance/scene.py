"""Small things that many rules are tested with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    Event,
    ScriptedChatModel,
    Task,
    TaskInput,
    TaskInputPrepared,
)
from ensemble_notebook.cell.cell_reader import read_cell

E = TypeVar("E", bound=Event)


def say(text: str) -> Callable[[TaskInput], str]:
    """A handler that says this."""
    return lambda task: text


def fail(message: str = "burnt") -> Callable[[TaskInput], str]:
    """A handler that fails."""

    def broken(task: TaskInput) -> str:
        raise ValueError(message)

    return broken


def done(name: str, **fields: Any) -> Task:
    """A task that succeeds without a model; its output is its name."""
    return Task.of(f"Do {name}", name=name, handler=fields.pop("handler", say(name)), **fields)


def lost(name: str, **fields: Any) -> Task:
    """A task that fails without a model."""
    return done(name, handler=fail(f"{name} failed"), **fields)


def scripted(*replies: Any) -> ScriptedChatModel:
    """A model with these replies."""
    return ScriptedChatModel(replies=list(replies))


def agent(*replies: Any, role: str = "Cook", **fields: Any) -> Agent:
    """An agent on a scripted model."""
    return Agent(role=role, goal="Feed people", llm=scripted(*replies), **fields)


def of(output: EnsembleOutput, kind: type[E]) -> list[E]:
    """The events of one kind."""
    return [each for each in output.events if isinstance(each, kind)]


def prompts(output: EnsembleOutput) -> list[tuple[str, str]]:
    """System and user prompt of every task, in order."""
    return [(each.system_prompt, each.user_prompt) for each in of(output, TaskInputPrepared)]


def run(*tasks: Task, **fields: Any) -> EnsembleOutput:
    """A run of a flat ensemble."""
    return Ensemble(tasks=tasks, **fields).run()


def run_cell(text: str, **names: Any) -> EnsembleOutput:
    """A run of a cell, as the magic does it; `names` are the notebook's variables."""
    cell = read_cell(text, names)
    return cell.build(names).run(cell.inputs)


def fail_in_a_cell() -> EnsembleOutput:
    """A run that fails after its first task; here, where another process finds it."""
    return run_cell(
        "- {name: a, description: A, handler: find}\n- {name: b, description: B, handler: lose}", find=find, lose=lose
    )


def find(given: TaskInput) -> str:
    """Do well."""
    return "Well."


def lose(given: TaskInput) -> str:
    """Fail as people's functions do."""
    return dict[str, str]()["missing"]
