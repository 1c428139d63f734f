"""The magics: ``%%ensemble`` runs a cell, ``%ensemble`` tells about it.

See docs/contract/cell.md#magics. Wires the reading of a cell, the run and its display together. Holds no state but the
configuration, so that reloading the extension loses nothing. What is heavy is imported when a cell needs it.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Enum, Unicode, observe

from ensemble_notebook.cell.language.options import Options, format_option_help, parse_options
from ensemble_notebook.cell.language.remedies import use_cell_words
from ensemble_notebook.cell.text.mistakes import CellError
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError, did_you_mean, make_readable
from ensemble_notebook.notebook.magics.warm_up import WarmUp

if TYPE_CHECKING:
    from ensemble_notebook.cell.cell import Cell
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.run_handle import RunHandle
    from ensemble_notebook.notebook.live.cell_reviewer import CellReviewer
    from ensemble_notebook.notebook.live.run_display import RunDisplay

_OVERVIEW: Final = """\
Teams of language-model agents in a notebook cell.

  %%ensemble                runs the ensemble that the cell declares, in YAML
  %ensemble help            its options, with examples
  %ensemble version         the version
  %config EnsembleMagics    the defaults: llm, timeline, display, warm_up

The smallest cell:

  %%ensemble
  - Name three facts about tides
  - Write a haiku from them
"""


@magics_class
class EnsembleMagics(Magics):
    """``%config EnsembleMagics`` shows and sets the defaults of ``%%ensemble``."""

    llm = Unicode(
        None, allow_none=True, help="The model of ensembles that name none: local, openai:NAME, a variable, ..."
    ).tag(config=True)
    timeline = Bool(True, help="Show the timeline; --no-timeline leaves it out for one cell.").tag(config=True)
    display = Enum(
        ("auto", "widget", "static", "text"),
        "auto",
        help="How runs are shown. auto: a live widget in a notebook, a table in a terminal, a picture where nobody "
        "watches. The environment variable ENSEMBLE_NOTEBOOK_DISPLAY says the same for all kernels.",
    ).tag(config=True)

    warm_up = Bool(
        True,
        help="After %load_ext in a notebook, import what the first run needs while the kernel rests. No connection is "
        "opened.",
    ).tag(config=True)

    _warm_up: WarmUp | None = None

    def begin_warm_up(self) -> None:
        """Begin it, unless it is switched off."""
        if self.warm_up and self.shell is not None:
            self._warm_up = WarmUp(self.shell)

    def stop_warm_up(self) -> None:
        """Let it do no more."""
        if self._warm_up is not None:
            self._warm_up.stop()

    @property
    def _is_registered(self) -> bool:
        """Whether the extension is loaded, and these are its magics."""
        known: dict[str, Any] = {} if self.shell is None else self.shell.magics_manager.registry
        return any(each is self for each in known.values())

    @observe("warm_up")
    def _notice_switch(self, change: Mapping[str, Any]) -> None:
        self.stop_warm_up()
        if change["new"] and self._is_registered:
            self.begin_warm_up()

    @no_var_expand
    @line_cell_magic
    def ensemble(self, line: str, cell: str | None = None) -> None:
        """Run the ensemble that the cell declares."""
        if cell is None:
            _write(_describe(line))
            return
        options = parse_options(line)
        if options.wants_help:
            _write(format_option_help())
            return
        try:
            self._execute(cell, options)
        except CellError as error:
            self._show_mistakes(error)
            raise
        except EnsembleError as error:
            use_cell_words(error)
            raise

    ensemble.__doc__ = format_option_help()

    def _show_mistakes(self, error: CellError) -> None:
        """Show mistakes on the page where somebody sees one; elsewhere the error has them as text (C14)."""
        from ensemble_notebook.notebook.live.display_mode import has_reader

        assert self.shell is not None
        if has_reader(self.shell):
            from ensemble_notebook.notebook.live.mistake_page import display_mistakes

            display_mistakes(error)

    def _execute(self, cell: str, options: Options) -> None:
        read = self._read(cell, options)
        if options.is_dry_run:
            self._show_plan(read)
        elif options.is_definition:
            self._names[options.out] = read.build(self._names)
        else:
            self._run(read.build(self._names), read.inputs, options)

    def _read(self, text: str, options: Options) -> Cell:
        """Read a cell; imports and evaluates nothing (C4)."""
        from ensemble_notebook.cell.cell_reader import read_cell

        needs_inputs = not (options.is_dry_run or options.is_definition)
        read = read_cell(
            text, self._names, overrides=options.overrides, default_llm=self.llm, needs_inputs=needs_inputs
        )
        for notice in read.notices:
            _write(f"{f'Line {notice.line}' if notice.line else 'Options'}: {notice.message}\n")
        return read

    @property
    def _names(self) -> dict[str, Any]:
        """The notebook's variables."""
        assert self.shell is not None
        names: dict[str, Any] = self.shell.user_ns
        return names

    def _show_plan(self, read: Cell) -> None:
        from ensemble_notebook.notebook.live.run_display import display

        for warning in read.warnings:
            _write(f"Warning: {warning}\n")
        display(read.plan)
        if (estimate := read.estimate()) is not None:
            _write(f"Estimate: {estimate}.\n")

    def _run(self, ensemble: Ensemble, inputs: Mapping[str, Any], options: Options) -> None:
        from ensemble_notebook.notebook.live.cell_reviewer import CellReviewer, check_questions
        from ensemble_notebook.notebook.live.display_mode import choose_display_mode
        from ensemble_notebook.notebook.live.run_display import make_run_display

        assert self.shell is not None
        self.stop_warm_up()  # from here on the run imports what it needs, and nothing gives way to it
        check_questions(ensemble)
        run_display = make_run_display(
            choose_display_mode(self.shell, self.display),
            ensemble.cost,
            has_timeline=self.timeline and options.has_timeline,
            is_background=options.is_background,
        )
        reviewer = CellReviewer(
            has_timeline=run_display.has_buttons,
            has_console=not options.is_background,
            is_asked=ensemble.review_handler is None,
        )
        start = partial(
            ensemble.start,
            inputs,
            timeout=options.timeout,
            record=options.record,
            replay=options.replay,
            replay_tools=options.replay_tools,
            pace=options.pace,
            listeners=(*run_display.listeners, reviewer),
            review_handler=reviewer.ask,
        )
        if options.is_background:
            handle = start()
            self._names[options.out] = handle
            run_display.open(handle.plan)
            run_display.follow(handle, reviewer)
            _start_waiting(handle, run_display)
        else:
            self._run_here(start, options.out, run_display, reviewer)

    def _run_here(
        self, start: Callable[[], RunHandle], out: str, run_display: RunDisplay, reviewer: CellReviewer
    ) -> None:
        """Run to the end. An interrupt at any moment stops the run, and what was done by then is bound (E35, C13).

        Where the run could not be stopped in time, its handle is bound, which has the output later.
        """
        from ensemble_notebook.notebook.live.interrupt_guard import InterruptGuard

        with InterruptGuard() as guard:
            handle = start()
            guard.call(handle.cancel)
            try:
                run_display.open(handle.plan)
                run_display.follow(handle, reviewer)
                handle.result(while_waiting=lambda: reviewer.attend(guard, run_display.paused))
            except RunInterrupted:
                raise
            except KeyboardInterrupt:
                handle.interrupted()
            finally:
                self._names[out] = handle if handle.output is None else handle.output
                run_display.close(handle.output)


def _start_waiting(handle: RunHandle, run_display: RunDisplay) -> None:
    """Close the display when a run in the background has ended, in the context of the cell that started it."""

    def wait() -> None:
        with suppress(BaseException):  # whoever asks the handle gets what it raises; here only the end matters
            handle.result()
        run_display.close(handle.output)

    work = contextvars.copy_context().run
    threading.Thread(target=work, args=(wait,), name="ensemble-background", daemon=True).start()


def _describe(line: str) -> str:
    """What the line magic says.

    Raises:
        ValidationError: it has no such word, or the line was meant to be a cell.
    """
    from ensemble_notebook import __version__

    answers = {"": _OVERVIEW, "help": format_option_help(), "version": f"ensemble-notebook {__version__}\n"}
    word = line.strip().lstrip("-")
    if word not in answers:
        hint = did_you_mean(word, [each for each in answers if each])
        raise ValidationError(f"%ensemble knows no {line.strip()!r}.{hint} A cell that runs begins with %%ensemble.")
    return answers[word]


def _write(text: str) -> None:
    """To the cell, as plain text."""
    sys.stdout.write(make_readable(text))
