"""How full the window of a model was at each call, and of what (E116).

Only the provider counts tokens. What each section takes of them is estimated by its characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Message, Span, find_sent
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.shared_columns import WHERE, make_table
from ensemble_notebook.trace.tables.table import Column, make_known

SECTIONS: Final = ("system", "task", "context", "memory", "tools", "earlier")
"""What the model is told: who it is, what it is to do, outputs of other tasks, memories, what tools are and gave, and
what was said before in this conversation."""

CHARACTERS_PER_TOKEN: Final = 4
"""Of a text in English; only shares count where the provider has said how many tokens there are."""

_OUTPUTS: Final = "Context from Previous Tasks"
# The sections of our own prompts, in the order in which they stand there, and what each counts as.
_HEADINGS: Final = re.compile(
    r"^## (?:(?P<memory>Memory: .*)|(?P<context>Context from Previous Tasks|Context)"
    r"|(?P<earlier>Revision Instructions \(Attempt \d+\)|Another Round)|(?P<task>Task))$",
    re.MULTILINE,
)
_ORDER: Final = ("memory", "context", "earlier", "task")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUse:
    """What one model call was told, by section.

    Attributes:
        call: the span of the model call.
        tokens: all that it was told; None where neither the provider nor a text tells.
        is_counted: whether the provider has counted them; otherwise they are an estimate, too.
        limit: tokens that the model can take, prompt and reply together; None where that is not known.
        sections: estimated tokens by section, in the order of `SECTIONS`; empty where no text was kept.
    """

    call: Span
    tokens: int | None
    is_counted: bool
    limit: int | None
    sections: Mapping[str, int]

    @property
    def share(self) -> float | None:
        """How much of the window it takes, 0 to 1; None where the limit is not known."""
        return None if self.tokens is None or not self.limit else self.tokens / self.limit


def _make_section_reader(name: str) -> Callable[[WindowUse], int | None]:
    return lambda use: use.sections.get(name)


CONTEXT_WINDOWS: Final = make_table(
    "model call: how full the window of its model was. What the sections take is estimated from their characters",
    make_known("span_id", "string", "of the model call", "call.span_id"),
    (
        *(Column(each.name, each.dtype, each.meaning, f"call.{each.name}") for each in WHERE),
        Column("model", "category", "that was asked", "call.model_requested"),
        Column("prompt_tokens", "Int64", "all that it was told", "tokens"),
        make_known("is_counted", "boolean", "the provider has counted them; otherwise they are an estimate"),
        Column("limit_tokens", "Int64", "that the model can take; NA where that is not known", "limit"),
        Column("window_share", "Float64", "prompt_tokens / limit_tokens", "share"),
        *(
            Column(f"{name}_tokens", "Int64", f"estimate: {meaning}", _make_section_reader(name))
            for name, meaning in (
                ("system", "the system prompt"),
                ("task", "what the task asks for"),
                ("context", "outputs of other tasks"),
                ("memory", "what the memory gave"),
                ("tools", "which tools are offered, and what they gave"),
                ("earlier", "what was said before in the conversation, with what was asked to be done better"),
            )
        ),
    ),
)


def list_window_uses(fold: TraceFold) -> list[WindowUse]:
    """What each model call was told, in order of their start; the fold is not to change meanwhile."""
    counted: dict[str | None, int] = {}
    for span in fold.spans.values():
        if span.kind is SpanKind.ATTEMPT and span.input_tokens:  # what was refused used none, whatever it was told
            counted[span.parent_id] = span.input_tokens
    calls = [span for span in fold.spans.values() if span.is_call]
    return [measure_call(fold, span, counted.get(span.span_id)) for span in sorted(calls, key=lambda each: each.seq)]


def measure_call(fold: TraceFold, call: Span, counted: int | None) -> WindowUse:
    """What a call was told.

    Args:
        fold: of the run.
        call: the span of the model call.
        counted: tokens of the prompt as its provider counted them; None where it did not.
    """
    told = [each for each in fold.messages.get(call.task_id or "", ()) if each.seq <= call.seq]
    sent = [each for each in told[find_sent(told) :] if not each.is_left_out]
    sizes = _measure_sections(fold, call, sent)
    total = sum(sizes.values())
    tokens = counted if counted is not None else round(total / CHARACTERS_PER_TOKEN) if total else None
    sections = _share_out(sizes, tokens) if total and tokens is not None else {}
    limit = find_context_window(call.provider, call.model_requested) or call.context_window
    return WindowUse(call=call, tokens=tokens, is_counted=counted is not None, limit=limit, sections=sections)


def _measure_sections(fold: TraceFold, call: Span, sent: Sequence[Message]) -> dict[str, int]:
    """The characters of each section."""
    sizes = dict.fromkeys(SECTIONS, 0)
    sizes["tools"] = call.tool_characters or 0
    prompts = [each for each in sent if each.role == "user" and each.is_prompt and each.span.kind is not SpanKind.TURN]
    # What was sent back is asked once more, and the later prompt has all of the earlier one.
    prompt = prompts[-1] if prompts else next((each for each in sent if each.role == "user"), None)
    for each in sent:
        asked = sum(len(one.name) + len(one.arguments) for one in each.tool_calls)
        if each is prompt:
            task = fold.spans.get(call.task_id or "")
            outputs = [] if task is None else [_find_output(fold, task, name) for name in task.context]
            for name, size in split_prompt(each.text, [text for text in outputs if text]).items():
                sizes[name] += size
        elif each.role in ("system", "tool"):
            sizes["system" if each.role == "system" else "tools"] += len(each.text)
        else:
            sizes["earlier"] += len(each.text) + asked
    return sizes


def split_prompt(text: str, outputs: Sequence[str] = ()) -> dict[str, int]:
    """The characters of a prompt by section.

    Args:
        text: of the prompt: with our headings, or all of a user's own.
        outputs: of other tasks, which a prompt of a user's own may hold word for word.
    """
    sizes = dict.fromkeys(SECTIONS, 0)
    headings = list(_HEADINGS.finditer(text))
    if not headings or headings[0].start() > 0:  # no prompt of ours
        sizes["context"] = sum(len(output) for output in set(outputs) if output in text)
        sizes["task"] = max(0, len(text) - sizes["context"])
        return sizes
    last = headings[0]
    for heading in headings[1:]:
        name, section = last.lastgroup or "", heading.lastgroup or ""
        # They come in one order, and outputs stand between marks: what else looks like a heading was handed on.
        is_inside = last["context"] == _OUTPUTS and not text.endswith("---\n\n", 0, heading.start())
        if name != "task" and _ORDER.index(section) >= _ORDER.index(name) and not is_inside:
            sizes[name] += heading.start() - last.start()
            last = heading
    sizes[last.lastgroup or ""] += len(text) - last.start()
    return sizes


def _find_output(fold: TraceFold, task: Span, name: str) -> str | None:
    """The output of the task of this name beside another one."""
    return next(
        (
            span.output
            for span in fold.spans.values()
            if span.kind is SpanKind.TASK and span.name == name and span.nested_in == task.nested_in
        ),
        None,
    )


def _share_out(sizes: Mapping[str, int], tokens: int) -> dict[str, int]:
    """Tokens by section, in proportion to their characters; together they are all."""
    total, shared, rest = sum(sizes.values()), {}, 0.0
    for name, size in sizes.items():
        exact = size * tokens / total + rest
        shared[name] = round(exact)
        rest = exact - shared[name]
    return shared


@lru_cache(maxsize=1024)
def find_context_window(provider: str | None, model: str | None) -> int | None:
    """Tokens that a model can take, by the public list of prices; None where that does not say."""
    if provider is None or model is None:
        return None
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, listed = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    known: Any = listed.context_window
    return known if isinstance(known, int) else None
