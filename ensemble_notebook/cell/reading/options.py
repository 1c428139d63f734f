"""The options on the first line of a cell: ``%%ensemble -o report -i topic="tidal energy"``.

See docs/contract/cell.md#options. Text in, `Options` out. Knows neither IPython nor what a cell's body says; the magic
and the command line share it.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeVar

from ensemble_notebook.cell.reading.source_text import read_text_file
from ensemble_notebook.domain.attachments import find_file_fault, find_media_type, read_start
from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.amounts import AmountError, is_amount, read_budget, read_history
from ensemble_notebook.domain.definitions.enums import CaptureMode, TimelineView, Workflow
from ensemble_notebook.domain.definitions.templates import is_variable_name
from ensemble_notebook.domain.planning.map_design import MOST_REPEATS
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import ValidationError, did_you_mean, find_nearest
from ensemble_notebook.models.model_kinds import list_forms
from ensemble_notebook.trace.row_files import ROW_FILES, is_row_file

MAGIC: Final = "%%ensemble"
DEFAULT_OUT: Final = "_ensemble"
OVERRIDES: Final = ("llm", "workflow", "capture", "budget", "name")
"""What stands in place of the cell's own, by the names of `Options`."""
_RUN_ID: Final = re.compile(r"-[1-9]\d{0,5}|(?=.*\d)[0-9a-f]{4,12}")
# What shells and other magics fill in.
_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*|\{[A-Za-z_]\w*\})", re.ASCII)

E = TypeVar("E", bound=StrEnum)

_EXAMPLES: Final = """
examples:
  %%ensemble                                   the smallest cell is a list, which is a chain
  - Research {topic}
  - Write a haiku from it

  %%ensemble -o report -i topic="tidal energy" bind the output, fill {topic}
  %%ensemble --llm openai:gpt-4o-mini          the same cell on another model
  %%ensemble --dry-run                         show the plan, call nothing
  %%ensemble -b -o report                      go on at once: report.status, report.cancel(), report.result()
  %%ensemble --budget "$0.50, 20k tokens"      stop buying before a limit is passed
  %%ensemble --reuse                           run what changed since an earlier run, and what depends on it
  %%ensemble -o chat --continue chat           go on with the conversation of an earlier cell
  %%ensemble --only brief                      run this task; reuse what it builds on, skip the rest
  %%ensemble --map df -o results               run once for each row of df; results.frame is a table
  %%ensemble --map rows.csv --repeat 3         the rows are a file, and each runs three times
  %%ensemble --map df --score "contains('refund')"   score each run; results.frame has a column for it
  %%ensemble --vary style=short --vary style=long -o both   run it with each value, side by side
  %%ensemble --map df --vary style=a --vary style=b --score right --until-clear 0.05   stop when it is known
  %%ensemble --file team.yaml -i notes=@a.txt  the cell is a file, and so is the value of {notes}
  %%ensemble --record run.yaml                 keep what the models said; --replay run.yaml says it again
"""


def is_run_id(word: str) -> bool:
    """True for what may be the id of a remembered run, a beginning of it, or a place from the end."""
    return _RUN_ID.fullmatch(word) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the first line asks for.

    Attributes:
        out: the variable that gets the output.
        inputs: values of template variables, as text, or the path of a picture or PDF.
        llm, workflow, capture, budget, name: in place of the cell's, where given; the budget as a text.
        timeout: of the whole run, in seconds.
        record: the file that gets every exchange with a model.
        replay: the file that answers in place of the models and tools.
        replay_tools: ``"live"`` where tools are called in a replay, too.
        pace: ``"recorded"`` where a replay takes the time that it took.
        reuse: whether what is unchanged since an earlier run is taken over from there.
        only: the name of the one task that is to run, with what it builds on.
        continue_from: the variable with the output whose conversations are gone on with, or the id of a run, or -1.
        history: how much of these is sent.
        map: the variable that holds the rows, or the path of a file of them, one run for each; None: one run.
        repeat: how often each of them runs; None: once.
        vary: values that are tried side by side, by the name of an input or ``llm``, and then by what each is called
            (itself, where nobody says); several names: every combination.
        score: what scores the runs, each ``[NAME=]SCORER``.
        expected: the column of what a run should come to.
        id: the column that tells rows apart.
        attach: the columns whose texts are paths of pictures and PDFs.
        until_clear: the level at which a shown difference between the variants ends the map; by the name of a score,
            where one is named.
        seed: of the order in which rows run then.
        is_: the label that counts then, of a score that gives labels.
        file: the file that is the cell; the body lies over it.
        is_dry_run: show the plan, call nothing.
        is_definition: bind the ensemble, do not run it.
        is_background: return at once.
        has_timeline: False where ``--no-timeline`` was given.
        view: in which the timeline opens; None: as ``%config EnsembleMagics.view`` says.
        wants_help: show the help and do nothing else.
    """

    out: str = DEFAULT_OUT
    inputs: Mapping[str, str | Path] = field(default_factory=dict)
    llm: str | None = None
    workflow: Workflow | None = None
    capture: CaptureMode | None = None
    budget: str | None = None
    name: str | None = None
    timeout: float | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_tools: Literal["live"] | None = None
    pace: Literal["recorded"] | None = None
    reuse: bool = False
    only: str | None = None
    continue_from: str | None = None
    history: str | None = None
    map: str | None = None
    repeat: int | None = None
    vary: Mapping[str, Mapping[str, str | Path]] = field(default_factory=dict)
    score: tuple[str, ...] = ()
    expected: str | None = None
    id: str | None = None
    attach: tuple[str, ...] = ()
    until_clear: float | Mapping[str, float] | None = None
    seed: int | None = None
    is_: str | None = None
    file: Path | None = None
    is_dry_run: bool = False
    is_definition: bool = False
    is_background: bool = False
    has_timeline: bool = True
    view: str | None = None
    wants_help: bool = False

    @property
    def run_settings(self) -> dict[str, Any]:
        """The settings of a run among them, by the names of `RunSettings`; which run is continued, a reader finds."""
        names = (each.name for each in fields(RunSettings) if each.name != "continue_from")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    @property
    def overrides(self) -> dict[str, Any]:
        """What stands in place of the cell's own, by the ensemble's field; ``inputs`` come before the cell's."""
        given = {name: getattr(self, name) for name in OVERRIDES} | {"inputs": self.inputs or None}
        given["capture_mode"] = given.pop("capture")
        return {name: value for name, value in given.items() if value is not None}


def parse_options(line: str) -> Options:
    """Parse the options of a cell's first line, without the magic's name.

    Raises:
        ValidationError: unknown option (with the nearest one), missing or unfit value, unbalanced quote.
    """
    # like a shell, except that a backslash is an ordinary character: Windows' paths have them
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        words = list(lexer)
    except ValueError:
        raise ValidationError(f"{MAGIC}: a quote is opened and not closed in: {line.strip()}") from None
    found = _make_parser().parse_args(words, argparse.Namespace(inputs={}, vary={}, score=()))
    return check_together(Options(**vars(found)))


def list_options() -> Mapping[str, bool]:
    """List the options as they are written, and whether each takes a value."""
    return {name: each.nargs != 0 for each in _make_parser()._actions for name in each.option_strings}


def check_definition(options: Options) -> Options:
    """Give back options of which those about a run are for a cell that runs. What a file's first line says may be more.

    Raises:
        ValidationError: the cell is to be defined, and not run.
    """
    of_rows = ("map", "vary", "repeat", "score", "expected", "id", "attach", "until_clear")
    names = (*of_rows, *options.run_settings, "continue_from")
    given = next(
        (f"--{name.removesuffix('_from').replace('_', '-')}" for name in names if getattr(options, name)), None
    )
    if options.is_definition and given is not None:
        raise ValidationError(f"{MAGIC}: --define runs nothing: leave out {given} or --define.")
    return options


def check_together(options: Options) -> Options:
    """Give back options whose parts fit together.

    Raises:
        ValidationError: an option is about a replay, and there is none.
    """
    for name, value in (("--map", options.map), ("--vary", options.vary), ("--repeat", options.repeat)):
        if value and options.continue_from is not None:
            raise ValidationError(f"{MAGIC}: --continue goes on with one run, and {name} runs many: leave out one.")
    if options.expected is not None and not options.score:
        raise ValidationError(f"{MAGIC}: --expected is what scorers look at: name one with --score SCORER, too.")
    of_rows = ("--id" if options.id is not None else "") or ("--attach" if options.attach else "")
    if of_rows and options.map is None:
        raise ValidationError(f"{MAGIC}: {of_rows} is a column of rows: name them with --map ROWS, too.")
    _check_early_end(options)
    is_single = options.map is None and not options.vary and options.repeat is None
    if options.score and options.is_background and is_single:
        raise ValidationError(f"{MAGIC}: a single run is scored when it has ended: leave out -b or --score.")
    for name in options.vary:
        if name in options.inputs or (name == "llm" and options.llm is not None):
            option = "--llm" if name == "llm" else f"-i {name}"
            raise ValidationError(f"{MAGIC}: {option} and --vary {name} are two answers: leave out one.")
    for name, value in (("--replay-tools", options.replay_tools), ("--pace", options.pace)):
        if value is not None and options.replay is None:
            raise ValidationError(f"{MAGIC}: {name} is about a replay: name a recording with --replay FILE, too.")
    return options


def _check_early_end(options: Options) -> None:
    check_early_end(options.until_clear, f"{MAGIC}: ", **{"seed": options.seed, "is": options.is_})
    if options.until_clear is not None and (options.map is None or not options.vary or not options.score):
        raise ValidationError(
            f"{MAGIC}: --until-clear ends the rows where a score shows which variant is better: it needs --map ROWS, "
            "--vary NAME=VALUE twice, and --score SCORER."
        )


def format_option_help() -> str:
    """Format the help, which has examples."""
    return _make_parser().format_help()


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """The options that the command line has, too."""
    parser.add_argument(
        "-i",
        "--input",
        action=_Input,
        dest="inputs",
        metavar="NAME=VALUE",
        help="fill {NAME}; may be repeated; NAME=@FILE is the text of a file, a picture or a PDF, NAME=@@x the text @x",
    )
    once = partial(parser.add_argument, action=_Once)
    once("--llm", metavar="SPEC", help=f"the ensemble's model: {list_forms()}")
    once(
        "--workflow", type=partial(_read_choice, Workflow), metavar="NAME", help="sequential, parallel or hierarchical"
    )
    once(
        "--capture",
        type=partial(_read_choice, CaptureMode),
        metavar="MODE",
        help="how much is kept, from the least on: " + "; ".join(f"{each}: {each.meaning}" for each in CaptureMode),
    )
    once(
        "--budget",
        type=_check_budget,
        metavar="LIMITS",
        help="what the run may spend: '$0.50', '20k tokens', '50 calls'",
    )
    once("--timeout", type=_read_seconds, metavar="SECONDS", help="stop the run after this time")
    once("--name", type=_read_text, help="the name of the ensemble")
    tape = parser.add_mutually_exclusive_group()
    tape.add_argument(
        "--record", action=_Once, type=_read_path, metavar="FILE", help="keep what models and tools answer"
    )
    tape.add_argument(
        "--replay", action=_Once, type=_read_path, metavar="FILE", help="answer from a recording, offline"
    )
    once("--replay-tools", choices=("live",), metavar="live", help="call tools in a replay, too")
    once("--pace", choices=("recorded",), metavar="recorded", help="replay at the speed of the recording")
    parser.add_argument(
        "--reuse",
        action="store_true",
        default=argparse.SUPPRESS,  # so that the command line does not take back what a file's first line says
        help="run what changed since an earlier run, and what depends on it",
    )
    once("--only", type=_read_text, metavar="TASK", help="run this task; reuse what it builds on, skip the rest")


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """What is said of columns of rows, on the command line, too."""
    parser.add_argument(
        "--id",
        action=_Once,
        type=_read_text,
        metavar="COLUMN",
        help="which rows of another map are the same (without it: the column id, else what the runs read)",
    )

    parser.add_argument(
        "--attach",
        action=_Attach,
        default=(),
        metavar="COLUMN",
        help="the texts of this column are paths of pictures and PDFs, which the model is shown; may be repeated",
    )


def add_early_end_options(parser: argparse.ArgumentParser) -> None:
    """When a map ends early (V60), of which the command line knows, too."""
    once = partial(parser.add_argument, action=_Once)
    once(
        "--until-clear",
        type=_read_level,
        metavar="[NAME=]LEVEL",
        help="end the rows when the verdict is clear, and claim no difference of what is alike more often than this: "
        "0.05; NAME is one of several scores",
    )
    once("--seed", type=_read_seed, metavar="N", help="of the order in which rows run then (without it: 0)")


def check_early_end(until_clear: object, place: str = "", **given: object) -> None:
    """Check that what is about an early end stands beside one.

    Raises:
        ValidationError: it does not.
    """
    for name, value in given.items():
        if value is not None and until_clear is None:
            raise ValidationError(f"{place}--{name} is about --until-clear LEVEL: name that, too, or leave it out.")


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print and exit."""

    def error(self, message: str) -> NoReturn:
        end = "" if message.endswith((".", "?")) else "."
        raise ValidationError(f"{MAGIC}: {message}{end} {MAGIC} --help lists the options.")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        for word in unknown:  # the first one ends it
            option = word.partition("=")[0]
            if not option.startswith("-"):
                bound = f", and the name to bind is written as -o {word}" if is_variable_name(word) else ""
                self.error(f"{word!r} belongs to no option; a value with spaces needs quotes{bound}")
            known = [each for each in self._option_string_actions if each.startswith("--") or len(option) == 2]
            close = did_you_mean(option, known) if find_nearest(option, known) else ""
            self.error(f"unknown option {option!r}.{close}")
        return found


class _Once(argparse.Action):
    """Takes a value once: a second one would silently replace the first."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        if getattr(namespace, self.dest) is not self.default:
            parser.error(f"{option} is given twice")
        setattr(namespace, self.dest, values)


class _Input(argparse.Action):
    """Collects NAME=VALUE."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        name, value = _read_pair(parser, values, option)
        inputs = namespace.inputs or {}  # the command line has none yet
        if name in inputs:
            parser.error(f"the input {name!r} is given twice")
        namespace.inputs = {**inputs, name: value}


class _Attach(argparse.Action):
    """Collects COLUMN."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        if not values.strip():
            parser.error(f"{option} wants COLUMN")
        if values in namespace.attach:
            parser.error(f"{option} {values} is given twice")
        namespace.attach = (*namespace.attach, values)


class _Score(argparse.Action):
    """Collects [NAME=]SCORER."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        if not values.strip():
            parser.error(f"{option} wants [NAME=]SCORER")
        if values in namespace.score:
            parser.error(f"{option} {values} is given twice")
        namespace.score = (*namespace.score, values)


class _Vary(argparse.Action):
    """Collects NAME=VALUE and NAME@WORD=VALUE, all values of a name, each with the word that it is called by."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        name, _, word = values.partition("=")[0].partition("@")
        given = values.replace(f"@{word}", "", 1) if word else values
        name, value = _read_pair(parser, given, option)
        others = namespace.vary.get(name, {})
        if value in others.values():
            parser.error(f"{option} {values} is given twice")
        called = word or str(value)
        if called in others:
            parser.error(f"{option}: two values of {name} are called {called!r}")
        namespace.vary = {**namespace.vary, name: {**others, called: value}}


def _read_pair(parser: argparse.ArgumentParser, text: str, option: str) -> tuple[str, Any]:
    """The name of an input and its value; ``@PATH`` is the text of that file, or the path of a picture or PDF."""
    name, equals, value = text.partition("=")
    if not equals:
        parser.error(f"{option} wants NAME=VALUE, got {text!r}")
    if not is_variable_name(name):
        parser.error(f"{name!r} can't be a template variable: use ASCII letters, digits and underscores")
    if variable := _VARIABLE.fullmatch(value):
        meant = variable[1].strip("{}")
        parser.error(
            f"{option} {name}={value}: no variable is filled in here, so this would be the text {value!r}. Leave it "
            f"out: {{{name}}} takes the notebook's variable {name}, so write {name} = {meant} above. If the text "
            f"itself is meant, write it under inputs: in the cell."
        )
    if not value.startswith("@"):
        return name, value
    if value.startswith("@@"):  # the text @x
        return name, value[1:]
    path = Path(value[1:]).expanduser()
    if find_media_type(read_start(path)) is not None:
        if fault := find_file_fault(path):
            parser.error(f"{option} {name}={value}: it {fault}")
        return name, path
    more = f"ensemble_notebook.config.max_input_mb, now {config.max_input_mb:g}, allows more"
    try:
        return name, read_text_file(Path(value[1:]), int(config.max_input_mb * 1_000_000), more)
    except ValidationError as error:
        parser.error(f"{option} {name}={value}: {error} For the text {value!r} itself write @{value}.")


def _make_parser() -> _Parser:
    parser = _Parser(
        prog=MAGIC,
        usage="%(prog)s [options], and the definition of an ensemble below it, in YAML",
        description="Run a team of agents: the body declares it, the timeline shows it, the output is bound to a name.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    out = f"bind the output (without it: {DEFAULT_OUT})"
    once = partial(parser.add_argument, action=_Once)
    once("-o", "--out", type=_read_variable, default=DEFAULT_OUT, metavar="NAME", help=out)
    add_run_options(parser)
    once(
        "--continue",
        type=lambda text: text if is_run_id(text) else _read_variable(text),
        dest="continue_from",
        metavar="NAME",
        help="go on with the conversations of the run whose output NAME holds, or of the remembered run of this id, or "
        "-1 for the last, task by task of the same name",
    )
    once(
        "--history",
        type=partial(_check_amount, read_history),
        metavar="LIMIT",
        help="how much of these conversations is sent: '20 turns', '8k tokens', '8k tokens, summarised'",
    )
    once(
        "--map",
        type=_read_rows_place,
        metavar="ROWS",
        help="one run for each row of this DataFrame, list of mappings, or .csv, .jsonl or .parquet file; its columns "
        "are the inputs",
    )
    once(
        "--repeat",
        type=read_repeat,
        metavar="N",
        help="run each row, or the cell, so many times, as independent samples",
    )
    parser.add_argument(
        "--vary",
        action=_Vary,
        metavar="NAME=VALUE",
        help="one run for each value of an input, or of llm, side by side; several names: every combination; "
        "NAME@WORD=VALUE calls it by a word",
    )
    parser.add_argument(
        "--score",
        action=_Score,
        metavar="[NAME=]SCORER",
        help="score each run by a function of the notebook, a ready-made scorer such as \"contains('refund')\", or a "
        "judge: an ensemble with a typed output; may be repeated",
    )
    once(
        "--expected",
        type=_read_text,
        metavar="COLUMN",
        help="what a run should come to, for --score (without it: expected, target or expected_output)",
    )
    add_row_options(parser)
    add_early_end_options(parser)
    label = "the label that counts for --until-clear, of a score that gives labels"
    once("--is", type=_read_text, dest="is_", metavar="LABEL", help=label)
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--dry-run", action="store_true", dest="is_dry_run", help="show the plan, call nothing; -o binds it"
    )
    way.add_argument("--define", action="store_true", dest="is_definition", help="bind the ensemble, do not run it")
    way.add_argument(
        "-b", "--background", "--bg", action="store_true", dest="is_background", help="return at once; NAME is a handle"
    )
    file = "the cell is this file; what stands below the line comes in place of its keys"
    once("--file", type=_read_path, metavar="FILE", help=file)
    parser.add_argument("--no-timeline", action="store_false", dest="has_timeline", help="show only the answer")
    once("--view", choices=tuple(TimelineView), help="the view in which the timeline opens")
    parser.add_argument("--help", action="store_true", dest="wants_help", help="show this")
    return parser


def _read_variable(text: str) -> str:
    if not text.isidentifier() or iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name for a variable")
    return text


def _check_amount(read: Callable[[str], object], text: str) -> str:
    try:
        read(text)
    except AmountError as error:
        raise argparse.ArgumentTypeError(f"{error} {error.hint}") from None
    return text


def _read_rows_place(text: str) -> str:
    if is_row_file(text):
        return text
    if not text.isidentifier() or iskeyword(text):
        endings = ", ".join(ROW_FILES)
        raise argparse.ArgumentTypeError(f"{text!r} is neither a name of a variable nor a file of rows ({endings})")
    return text


def read_repeat(text: str) -> int:
    """How often each row runs.

    Raises:
        ArgumentTypeError: it is no whole number from 1 to 1,000.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MOST_REPEATS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MOST_REPEATS:,}, got {text!r}")
    return int(text)


def _read_level(text: str) -> float | Mapping[str, float]:
    name, _, number = text.rpartition("=")
    try:
        level = float(number)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise argparse.ArgumentTypeError(f"must be a level above 0 and below 1, as 0.05 or right=0.05, got {text!r}")
    return {name: level} if name else level


def _read_seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 0, got {text!r}")
    return int(text)


def _read_text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be blank")
    return text


def _read_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be seconds > 0, got {text!r}")
    return seconds


def _read_choice(kind: type[E], text: str) -> E:
    names = [str(each.value) for each in kind]
    if text.lower() not in names:
        raise argparse.ArgumentTypeError(f"can't be {text!r}.{did_you_mean(text, names)}")
    return kind(text.lower())


def _check_budget(text: str) -> str:
    """A budget's text, or the name of one of the notebook, which is looked up with the cell's names."""
    is_name = text.isidentifier() and not is_amount(text)
    return text if is_name else _check_amount(read_budget, text)


def _read_path(text: str) -> Path:
    return Path(_read_text(text))
