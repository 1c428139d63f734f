"""What is wrong before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.errors.base import EnsembleError


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One thing wrong with a definition.

    Attributes:
        message: what is wrong, with which value, and what to do.
        subject: the object it is about (an Agent, Task, Phase, Ensemble or the class that was to be made); a reader
            of text finds the place by it.
        field: the name of the field on the subject, or None for the object as a whole.
        item: index or key within the field, where the field holds several values.
    """

    message: str
    subject: Any = None
    field: str | None = None
    item: int | str | None = None


class ValidationError(EnsembleError, ValueError):
    """A definition can't run as written. Always found before any model is called.

    Attributes:
        problems: everything found, in the order of the definition; at least one.
    """

    def __init__(self, problems: str | Problem | Sequence[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        lines = [problem.message for problem in self.problems]
        super().__init__(
            lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} problems:", *map("- {}".format, lines)])
        )


class CircularDependencyError(ValidationError):
    """Tasks (by context) or phases (by after) wait for each other.

    Attributes:
        nodes: the names on exactly one cycle, in order, the first one not repeated.
    """

    def __init__(
        self,
        kind: str,
        nodes: Sequence[str],
        subject: Any = None,
        field: str | None = None,
        others: Sequence[Problem] = (),
    ) -> None:
        self.nodes: tuple[str, ...] = tuple(nodes)
        circle = " -> ".join([*self.nodes, self.nodes[0]])
        message = f"Circular {kind} dependency: {circle}. Remove one of these links."
        super().__init__([Problem(message, subject, field), *others])


_ITEM_HINT: Final = " A task with for_each runs for each item of a list, and fills {item} in by itself."


class PromptTemplateError(EnsembleError, ValueError):
    """``{variables}`` without a value.

    Attributes:
        missing_variables: all missing names over the whole ensemble, in order of appearance, once each.
        template: the first text that misses one, whole.
    """

    def __init__(self, missing_variables: Sequence[str], template: str, advice: str | None = None) -> None:
        self.missing_variables: tuple[str, ...] = tuple(missing_variables)
        self.template = template
        quoted = template if len(template) <= 100 else template[:97] + "..."
        names = ", ".join(f"{{{name}}}" for name in self.missing_variables)
        example = ", ".join(f"{name}=..." for name in self.missing_variables)
        advice = advice or f"Pass {example}, or write {{{{name}}}} for a literal."
        advice += _ITEM_HINT if "item" in self.missing_variables else ""
        super().__init__(f"No value for {names} (first in {quoted!r}). {advice}")
