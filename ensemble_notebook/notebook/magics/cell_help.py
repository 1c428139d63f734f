"""Help while a ``%%ensemble`` cell is typed: Tab completes it (C20), Shift-Tab explains its keys (C21)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.getipython import get_ipython

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ensemble_notebook.cell.completion import Proposals

_IDENTIFIER: Final = "ensemble_cell"
_FIRST_LINE: Final = re.compile(r"\s*%%ensemble(?=\s|$)[^\n]*")


def complete_cell(context: CompletionContext) -> SimpleMatcherResult:
    """What may stand at the caret, for IPython's completer."""
    lines = context.full_text.split("\n")
    caret = sum(len(line) + 1 for line in lines[: context.cursor_line]) + context.cursor_position
    shell = get_ipython()
    proposals = propose_at(context.full_text, caret, {} if shell is None else shell.user_ns)
    found = () if proposals is None else proposals.found
    return SimpleMatcherResult(
        completions=[SimpleCompletion(each.text, type=each.kind) for each in found],
        matched_fragment="" if proposals is None else proposals.word,
        ordered=True,
        suppress=bool(found),
    )


def begin_help(shell: InteractiveShell) -> None:
    """Let IPython's completer and the kernel ask us about our cells."""
    shell.Completer.custom_matchers.append(context_matcher(identifier=_IDENTIFIER)(complete_cell))
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.do_inspect = _make_inspect(kernel.do_inspect)


def end_help(shell: InteractiveShell) -> None:
    """Take it back."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [each for each in matchers if getattr(each, "matcher_identifier", "") != _IDENTIFIER]
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is not None:
        vars(kernel).pop("do_inspect", None)


def propose_at(code: str, caret: int, names: Mapping[str, Any]) -> Proposals | None:
    """Propose what may stand at the caret of a notebook's cell; None where it is none of ours."""
    first = _FIRST_LINE.match(code)
    if first is None:
        return None
    from ensemble_notebook.cell.completion import list_given, propose, propose_options

    body = code[first.end() + 1 :]
    if caret <= first.end():
        return propose_options(code[:caret], body, names)
    return propose(body, caret - first.end() - 1, names, list_given(first[0], names))


def _make_inspect(inspect: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel's answer to Shift-Tab, with ours before it. IPython itself would be told a word, and not its place."""

    def do_inspect(code: str, cursor_pos: int, *args: Any, **options: Any) -> Any:
        first = _FIRST_LINE.match(code)
        if first is not None and cursor_pos > first.end():
            from ensemble_notebook.cell.completion import explain

            if (text := explain(code[first.end() + 1 :], cursor_pos - first.end() - 1)) is not None:
                return {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}
        return inspect(code, cursor_pos, *args, **options)

    return do_inspect
