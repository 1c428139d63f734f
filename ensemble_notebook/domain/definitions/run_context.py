"""What a run knows, for tools, handlers, guardrails, conditions and scorers that ask for it (E79).

A function asks by a parameter that is annotated `RunContext`. `give_context` makes a function without that parameter of
it, which finds the context where it is called: whoever calls functions of users goes through it, and says by
`set_context` what they are called for.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from ensemble_notebook.errors import EnsembleError

Deps = TypeVar("Deps")
F = TypeVar("F", bound=Callable[..., Any])

_NAME: Final = "RunContext"
_WRITTEN: Final = re.compile(rf"(?P<class>(?:\w+\.)*{_NAME})\b")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunContext(Generic[Deps]):
    """What a run knows: for a parameter of a tool, handler, guardrail, condition or scorer.

    ::

        def balance(account: str, run: RunContext[Bank]) -> str:
            run.progress("asking the bank")
            return run.deps.find(account)

    The model is not told of it. `RunContext[Bank]` is for type checkers and readers.

    Attributes:
        inputs: the template variables of the run; read only. What is read of them counts for reuse.
        task: name of the task; None outside of one.
        agent: role of the agent that calls; None for a handler and outside of a task.
        run_id: of the run.
        deadline: when the run, or the task if that is earlier, is over at the latest (UTC); None for no limit.
        deps: what was given as ``run(deps=...)``, or as the `deps` of the ensemble.
    """

    deps: Deps
    inputs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    task: str | None = None
    agent: str | None = None
    run_id: str = ""
    deadline: datetime | None = None
    _report: Callable[[str, float | None], object] = lambda *_: None

    def progress(self, text: str, fraction: float | None = None) -> None:
        """Tell people who watch how far it is; it stands in the bar until something else is told. From any thread.

        Args:
            text: a few words.
            fraction: the share that is done, from 0 to 1.

        Raises:
            ValueError: the fraction is none.
        """
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError(f"progress takes a fraction from 0 to 1, got {fraction!r}.")
        self._report(str(text), None if fraction is None else float(fraction))

    def __repr__(self) -> str:
        """Where it is, without what it holds."""
        return f"<RunContext of task {self.task!r} in run {self.run_id}>"


_NO_DEPS: Final = "This run has no deps: give them by run(deps=...), Ensemble(deps=...), or `deps: NAME` in a cell."

MakeContext = Callable[[], RunContext[Any]]

_current: Final[contextvars.ContextVar[MakeContext | None]] = contextvars.ContextVar(
    "ensemble_run_context", default=None
)


@contextmanager
def use_agent(role: str) -> Iterator[None]:
    """Inside the ``with`` block, functions are called for this agent, also on the threads and in tasks of here."""
    around = _current.get()
    token = _current.set(None if around is None else lambda: replace(around(), agent=role))
    try:
        yield
    finally:
        _current.reset(token)


def set_context(make: MakeContext) -> None:
    """From here on in this context, give functions that ask for it what this makes; most ask for nothing."""
    _current.set(make)


def leave_context() -> None:
    """Know no task from here on in this context: for what is made once for all tasks, and would keep the first one."""
    _current.set(None)


def find_context() -> RunContext[Any] | None:
    """What functions are given that are called from here; None where they are called for no run."""
    make = _current.get()
    return None if make is None else make()


def find_context_parameter(function: Any) -> str | None:
    """Find the parameter of a function that takes the `RunContext`; None where there is none."""
    return next((name for name, kind in _find_contexts(function) if kind is RunContext), None)


def takes_context(value: Any) -> bool:
    """True for a function that takes the `RunContext`, and for a tool whose function does."""
    bodies = (value, *(getattr(value, name, None) for name in ("func", "coroutine", "execute")))
    return any(find_context_parameter(each) is not None for each in bodies if each is not None)


def find_foreign_context(function: Any) -> str | None:
    """Say, in a sentence, that a function wants the `RunContext` of another package; None where it does not."""
    foreign = next((kind for _, kind in _find_contexts(function) if kind is not RunContext), None)
    if foreign is None:
        return None
    package = {"pydantic_ai": "pydantic-ai"}.get(foreign.__module__.partition(".")[0], foreign.__module__)
    ours = "from ensemble_notebook import RunContext. Its deps are those of run(deps=...)."
    return f"takes the RunContext of {package}, which nobody gives it here. Ours has the same name: {ours}"


def give_context(function: F) -> F:
    """Make the same function without the parameter for the `RunContext`, which it is given when it is called.

    Itself where it has none, or is no function.
    """
    name = find_context_parameter(function)
    if name is None:
        return function

    def find_given(given: Mapping[str, Any]) -> dict[str, Any]:
        context = find_context()
        if context is None and name not in given:
            shown = getattr(function, "__name__", type(function).__name__)
            raise EnsembleError(f"{shown} takes a RunContext as {name!r}, and is called by no run: give it one.")
        return {name: context, **given}

    def call(*args: Any, **given: Any) -> Any:
        given = find_given(given)
        with _explaining(given[name]):
            return _call(function, name, args, given)

    async def call_async(*args: Any, **given: Any) -> Any:
        given = find_given(given)
        with _explaining(given[name]):
            return await _call(function, name, args, given)

    wrapper: Any = functools.wraps(function)(call_async if inspect.iscoroutinefunction(function) else call)
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name != name]
    wrapper.__signature__ = signature.replace(parameters=parameters)
    wrapper.__annotations__ = {each: kind for each, kind in _read_annotations(function).items() if each != name}
    return typing.cast("F", wrapper)


@contextmanager
def _explaining(context: RunContext[Any]) -> Iterator[None]:
    """Say where deps come from, in the error of a function that did something with None in a run without any."""
    try:
        yield
    except (AttributeError, TypeError) as error:
        if getattr(context, "deps", context) is None and "NoneType" in str(error) and _NO_DEPS not in str(error):
            error.args = (f"{error}. {_NO_DEPS}",)
        raise


def _call(function: Callable[..., Any], name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Call with the context in its place, which may stand before arguments that are given by position."""
    parameters = inspect.signature(function).parameters
    place, is_placed = list(parameters).index(name), parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY
    if place < len(args) or (args and place == 0) or is_placed:
        context = given.pop(name)
        args = (*args[:place], context, *args[place:])
    return function(*args, **given)


def _find_contexts(function: Any) -> Iterator[tuple[str, type]]:
    """The parameters that take a class called so, with the class; those that a partial has given are none any more."""
    given = function.keywords if isinstance(function, functools.partial) else {}
    for name, annotation in _read_annotations(function).items():
        if name == "return" or name in given:
            continue
        kind = _find_class(annotation, function)
        if kind is not None:
            yield name, kind


def _read_annotations(function: Any) -> Mapping[str, Any]:
    """The annotations of a function, a bound method, a partial or a callable object, as they are written."""
    found = getattr(_find_body(function), "__annotations__", None)
    return found if isinstance(found, Mapping) else {}


def _find_body(function: Any) -> Any:
    """The function that a partial, a bound method or a callable object calls."""
    while isinstance(function, functools.partial):
        function = function.func
    body = getattr(function, "__func__", function)
    return body if isinstance(body, types.FunctionType) else type(function).__dict__.get("__call__")


def _find_class(annotation: Any, function: Any) -> type | None:
    """The class of an annotation that is a `RunContext`, ours or another; None for all others."""
    if isinstance(annotation, str):
        match = _WRITTEN.search(annotation)  # most are none, and nothing is evaluated
        return None if match is None else _look_up(match["class"], function)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        found = (_find_class(each, function) for each in typing.get_args(annotation))
        return next((each for each in found if each is not None), None)
    kind = typing.get_origin(annotation) or annotation
    return kind if isinstance(kind, type) and kind.__name__ == _NAME else None


def _look_up(name: str, function: Any) -> type | None:
    """The class that a written annotation names, looked up where the function was written."""
    body: Any = inspect.unwrap(_find_body(function))
    first, *others = name.split(".")
    found = getattr(body, "__globals__", {}).get(first)
    if found is None:  # written inside a function, which has it as a name of its own
        closure = inspect.getclosurevars(body).nonlocals if isinstance(body, types.FunctionType) else {}
        found = closure.get(first, RunContext if not others else None)
    for each in others:
        found = getattr(found, each, None)
    return found if isinstance(found, type) else None
