"""``%load_ext ensemble_notebook`` and ``%unload_ext``: silent, cheap, repeatable, and leaving nothing behind.

Help while a cell is typed begins and ends with it, below.
"""

from __future__ import annotations

import re
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.getipython import get_ipython
from IPython.core.inputtransformer2 import cell_magic

from ensemble_notebook.domain.kernel_limits import kernel_limits
from ensemble_notebook.notebook.magics.ensemble_magics import EnsembleMagics
from ensemble_notebook.notebook.magics.line_commands import complete_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LINE_MAGIC: Final = "%ensemble"
_QUESTION: Final = re.compile(r"^(\s*)%ensemble +([a-z]+) *\?+[ \t]*$", re.MULTILINE)


def load(shell: InteractiveShell) -> None:
    """Add ``%%ensemble`` and ``%ensemble``; a second time changes nothing."""
    if not _find_loaded(shell):
        try:
            magics = EnsembleMagics(shell)
            magics.take_limits()
        except BaseException:  # IPython lists it before it has read its configuration
            shell.configurables[:] = [each for each in shell.configurables if not isinstance(each, EnsembleMagics)]
            raise
        shell.register_magics(magics)
        shell.events.register("pre_run_cell", begin_cell)
        shell.events.register("post_run_cell", end_cell)
        magics.begin_warm_up()
        shell.input_transformers_cleanup.insert(0, keep_body)
        shell.input_transformers_cleanup.append(ask_for_help)
        shell.strdispatchers["complete_command"].add_s(_LINE_MAGIC, complete_ensemble)
        begin_help(shell)
        if getattr(shell, "kernel", None) is not None:
            from ensemble_notebook.notebook.live.page_channel import begin_page_channels

            begin_page_channels(shell)


def begin_cell(_: object = None) -> None:
    """A cell begins: all that it begins has one budget, where the class sets one (E142)."""
    kernel_limits.begin_cell()


def end_cell(_: object = None) -> None:
    """The cell is over."""
    kernel_limits.end_cell()


def keep_body(lines: list[str]) -> list[str]:
    """The call of the magic with its body as typed, made before IPython strips `>>>` and `...` from its lines.

    A body is more than nothing: IPython refuses an empty one before the magic could help. Lines of blanks alone lose
    them, as newer versions of IPython have it: YAML would see the indentation of a text in them.
    """
    code = dedent("".join(lines)).lstrip("\n")
    first = _find_first_line(code)
    if first is None:
        return lines
    is_bare = first.start("line") == 0 and not code[first.end() :].strip()
    cell = [first["line"] + "\n", "\n"] if is_bare else code.splitlines(keepends=True)
    return cell_magic(cell)  # type: ignore[no-any-return, no-untyped-call]


# Where lines are typed one by one, IPython asks after each whether the cell is complete; a call would always be.
keep_body.has_side_effects = True  # type: ignore[attr-defined]


def ask_for_help(lines: list[str]) -> list[str]:
    """``%ensemble resume?`` as a question about this sub-command; IPython would look for an object of that name."""
    if not lines or lines[0].lstrip().startswith("%%"):
        return lines
    return [_QUESTION.sub(r"\1%ensemble \2 --help", line) for line in lines]


def complete_ensemble(event: Any) -> list[str]:
    """The words that may follow on a line of ``%ensemble``, for IPython's completer."""
    words = event.line.split()[1:]
    if not event.symbol:  # the last word is finished
        words.append("")
    return [each for each in complete_line(words) if each.startswith(event.symbol)]


def unload(shell: InteractiveShell) -> None:
    """Take out the magics and their configuration; variables stay."""
    from ensemble_notebook.notebook.live.page_channel import end_page_channels

    end_page_channels(shell)
    end_help(shell)
    configurables: list[Any] = shell.configurables
    transformers = shell.input_transformers_cleanup
    ours = {each.__qualname__ for each in (keep_body, ask_for_help, begin_cell, end_cell)}
    for callbacks in shell.events.callbacks.values():
        callbacks[:] = [each for each in callbacks if getattr(each, "__qualname__", "") not in ours]
    transformers[:] = [each for each in transformers if getattr(each, "__qualname__", "") not in ours]
    shell.strdispatchers["complete_command"].strs.pop(_LINE_MAGIC, None)
    for magics in _find_loaded(shell):
        magics.stop_warm_up()
        configurables.remove(magics)
        for kind, names in magics.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
        shell.magics_manager.registry.pop(type(magics).__name__, None)


def _find_loaded(shell: InteractiveShell) -> list[Any]:
    """By name, because a reloaded module has another class of the same name."""
    return [each for each in shell.configurables if type(each).__name__ == EnsembleMagics.__name__]


# --- Help while a cell is typed: Tab completes it (C20), Shift-Tab explains its keys (C21) ----------------------------


_IDENTIFIER: Final = "ensemble_cell"


def _find_first_line(code: str) -> re.Match[str] | None:
    """The group ``line`` is the line with our magic, or an alias of it, at the top or below those of other magics."""
    if not code.lstrip().startswith("%%"):
        return None
    shell = get_ipython()
    known = {} if shell is None else shell.magics_manager.magics["cell"]
    ours = [name for name, each in known.items() if getattr(each, "magic_name", name) == "ensemble"] or ["ensemble"]
    return re.match(rf"(?:\s*%%\w.*\n)*?\s*(?P<line>%%(?:{'|'.join(ours)})(?=\s|$).*)", code)


def complete_cell(context: CompletionContext) -> SimpleMatcherResult:
    """What may stand at the caret, for IPython's completer."""
    code, shell, proposals = context.full_text, get_ipython(), None
    caret = sum(len(line) + 1 for line in code.split("\n")[: context.cursor_line]) + context.cursor_position
    first = _find_first_line(code)
    if first is not None and caret >= first.start("line"):
        from ensemble_notebook.cell.completion import list_given, propose, propose_options

        names, body = {} if shell is None else shell.user_ns, code[first.end() + 1 :]
        if caret <= first.end():
            proposals = propose_options(code[first.start("line") : caret], body, names)
        else:
            proposals = propose(body, caret - first.end() - 1, names, list_given(first["line"], names))
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
    if hasattr(kernel, "do_inspect"):  # that of xeus-python answers Shift-Tab by itself
        # IPython itself would be told a word, and not its place
        inspect = kernel.do_inspect

        def do_inspect(code: str, cursor_pos: int, *args: Any, **options: Any) -> Any:
            first = _find_first_line(code)
            if first is not None and cursor_pos > first.end():
                from ensemble_notebook.cell.completion import explain

                if (text := explain(code[first.end() + 1 :], cursor_pos - first.end() - 1)) is not None:
                    return {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}
            return inspect(code, cursor_pos, *args, **options)

        kernel.do_inspect = do_inspect


def end_help(shell: InteractiveShell) -> None:
    """Take it back."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [each for each in matchers if getattr(each, "matcher_identifier", "") != _IDENTIFIER]
    kernel: Any = getattr(shell, "kernel", None)
    if hasattr(kernel, "do_inspect"):
        vars(kernel).pop("do_inspect", None)
