"""The ways in which one cell comes to run, each as a function from its text to what was done there."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    ExecutionTrace,
    MapResult,
    RunInterrupted,
    ScriptedChatModel,
    Task,
    ToolUse,
)
from ensemble_notebook.cli.main import main
from tests.notebook.conftest import Shell

INPUTS: Final = {"topic": "tides"}
"""What each run of a cell is given."""
OTHER: Final = {"topic": "the moon"}


@dataclass
class Place:
    """Where runs happen: a folder for what they write, and a shell."""

    folder: Path
    shell: Shell


@dataclass
class Done:
    """What was done at a door.

    Attributes:
        trace: of the whole run, live; at the command line, of the file that it wrote.
        result: the output or `MapResult` of the whole run; None at the command line.
        part: the name of the span in whose inside the ensemble ran; None where it is the whole run.
        row: the output of the ensemble alone, where the door gives it.
        error: how it failed.
    """

    trace: ExecutionTrace
    result: EnsembleOutput | MapResult | None = None
    part: str | None = None
    row: EnsembleOutput | None = None
    error: BaseException | None = None


Door = Callable[[str, Place, Mapping[str, Any]], Done]


def _catch(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What is given or, of a run that failed, its partial output and the error."""
    try:
        return call(), None
    except (EnsembleError, RunInterrupted) as error:
        if error.output is None:
            raise
        return error.output, error


def _give(call: Callable[[], Any], part: str | None = None) -> Done:
    result, error = _catch(call)
    if isinstance(result, MapResult):
        first = result.rows[0]
        return Done(result.trace, result, first.name, first.output, first.error or error)
    return Done(result.trace, result, part, None if part else result, error)


def run(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    return _give(lambda: Ensemble.from_yaml(text).run(INPUTS, **settings))


def arun(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    return _give(lambda: asyncio.run(Ensemble.from_yaml(text).arun(INPUTS, **settings)))


def stream(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    handle = Ensemble.from_yaml(text).start(INPUTS, listeners=[lambda event: None], **settings)
    return _give(handle.result)


def map_rows(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    return _give(lambda: Ensemble.from_yaml(text).map([INPUTS, OTHER], concurrency=1, **settings))


def vary(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    variants = Ensemble.from_yaml(text).variants({"a": INPUTS, "b": OTHER})
    return _give(lambda: variants.run(concurrency=1, **settings))


def nest(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    inner = Ensemble.from_yaml(text)
    task = Task(ensemble=inner, name="outer", inputs=INPUTS)
    return _give(lambda: _put_around(inner, task).run(**settings), "outer")


def _put_around(inner: Ensemble, task: Task) -> Ensemble:
    """The larger run: what is told and at which prices is its own affair, so it is said there, too."""
    return Ensemble(tasks=[task], capture_mode=inner.capture_mode, cost=inner.cost)


def call(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    inner = Ensemble.from_yaml(text)
    arguments = {name: value for name, value in INPUTS.items() if name not in inner.inputs}
    model = ScriptedChatModel.match({"Go": [ToolUse("go", arguments), "Gone."]})
    agent = Agent(role="Caller", goal="Call", llm=model, tools=[inner.as_tool("go", "Goes")])
    return _give(lambda: _put_around(inner, Task.of("Go", name="outer", agent=agent)).run(**settings), "outer")


def execute(text: str, place: Place, settings: Mapping[str, Any], *, options: str = "") -> Done:
    if "resume" in settings:
        return _look_up(place, f"%ensemble resume {settings['resume']} -o out")
    options += " --reuse" if settings.get("reuse") else ""
    return _look_up(place, f"%%ensemble -o out -i topic={INPUTS['topic']} {options}\n{text}")


def _look_up(place: Place, cell: str) -> Done:
    """What a cell has bound to ``out``."""
    place.shell.names.pop("out", None)
    outcome = place.shell.run(cell)
    error = outcome.error_before_exec or outcome.error_in_exec
    if error is not None and "out" not in place.shell.names:
        raise error
    out = place.shell.names["out"]
    if isinstance(out, EnsembleOutput):
        return Done(out.trace, out, None, out, error)
    return _give(out.result)


def execute_behind(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    return execute(text, place, settings, options="-b")


def command(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    if "resume" in settings:  # the command line has no word for it
        return run(text, place, settings)
    file, out = Path("cell.yaml"), Path("out.trace.json")
    file.write_text(text, encoding="utf-8")
    status = main(
        ["run", str(file), "-i", f"topic={INPUTS['topic']}", "-o", str(out), *(["--reuse"] * ("reuse" in settings))]
    )
    done = Done(ExecutionTrace.load(out))
    assert (status == 0) == (done.trace.status.value in ("completed", "completed_with_warnings")), status
    return done


def replay(text: str, place: Place, settings: Mapping[str, Any]) -> Done:
    if settings:
        return run(text, place, settings)
    with chdir(tempfile.mkdtemp(dir=place.folder)):  # where no memory is that this run would find
        run(text, place, {"record": place.folder / "run.yaml"})
    return run(text, place, {"replay": place.folder / "run.yaml"})


DOORS: Final[Mapping[str, Door]] = {
    "run": run,
    "arun": arun,
    "stream": stream,
    "cell": execute,
    "-b": execute_behind,
    "map": map_rows,
    "variants": vary,
    "nested": nest,
    "tool": call,
    "command line": command,
    "replay": replay,
}
