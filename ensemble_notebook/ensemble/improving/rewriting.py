"""The model that rewrites a text: what it is asked, and what is wrong with what it says (V69).

Its words are a candidate only where every variable in braces is still there; it is told, and asked once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, RunStatus
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.improving.search_account import SearchOver
from ensemble_notebook.errors import EnsembleError, GuardrailViolationError, summarize_error
from ensemble_notebook.errors.origin import iterate_causes

LONGEST_TEXT: Final = 8_000
"""Characters of a text that is a candidate, at most; or four times those of the one that it rewrites."""
_GROWTH: Final = 4
_FENCE: Final = "```"
_VARIABLE: Final = re.compile(r"(?<!\{)\{([A-Za-z0-9_]+(?:\.[^{}\n]+)?)\}(?!\})")

REQUEST: Final = """\
A task of a team of language models is done with this text, which is a part of its prompt:
```
<curr_param>
```

These are inputs of the task, what came of them, and how good that was:
```
<side_info>
```

Write a better text. Read the inputs, find out what is asked for, and read what was wrong. Put into the text what one
has to know to do the task: rules, facts and conventions that the examples show, and a way that works in general. Do not
mention single examples.

<variables>

Give the new text between ``` marks, and nothing else after it."""


def find_variables(text: str) -> list[str]:
    """The variables in braces, each once, in order."""
    return list(dict.fromkeys(_VARIABLE.findall(text)))


def read_reply(reply: str) -> str | None:
    """The text that a reply proposes; None where it has none between the marks."""
    start, end = reply.find(_FENCE), reply.rfind(_FENCE)
    if start < 0 or start == end:
        return None
    first, line_end, rest = reply[start + len(_FENCE) : end].partition("\n")
    inside = rest if line_end and re.fullmatch(r"\s*\w*\s*", first) else first + line_end + rest
    return inside.strip()


def find_fault(old: str, new: str | None, known: Sequence[str] = ()) -> str | None:
    """Why a text can't be a candidate; None where it can.

    Args:
        old: the text that it rewrites.
        new: the text; None where the reply has none.
        known: variables that may be added.
    """
    if new is None:
        return "it has no text between ``` marks"
    if not new:
        return "the text between the ``` marks is empty"
    most = max(LONGEST_TEXT, _GROWTH * len(old))
    if len(new) > most:
        return f"its text has {len(new):,} characters, and may have {most:,}"
    before, after = find_variables(old), find_variables(new)
    if lost := [each for each in before if each not in after]:
        return f"its text lacks {', '.join(f'{{{each}}}' for each in lost)}"
    if strange := [each for each in after if each not in before and each not in known]:
        names = ", ".join(f"{{{each}}}" for each in strange)
        return f"its text has {names}, which nothing fills; what is to stay in braces is written as {{{{name}}}}"
    return None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What the rewriting model came up with.

    Attributes:
        text: a candidate's; None where there is none.
        fault: why not; empty where there is one.
        output: of its run; None where there is none.
    """

    text: str | None
    fault: str
    output: EnsembleOutput | None


def rewrite(
    around: RunnableEnsemble,
    llm: Any,
    request: str,
    *,
    old: str,
    known: Sequence[str],
    budget: Budget | None,
    name: str,
) -> Rewritten:
    """Ask for a better text. An interrupt goes through.

    Args:
        around: the ensemble whose text it is; its prices and what it records hold here, too.
        llm: who is asked.
        request: all that it is told.
        old: the text.
        known: variables that may be added.
        budget: of this.
        name: of the run.
    """
    try:
        output: EnsembleOutput = make_rewriter(around, llm, budget, old, known, name).run({"request": request})
    except EnsembleError as error:
        found = getattr(error, "output", None)
        said = found if isinstance(found, EnsembleOutput) else None
        broken = next((each for each in iterate_causes(error) if isinstance(each, GuardrailViolationError)), None)
        if broken is not None:
            return Rewritten(None, broken.message.partition(_AGAIN)[0], said)
        return Rewritten(None, f"the rewriting model failed: {summarize_error(error)}", said)
    if output.status is RunStatus.BUDGET_EXCEEDED:
        raise SearchOver("the budget is used up")
    return Rewritten(read_reply(output.raw), "", output)


def make_rewriter(
    around: RunnableEnsemble,
    llm: Any,
    budget: Budget | None,
    old: str = "",
    known: Sequence[str] = (),
    name: str = "rewriting",
) -> Any:
    """The ensemble of a model that rewrites a text. Arguments as of `rewrite`."""
    agent = Agent(role="Prompt writer", goal="Write texts with which a task is done better", llm=llm)
    task = Task(
        name="rewrite",
        prompt="{request}",
        expected_output="The better text between ``` marks",
        agent=agent,
        output_guardrails=[make_guardrail(old, tuple(known))],
        max_guardrail_retries=1,
    )
    one = around._with_rows([task], error_strategy=ErrorStrategy.FAIL_FAST, concurrency=1)
    return one.replace(name=name, budget=budget, listeners=(), trace_exporter=None)


_AGAIN: Final = ". Write the whole text again."


def make_guardrail(old: str, known: tuple[str, ...]) -> Callable[[TaskOutput], str | None]:
    """A guardrail of replies, which says what is wrong with one."""

    def check_text(output: TaskOutput) -> str | None:
        fault = find_fault(old, read_reply(output.raw), known)
        return None if fault is None else f"{fault}{_AGAIN}"

    return check_text
