"""The magics: ``%%ensemble`` runs a cell, ``%ensemble`` runs a sub-command. See docs/contract/cell.md#magics.

They connect the reading of a cell, its run and its display. The only state is the configuration, so reloading the
extension loses nothing. Heavy modules are imported when a cell needs them.
"""

from __future__ import annotations

import contextvars
import dataclasses
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Enum, Float, TraitError, TraitType, Unicode, observe, validate

from ensemble_notebook.cell.reading.mistakes import CellError, in_cell_words
from ensemble_notebook.cell.reading.options import (
    DEFAULT_OUT,
    Options,
    check_definition,
    format_option_help,
    parse_options,
)
from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.enums import TimelineView
from ensemble_notebook.domain.kernel_limits import ASK, kernel_limits
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ScoringError, ValidationError, summarize_error
from ensemble_notebook.models.model_kinds import list_short_forms
from ensemble_notebook.notebook.live.frontend import find_notebook, write_text
from ensemble_notebook.notebook.magics.kernel_settings import HERE, LIMITS, find_setter, find_variable, read_limit
from ensemble_notebook.notebook.magics.line_commands import refuse_line_word, run_line
from ensemble_notebook.notebook.magics.warm_up import WarmUp

if TYPE_CHECKING:
    from ensemble_notebook.cell.binding.scorer_binder import CellScorers
    from ensemble_notebook.cell.cell_reader import Cell
    from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkChange
    from ensemble_notebook.ensemble.earlier_runs.fork_plan import ForkPlan
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
    from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
    from ensemble_notebook.ensemble.person import Person
    from ensemble_notebook.ensemble.run_handle import RunHandle
    from ensemble_notebook.ensemble.run_settings import RunSettings
    from ensemble_notebook.notebook.live.run_display import RunDisplay
    from ensemble_notebook.notebook.magics.map_cell import ManyRuns
    from ensemble_notebook.trace.store.run_facts import RunOrigin

_FILE: Final = re.compile(r"\s*(-.*\s)?--file[\s=]")
"""The line of ``%ensemble`` that runs a cell in a file."""


class _Limit(TraitType[Any, Any]):
    """Any value. None is shown to the check, too: that of traitlets' `Any` is not."""


@magics_class
class EnsembleMagics(Magics):
    """``%config EnsembleMagics`` shows and sets the defaults of ``%%ensemble``."""

    llm = Unicode(
        None, allow_none=True, help=f"The model of ensembles that name none: {list_short_forms()}, a variable, ..."
    ).tag(config=True)
    timeline = Bool(True, help="Show the timeline; --no-timeline leaves it out for one cell.").tag(config=True)
    display = Enum(
        ("auto", "widget", "static", "text"),
        "auto",
        help="How runs are shown. auto: a live widget in a notebook, a table in a terminal, a picture where nobody "
        "watches. The environment variable ENSEMBLE_NOTEBOOK_DISPLAY says the same for all kernels.",
    ).tag(config=True)
    view = Enum(
        ("auto", *map(str, TimelineView)),
        "auto",
        help="The view in which timelines open; --view says it for one cell. auto: the one that says most, which is "
        "grid for a map or a list of more than 12 items, else bars. What a person chose for a run stays.",
    ).tag(config=True)

    warm_up = Bool(
        True,
        help="After %load_ext in a notebook, import what the first run needs while the kernel rests. No connection is "
        "opened.",
    ).tag(config=True)

    store = Unicode(
        None,
        allow_none=True,
        help="Where runs are remembered: auto (the user data folder), off, or the path of a file. None: as "
        "ensemble_notebook.config.store, which this sets.",
    ).tag(config=True)

    confirm_cost = Float(
        1.0,
        allow_none=True,
        help="A cell with --map asks before it runs, or goes on with, what may cost more than this, in the currency of "
        "its prices; where nobody can be asked, it is refused. None: it never asks.",
    ).tag(config=True)

    cell_budget = _Limit(
        None,
        help="The most that a cell may spend, such as '$0.50, 20k tokens'; its own budget above that is capped. This "
        "and the five below hold for all runs of a kernel. Who is to hold them for others sets them in a file of "
        "configuration or by the variable ENSEMBLE_NOTEBOOK_CELL_BUDGET, and so on: notebooks can't change them then.",
    ).tag(config=True)
    kernel_budget = _Limit(None, help="The most that all cells of a kernel may spend together.").tag(config=True)
    day_budget = _Limit(
        None,
        help="The most that all kernels with this store may spend on a day; the kernel's, where the store is off.",
    ).tag(config=True)
    allowed_models = _Limit(
        None, help="The models that may be asked, such as ['local', 'openai:gpt-4.1-*']; None: all. Scripts always may."
    ).tag(config=True)
    class_rate_limit = _Limit(None, help="How often models may be asked by a kernel, such as '60/min'.").tag(
        config=True
    )
    recordings = _Limit(
        None, help="The folder where --replay looks for what is not in the folder of the notebook."
    ).tag(config=True)

    _warm_up: WarmUp | None = None
    _setters: Mapping[str, str] | None = None
    """Who has set what before the extension was loaded; None until then."""
    _limits: dict[str, Any]
    """The limits that hold, by their names, as they were given."""

    def take_limits(self) -> None:
        """Read what files of configuration and the environment say, once, when the extension is loaded.

        Raises:
            ValidationError: a value can't be read; names who has set it.
        """
        setters, self._limits = {}, {}
        for name in ("llm", *LIMITS):
            variable = find_variable(name)
            if variable is not None:
                setters[name], value = variable
                setattr(self, name, value)
            elif getattr(self, name) is not None:
                setters[name] = find_setter(name)
        for name in LIMITS:
            value = getattr(self, name)
            made = None if value is None else read_limit(name, value, setters[name])
            kernel_limits.put(name, made)
            self._limits[name] = value
        self._setters = setters

    @validate(*LIMITS)
    def _check_limit(self, proposal: Mapping[str, Any]) -> Any:
        """Take a limit that a notebook sets for itself; one that was set for it stays."""
        if self._setters is None:
            return proposal["value"]
        name, value = proposal["trait"].name, proposal["value"]
        if value == self._limits.get(name):  # `%config` of another trait sets all anew
            return value
        if name in self._setters:
            raise TraitError(
                f"EnsembleMagics.{name} is set by {self._setters[name]}, and can't be changed here: {ASK}."
            )
        try:
            made = None if value is None else read_limit(name, value, f"{HERE}.{name}")
        except ValidationError as error:
            raise TraitError(str(error)) from None
        kernel_limits.put(name, made)
        self._limits[name] = value
        return value

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

    @validate("llm")
    def _check_llm(self, proposal: Mapping[str, Any]) -> str | None:
        """Refuse a model that there is not, while somebody sees it; what a file of settings says is checked later."""
        from ensemble_notebook.cell.cell_reader import find_default_fault

        value: str | None = proposal["value"]
        if value is not None and self._is_registered and (fault := find_default_fault(value, self._names)):
            raise TraitError(f"EnsembleMagics.llm: {fault}")
        return value

    @observe("store")
    def _set_store(self, change: Mapping[str, Any]) -> None:
        config.store = change["new"]

    @no_var_expand
    @line_cell_magic
    def ensemble(self, line: str, cell: str | None = None) -> Any:
        """Run the ensemble that the cell declares."""
        if cell is None and not _FILE.match(line):
            assert self.shell is not None
            return run_line(line, self.shell)
        refuse_line_word(line)
        try:
            options = check_definition(parse_options(line))
        except ValidationError as error:
            self._tell_of_body(cell or "", line, error)
            raise
        if options.wants_help:
            write_text(format_option_help())
            return None
        try:
            self._execute(cell or "", options, line)
            return None
        except CellError as error:
            self._show_mistakes(error)
            raise
        except EnsembleError as error:
            shown = in_cell_words(error)
        except RunInterrupted:
            raise
        except KeyboardInterrupt:  # before there was a run, as while modules are imported for the first time
            raise RunInterrupted("the cell was interrupted.") from None
        raise shown

    ensemble.__doc__ = format_option_help()

    def _tell_of_body(self, cell: str, line: str, error: ValidationError) -> None:
        """Tell of all mistakes at once where the body of a cell has some, too; what its options mean is not known."""
        from ensemble_notebook.cell.cell_reader import read_cell

        if not cell.strip() or _FILE.match(line):  # a file, too, may hold what the body refers to
            return
        try:
            read_cell(cell, self._names, needs_inputs=False, line=line, option_fault=str(error))
        except CellError as found:
            if len(found.mistakes) > 1:
                self._show_mistakes(found)
                raise found from error

    def _show_mistakes(self, error: CellError) -> None:
        """Show mistakes on the page where somebody sees one; elsewhere the error has them as text."""
        from ensemble_notebook.notebook.live.frontend import has_reader

        assert self.shell is not None
        if has_reader(self.shell):
            from ensemble_notebook.notebook.live.mistake_page import display_mistakes

            display_mistakes(error)

    def _execute(self, cell: str, options: Options, line: str) -> None:
        read, options, many = self._read(cell, options, line=line)
        if options.is_dry_run:
            self._show_plan(read, options.out, many)
        elif options.is_definition:
            defined = read.build(self._names)
            if defined.name is None and options.out != DEFAULT_OUT:
                defined = defined.replace(name=options.out)  # as a run of it goes by its variable (W22)
                from ensemble_notebook.cell.object_names import remember_names

                remember_names(defined, self._names)
            self._names[options.out] = defined
        else:
            self._confirm_cost(read, options, many)
            self._run(read, read.inputs, options, many, self._describe_cell(cell, line))

    def _confirm_cost(self, read: Cell, options: Options, many: ManyRuns | None) -> None:
        """Ask before many runs that may cost much."""
        if many is not None and self.confirm_cost is not None and options.replay is None:
            many.confirm_cost(self.shell, read, self.confirm_cost)

    def _read(
        self, text: str, options: Options, *, needs_inputs: bool = True, line: str = ""
    ) -> tuple[Cell, Options, ManyRuns | None]:
        """Read a cell, or the file that is one; imports and evaluates nothing.

        Returns:
            The cell; the options, with those of the file's first line; what the cell runs for, None where it runs once.

        Raises:
            ValidationError: the file can't be read, or its first line has a mistake.
        """
        from ensemble_notebook.cell.cell_reader import add_options, read_cell, read_cell_file

        file, many = None, None
        if options.file is not None:
            file = read_cell_file(options.file)
            options = add_options(options, file.options)
        if options.map is not None or options.vary or options.repeat is not None:
            from ensemble_notebook.notebook.magics.map_cell import ManyRuns

            many = ManyRuns(options, self._names)
        read = read_cell(
            text,
            self._names,
            overrides=options.overrides,
            default_llm=self.llm,
            default_by=(self._setters or {}).get("llm", "EnsembleMagics.llm"),
            needs_inputs=needs_inputs and not (options.is_dry_run or options.is_definition),
            is_dry_run=options.is_dry_run,
            continue_from=options.continue_from,
            columns=() if many is None else many.given,
            file=file,
            line=line,
            only=options.only,
            scores=options.score,
            expected=options.expected,
            varied=options.vary,
        )
        for notice in read.notices:
            write_text(f"{notice.where if notice.file else notice.where.capitalize()}: {notice.message}\n")
        return read, options, many

    @property
    def _names(self) -> dict[str, Any]:
        """The notebook's variables."""
        assert self.shell is not None
        names: dict[str, Any] = self.shell.user_ns
        return names

    def _show_plan(self, read: Cell, out: str, many: ManyRuns | None) -> None:
        from ensemble_notebook.notebook.live.run_display import display

        for warning in read.warnings:
            write_text(f"Warning: {warning}\n")
        variable = None if out == DEFAULT_OUT else out
        estimate = read.estimate(variable) if many is None else many.estimate(read)
        plan = read.plan if many is None else many.plan(read)
        if plan.preview is not None:
            preview = dataclasses.replace(plan.preview, estimate=estimate)
            plan = dataclasses.replace(plan, preview=preview)
        display(plan)
        if many is not None:
            write_text(f"{many.describe()}.\n")
        if estimate is not None:
            write_text(f"Estimate: {estimate}.\n")
        for refusal in read.list_refusals() if many is None else many.list_refusals(read):
            write_text(f"It would be refused: {refusal}\n")
        if out != DEFAULT_OUT:
            from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
            from ensemble_notebook.ensemble.many_runs.map_result import MapResult
            from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
            from ensemble_notebook.ensemble.run_handle import RunHandle

            # what a run left is not replaced: it may have cost money
            if isinstance(self._names.get(out), EnsembleOutput | RunHandle | MapResult | MapHandle):
                write_text(f"{out} still has the output of an earlier run. Give -o another name to bind this plan.\n")
            else:
                self._names[out] = plan
                write_text(f"{out} is this plan.\n")

    def _describe_cell(self, text: str, line: str) -> RunOrigin:
        """What is remembered of the cell with its run."""
        from ensemble_notebook.notebook.live.frontend import find_cell_id
        from ensemble_notebook.trace.store.run_facts import RunOrigin

        assert self.shell is not None
        notebook = find_notebook(self._names)
        # Not the shell's `execution_count`: some versions of IPython count on before a cell runs, others after it.
        cell = f"In[{self.shell.displayhook.prompt_count}]"
        return RunOrigin(cell=cell, text=text, options=line, notebook=notebook, cell_id=find_cell_id())

    def run_again(self, origin: RunOrigin, options: Options, resuming: Mapping[str, Any]) -> None:
        """Run a remembered cell with these options, in place of its own, so that it goes on with a run.

        `resuming` are the settings that say with which, and how.

        Raises:
            CellError: it can't run with the names that the notebook has now.
        """
        read, options, many = self._read(origin.text, options, needs_inputs=False)
        if many is not None:
            from ensemble_notebook.notebook.magics.run_commands import list_earlier

            many.leave_out_done(list_earlier(resuming["resume"]))
            self._confirm_cost(read, options, many)
        self._run(read, {}, options, many, origin, resuming)

    def fork(
        self,
        ensemble: RunnableEnsemble | None,
        run: Any,
        span: str,
        change: ForkChange,
        options: Options,
        origin: RunOrigin | None,
        *,
        is_dry_run: bool,
    ) -> ForkPlan | None:
        """Fork a run at a span, shown as a run of a cell is; gives the plan where that is all that is wanted.

        Args:
            ensemble: what runs; None: that of the cell.
            run: which, as of `Ensemble.fork`.
            span: the id of the span.
            change: what is different there.
            options: of the run that goes on from there.
            origin: the cell of the run; None where it was begun in Python.
            is_dry_run: whether nothing is to be done.

        Raises:
            CellError: the cell can't run with the names that the notebook has now.
            EnsembleError: what the fork raises.
        """
        from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkArguments
        from ensemble_notebook.ensemble.ensemble import begin_fork, plan_fork
        from ensemble_notebook.ensemble.run_settings import RunArguments, RunSettings
        from ensemble_notebook.trace.store.run_facts import RunOrigin

        scorers = None
        if ensemble is None:
            assert origin is not None
            read = self._read(origin.text, options, needs_inputs=False)[0]
            ensemble, scorers = read.build(self._names), read.scorers

        def give(settings: RunSettings) -> ForkArguments:  # the inputs are those of the run
            return ForkArguments(run, span, change, RunArguments({}, {}, settings))

        forked = cast("Ensemble", ensemble)
        if is_dry_run:
            return plan_fork(forked, give(RunSettings(only=options.only)))
        place = RunOrigin() if origin is None else origin
        self._start_shown(forked, lambda settings: begin_fork(forked, give(settings)), options, place, {}, scorers)
        return None

    def show_run(self, ensemble: Ensemble, start: Callable[[RunSettings], Any], options: Options) -> None:
        """Start a run that a line asks for, shown as a run of a cell is, and bind what comes of it.

        Args:
            ensemble: what it is about.
            start: begins it with these settings, and gives its handle.
            options: as of a cell.
        """
        self._start_shown(ensemble, start, options, self._describe_cell("", ""), {}, None, has_answer=False)

    def _run(
        self,
        read: Cell,
        inputs: Mapping[str, Any],
        options: Options,
        many: ManyRuns | None,
        origin: RunOrigin,
        resuming: Mapping[str, Any] | None = None,
    ) -> None:
        from ensemble_notebook.ensemble.ensemble import start_run
        from ensemble_notebook.ensemble.run_settings import RunArguments

        ensemble = read.build(self._names)

        def start(settings: RunSettings) -> RunHandle | MapHandle:
            if many is None:
                return start_run(ensemble, RunArguments(inputs, {}, settings))
            return many.start(ensemble, inputs, settings, read.scorers)

        more = {**(resuming or {}), "continue_from": read.continued}
        self._start_shown(ensemble, start, options, origin, more, read.scorers if many is None else None)

    def _start_shown(
        self,
        ensemble: Ensemble,
        start: Callable[[RunSettings], RunHandle | MapHandle],
        options: Options,
        origin: RunOrigin,
        more: Mapping[str, Any],
        scorers: CellScorers | None,
        *,
        has_answer: bool = True,
    ) -> None:
        """Start a run, show it, and bind what comes of it.

        Args:
            ensemble: what runs.
            start: begins it with these settings.
            options: of the run.
            origin: its cell.
            more: settings beside those of the options.
            scorers: of a single run, once it has ended.
            has_answer: whether its answer is shown below it.
        """
        from ensemble_notebook.ensemble.person import Person
        from ensemble_notebook.ensemble.run_settings import RunSettings
        from ensemble_notebook.notebook.live.frontend import can_answer, choose_display_mode
        from ensemble_notebook.notebook.live.run_display import ShownCell, make_run_display

        assert self.shell is not None
        self.stop_warm_up()  # from here on the run imports what it needs, and nothing gives way to it
        shown = ShownCell(
            variable=options.out,
            cell=origin.cell or "",
            has_timeline=self.timeline and options.has_timeline,
            is_background=options.is_background,
            view=options.view or (None if self.view == "auto" else self.view),
            has_answer=has_answer,
        )
        run_display = make_run_display(choose_display_mode(self.shell, self.display), ensemble.cost, shown)
        has_console = not options.is_background and can_answer(self.shell)
        reviewer = Person(
            has_timeline=run_display.has_buttons, has_console=has_console, is_asked=ensemble.review_handler is None
        )
        settings = RunSettings(
            **{
                **options.run_settings,
                **more,
                "listeners": (*run_display.listeners, reviewer),
                "review_handler": reviewer.reviewer if has_console or run_display.has_buttons else None,
                # A run that goes on with one of a variable keeps its name, under which the two are found together.
                "origin": origin if options.out == DEFAULT_OUT else dataclasses.replace(origin, variable=options.out),
            }
        )
        if options.is_background:
            handle = start(settings)
            self._names[options.out] = handle
            _follow(run_display, handle, reviewer, waits=False)

            def wait() -> None:
                fault = ""
                try:
                    handle.result()
                except BaseException as error:  # noqa: BLE001 - whoever asks the handle gets it; here the end matters
                    fault = summarize_error(error)
                _close(run_display, handle)
                if handle.output is None and fault:  # there is nothing else that tells of it
                    run_display.say(fault)

            # the display closes in the context of the cell that started the run
            work = contextvars.copy_context().run
            threading.Thread(target=work, args=(wait,), name="ensemble-background", daemon=True).start()
        else:
            self._run_here(partial(start, settings), options.out, run_display, reviewer, scorers)

    def _run_here(
        self,
        start: Callable[[], RunHandle | MapHandle],
        out: str,
        run_display: RunDisplay,
        reviewer: Person,
        scorers: CellScorers | None,
    ) -> None:
        """Run to the end, and score a single run.

        An interrupt at any moment stops the run, and what was done by then is bound. Where the run could not
        be stopped in time, its handle is bound, which has the output later.
        """
        from ensemble_notebook.ensemble.person import InterruptGuard

        with InterruptGuard() as guard:
            handle = start()
            guard.call(handle.cancel)
            try:
                _follow(run_display, handle, reviewer)
                handle.result(while_waiting=lambda: reviewer.attend(guard, run_display.paused))
            except RunInterrupted:
                raise
            except KeyboardInterrupt:
                handle.interrupted()
            finally:
                self._names[out] = handle if handle.output is None else handle.output
                with guard.blocking():  # nothing is left to stop but this, which takes its time for 20 MB of text
                    _close(run_display, handle)
        if scorers is not None:
            from ensemble_notebook.evaluation.scorer import describe_score

            output: EnsembleOutput = self._names[out]
            try:
                scored = self._names[out] = output.score(scorers.score, expected=scorers.expected)
            except (ScoringError, RunInterrupted) as error:
                self._names[out] = output if error.output is None else error.output
                raise
            told = "; ".join(f"{each.name}: {describe_score(each)}" for each in scored.score_records)
            write_text(f"{told}\n")


def _follow(run_display: RunDisplay, handle: RunHandle | MapHandle, reviewer: Person, *, waits: bool = True) -> None:
    """Show a run while it goes on; a map without rows has none. One that reads its inputs first has not begun."""
    run = _find_run(handle)
    if run is None:
        return
    run_display.open(run.plan)
    if waits and (told := run._tell_reading()) is not None:
        run_display.say(f"{told} (interrupt the kernel to stop)")
        if not run._wait_for_begin():
            return
    run_display.follow(run.cancel, reviewer)


def _close(run_display: RunDisplay, handle: RunHandle | MapHandle) -> None:
    """Show what stays: of a map the result as well, in place of an answer."""
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

    run, result = _find_run(handle), handle.output
    run_display.close(None if run is None else run.output, result if isinstance(result, MapResult) else None)


def _find_run(handle: RunHandle | MapHandle) -> RunHandle | None:
    """The run behind a handle; None for a map without rows."""
    found: Any = handle
    run: RunHandle | None = getattr(found, "run", found)
    return run
