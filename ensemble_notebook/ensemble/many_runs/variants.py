"""Variants of an ensemble (E73): some of its fields, tasks, agents or inputs changed, and run side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any, Final, TypeVar, cast

from ensemble_notebook.domain.definitions.definition import Definition, get_field_names
from ensemble_notebook.domain.definitions.limits import get_currency
from ensemble_notebook.domain.planning.ensemble_texts import find_texts_by_variable, list_tasks
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.map_run import Variant, start_map
from ensemble_notebook.ensemble.many_runs.map_settings import MapArguments, MapSettings, read_map, read_repeated
from ensemble_notebook.ensemble.run_settings import SHARED_FIELDS, Inputs, read_run, takes
from ensemble_notebook.errors import Problem, SuggestsNames, ValidationError, did_you_mean
from ensemble_notebook.evaluation.scorer import AnyScorers

_WANTED: Final = "variants map names to changes: {'short': {'style': 'short'}, 'local': {'llm': 'local'}}"


class Variants(SuggestsNames):
    """Several forms of an ensemble that run together, with one budget account, one timeline and one table.

    Made by `Ensemble.variants`.

    Args:
        ensemble: the original.
        changes: by variant name: fields of the ensemble, ``"task.NAME.FIELD"``, ``"agent.ROLE.FIELD"``, or inputs.
        score: what scores each completed run: a scorer, a list of them, or a dict of them by name.

    Attributes:
        names: of the variants, in order.

    Raises:
        ValidationError: there is nothing of that name to change, or the value is wrong.
    """

    def __init__(
        self, ensemble: RunnableEnsemble, changes: Mapping[str, Mapping[str, Any]], score: AnyScorers | None = None
    ) -> None:
        self._ensemble = ensemble
        self._variants = make_variants(ensemble, changes)
        MapSettings(score=score)  # a mistake is told at once
        self._score = score
        self.names: tuple[str, ...] = tuple(str(each.name) for each in self._variants)

    @takes(read_run)
    def run(
        self,
        /,
        inputs: Inputs = None,
        *,
        repeat: int | None = None,
        score: AnyScorers | None = None,
        expected: str | None = None,
        concurrency: int | None = None,
        executor: Any = None,
        **given: Any,
    ) -> MapResult:
        """Run each variant with these inputs, side by side. The result has a row for each variant.

        Arguments are as for `Ensemble.run`, and `concurrency` and `executor` as for `Ensemble.map`; `score` takes the
        place of the one that the variants were made with.

        Raises:
            ValidationError, PromptTemplateError: there is a mistake; nothing was called.
            DeadlineExceededError, RunInterrupted: the map was stopped; has the partial result as ``output``.
            ScoringError: a scorer failed for each run; has the whole result as ``result``.
        """
        of_map = {"repeat": repeat, "expected": expected, "concurrency": concurrency, "executor": executor}
        return self._run(read_repeated(inputs, given, score=self._score if score is None else score, **of_map))

    @takes(read_map)
    def map(self, rows: Any, *, score: AnyScorers | None = None, **given: Any) -> MapResult:
        """Run each variant with each row: all rows of the first variant, then those of the next.

        All arguments and errors are as for `Ensemble.map`; `score` takes the place of the one that the variants were
        made with.
        """
        return self._run(read_map(rows, score=self._score if score is None else score, **given))

    def _run(self, given: MapArguments) -> MapResult:
        return start_map(self._ensemble, given, variants=self._variants)._run_to_end()

    def __repr__(self) -> str:
        """The names."""
        return f"<Variants {', '.join(self.names)}>"


def make_variants(ensemble: RunnableEnsemble, changes: Any) -> tuple[Variant, ...]:
    """Make the variants of an ensemble.

    Args:
        ensemble: the original.
        changes: by variant name: fields of the ensemble, ``"task.NAME.FIELD"``, ``"agent.ROLE.FIELD"``, or inputs.

    Raises:
        ValidationError: lists every name that is none of these, and every wrong value.
    """
    if not isinstance(changes, Mapping) or not changes:
        raise ValidationError(f"{_WANTED}; got {'none' if isinstance(changes, Mapping) else type(changes).__name__}.")
    made, problems = [], []
    for name, wanted in changes.items():
        if not isinstance(name, str) or not name.strip():
            problems.append(Problem(f"The name of a variant must be text, got {name!r}.", ensemble))
        elif not isinstance(wanted, Mapping):
            problems.append(Problem(f"Variant {name!r}: {_WANTED}; got {type(wanted).__name__}.", ensemble))
        else:
            try:
                made.append(_Changes(ensemble, wanted).make_variant(mend_text(name)))
            except ValidationError as error:
                problems += [replace(each, message=f"Variant {name!r}: {each.message}") for each in error.problems]
    if problems:
        raise ValidationError(problems)
    return tuple(made)


class _Changes:
    """The changes of one variant, sorted by what they change."""

    def __init__(self, ensemble: RunnableEnsemble, changes: Mapping[str, Any]) -> None:
        self._ensemble = ensemble
        self._changes = changes
        self._graph = build_graph(ensemble)
        self._fields: dict[str, Any] = {}
        self._inputs: dict[str, Any] = {}
        self._parts: dict[Definition, dict[str, Any]] = {}
        self._problems: list[Problem] = []

    def make_variant(self, name: str) -> Variant:
        for path, value in self._changes.items():
            if fault := self._place(path, value):
                self._problems.append(Problem(fault, self._ensemble))
        if self._problems:
            raise ValidationError(self._problems)
        # A changed task may stand in the context of another one, an agent in several tasks.
        parts: dict[Definition, Any] = {
            part: replace(cast("Any", part), **values) for part, values in self._parts.items()
        }
        made = replace_parts(self._ensemble, parts) if parts else self._ensemble
        made = replace(made, **self._fields) if self._fields else made
        if (currency := get_currency(made.cost)) != (shared := get_currency(self._ensemble.cost)):
            message = f"cost is in {currency}, and all variants together are paid in {shared}: write it in that."
            raise ValidationError([Problem(message, self._ensemble)])
        problems, known = [], _list_inputs(made)
        # A handler may read any input, so that none is unknown with one.
        for each in () if any(task.handler is not None for task in list_tasks(made)) else self._inputs:
            if each not in known:
                guess = did_you_mean(each, [*get_field_names(type(made)), *known])
                message = f"{each!r} is no input, since no text says {{{each}}}, and no field of the ensemble, no "
                message += f"'task.NAME.FIELD' and no 'agent.ROLE.FIELD'.{guess}"
                problems.append(Problem(message, self._ensemble))
        if problems:
            raise ValidationError(problems)
        return Variant(name, made, self._inputs)

    def _place(self, path: Any, value: Any) -> str | None:
        """Record a change; returns what is wrong with it, or None."""
        if not isinstance(path, str):
            return f"What is changed is named by a text, got {path!r}."
        kind, _, rest = path.partition(".")
        if kind == "task" and rest:
            tasks = [*self._graph.all_tasks, *self._graph.managed]
            return self._place_part(path, rest, {each.name: each.task for each in tasks}, value)
        if kind == "agent" and rest:
            nodes = [*self._graph.all_tasks, *self._graph.managed]
            of_tasks = [agent for node in nodes for agent in (node.task.agent, node.task.fallback)]
            agents = {each.role: each for each in (*self._ensemble.agents, *of_tasks) if each is not None}
            return self._place_part(path, rest, agents, value)
        if path == "inputs":
            if not isinstance(value, Mapping):
                return f"inputs must map names to values, got {type(value).__name__}."
            self._inputs.update(value)
            return None
        if path in get_field_names(type(self._ensemble)):
            if path in SHARED_FIELDS:
                return f"{path} holds for all variants together: set it on the ensemble itself."
            if path in _list_inputs(self._ensemble):
                return f"{path!r} is a field and an input: write inputs={{{path!r}: ...}} for the input."
            self._fields[path] = value
            return None
        self._inputs[path] = value
        return None

    def _place_part(self, path: str, rest: str, parts: Mapping[str, Definition], value: Any) -> str | None:
        """Record a change of ``task.NAME.FIELD`` or ``agent.ROLE.FIELD``. Names may contain dots, fields can't."""
        kind = path.partition(".")[0]
        name, _, field = rest.rpartition(".")
        if not name:
            return f"{path!r} lacks the field: write '{kind}.{rest}.FIELD'."
        part = parts.get(name)
        if part is None:
            known = f" There are {', '.join(map(repr, parts))}." if parts else ""
            return f"No {kind} is called {name!r}.{did_you_mean(name, parts) or known}"
        if field not in (fields := get_field_names(type(part))):
            return f"{kind.capitalize()} {name!r} has no field {field!r}.{did_you_mean(field, fields)}"
        self._parts.setdefault(part, {})[field] = value
        return None


def _list_inputs(ensemble: RunnableEnsemble) -> Sequence[str]:
    """The names of all inputs that an ensemble has or reads."""
    return [*ensemble.inputs, *find_texts_by_variable(ensemble)]


def combine(choices: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Every combination of values, as changes named by them: ``{"style=short, llm=local": {...}}``.

    Args:
        choices: the values of each input or field, by what they are called.
    """
    made = {}
    for words in product(*choices.values()):
        named = dict(zip(choices, words, strict=True))
        made[", ".join(f"{name}={word}" for name, word in named.items())] = {
            name: choices[name][word] for name, word in named.items()
        }
    return made


D = TypeVar("D", bound=Definition)


def replace_parts(definition: D, parts: Mapping[Definition, Definition]) -> D:
    """Make a copy in which each of these parts is another one, wherever it stands; itself where none of them is in it.

    Args:
        definition: it may be an ensemble, a phase, a task, or whatever holds such.
        parts: what stands in place of what. Definitions are keys by their identity.

    Raises:
        ValidationError: a part can't stand there.
    """
    copies: dict[Definition, Any] = {}  # one of each, so that what was the same object is the same again

    def copy(value: Any) -> Any:
        """The value with its parts replaced; the very object where nothing in it changes."""
        if isinstance(value, Definition):
            if value not in copies:
                new: Any = parts.get(value, value)
                values = {each.name: getattr(new, each.name) for each in fields(new) if each.init}
                changed = {name: made for name, old in values.items() if (made := copy(old)) is not old}
                copies[value] = replace(new, **changed) if changed else new
            return copies[value]
        if isinstance(value, tuple):
            made = tuple(map(copy, value))
            return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
        return value

    return cast("D", copy(definition))
