"""``%ensemble``: a table of its sub-commands, those that tell what there is to type, and how a line is read."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.reading.options import format_option_help
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.notebook.live.frontend import write_text

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ensemble_notebook.notebook.picture.shown_table import ModelsTable


@dataclass(frozen=True, slots=True)
class LineCommand:
    """A sub-command of ``%ensemble``.

    Attributes:
        word: that names it.
        arguments: as the help shows them.
        meaning: one line of help.
        function: ``"module:function"`` below ``ensemble_notebook.notebook.magics``, imported when it is needed. It is
            called with the words that follow and the shell; what it returns is the value of the line, as of any
            expression: shown, or bound by ``table = %ensemble runs``. It raises `EnsembleError` for what is wrong.
        options: words that complete its arguments.
        is_text: what follows is one text, given as it was typed, not word by word.
        of_a_cell: what else there is for who typed it as a cell.
    """

    word: str
    arguments: str
    meaning: str
    function: str
    options: tuple[str, ...] = ()
    is_text: bool = False
    of_a_cell: str = ""

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"%ensemble {self.word} {self.arguments}".rstrip()


LINE_COMMANDS: Final = (
    LineCommand("help", "", "the options of a cell, with examples", "line_commands:show_help"),
    LineCommand("version", "", "the version", "line_commands:show_version"),
    LineCommand(
        "demo",
        "[NAME] [--pace now] [--view VIEW] [-o NAME]",
        "play a recorded run of a scripted team: report, manager or map; needs no model, key or network",
        "demo_command:play_demo",
        ("report", "manager", "map", "--pace", "--view", "-o"),
    ),
    LineCommand(
        "runs",
        "[-n COUNT] [--compare | --clear]",
        "the remembered runs, as a DataFrame; --compare: this notebook's last, with what changed from run to run",
        "run_commands:list_runs",
        ("-n", "--compare", "--clear"),
    ),
    LineCommand(
        "show", "RUN", "a run: a variable, an id or its beginning, a name, or -1 for the last", "run_commands:show_run"
    ),
    LineCommand(
        "diff",
        "[A B]",
        "what changed from run A to run B, named as for show; without them, this notebook's last two",
        "run_commands:diff_runs",
    ),
    LineCommand(
        "score",
        "RUN [NAME=]SCORER ... [--expected COLUMN] [--replace] [-o NAME]",
        "add scores to a run, named as for show, without running it again; -o binds what has them",
        "run_commands:score_run",
        ("--expected", "--replace", "-o"),
    ),
    LineCommand(
        "sql",
        "[-o NAME] SELECT ...",
        "ask all remembered runs: the tables are those of load_traces(), the answer is a DataFrame, which -o binds",
        "sql_command:ask_runs",
        ("-o",),
        is_text=True,
        of_a_cell='A statement of several lines: ensemble_notebook.store.sql("""...""").',
    ),
    LineCommand(
        "improve",
        "MAP --change PLACE [--budget LIMIT] [--held-out ROWS] [--llm MODEL] [--dry-run] [-o NAME]",
        "look for better texts, and have rows that the search never saw say whether they are; a new cell has them",
        "improve_command:improve_texts",
        ("--change", "--map", "--score", "--expected", "--held-out", "--budget", "--seed", "--llm", "--dry-run", "-o"),
    ),
    LineCommand(
        "export",
        "RUN FILE",
        "a run, named as for show, as .trace.json, .html, .svg, .parquet, .chrome.json or .otlp.json",
        "run_commands:export_run",
    ),
    LineCommand(
        "yaml",
        "NAME",
        "an ensemble, or that of an output or a remembered run, as a new cell below",
        "text_commands:write_as_cell",
    ),
    LineCommand("python", "NAME", "the same as Python source, as a new cell below", "text_commands:write_as_python"),
    LineCommand(
        "import",
        "crewai FOLDER",
        "agents.yaml, tasks.yaml and crew.py of a crewAI project as a new cell below",
        "text_commands:import_project",
        ("crewai",),
    ),
    LineCommand(
        "watch",
        "[-o NAME] | off",
        "show runs of other frameworks, by their OpenTelemetry spans, in the cells that make them; -o binds the handle",
        "watch_command:watch_runs",
        ("-o", "off"),
    ),
    LineCommand("schema", "", "the JSON Schema of cells, for editors: shown, or a dict", "text_commands:show_schema"),
    LineCommand("models", "", "what the model specs come to here, as a DataFrame", "line_commands:list_models"),
    LineCommand(
        "resume",
        "RUN [-o NAME] [--redo TOOL] [--anyway]",
        "go on with a run that was stopped, or failed",
        "run_commands:resume_run",
        ("-o", "--redo", "--anyway"),
    ),
    LineCommand(
        "rerun",
        "RUN SPAN [--system-prompt TEXT] [--user-prompt TEXT] [--llm MODEL] [NAME=VALUE ...] [--repeat N] [--dry-run]",
        "make one model call again, with what is given in place of what it had; --dry-run: what that would cost",
        "rerun_commands:rerun_call",
        ("--system-prompt", "--user-prompt", "--llm", "--repeat", "--budget", "-o", "--dry-run"),
    ),
    LineCommand(
        "fork",
        "RUN SPAN [--reply TEXT | --user-prompt TEXT | --llm MODEL | ...] [--until TASK] [-o NAME] [--dry-run]",
        "run again from a span on, with a change there; --dry-run: what that would do, and what may have effects",
        "fork_commands:fork_run",
        (
            *("--reply", "--tool-result", "--output", "--system-prompt", "--user-prompt", "--llm", "--until", "-o"),
            "--dry-run",
        ),
    ),
)

_HELP_WORDS: Final = ("--help", "-h", "?")

_OVERVIEW: Final = """\
Teams of language-model agents in a notebook cell.

  {commands}

The smallest cell:

  %%ensemble
  - Name three facts about tides
  - Write a haiku from them
"""


def run_line(line: str, shell: InteractiveShell) -> Any:
    """Do what a line says; gives its value.

    Raises:
        ValidationError: it has no such word, or the line was meant to be a cell.
        EnsembleError: whatever the sub-command finds wrong.
    """
    first, _, text = line.strip().partition(" ")
    is_text = any(each.is_text for each in LINE_COMMANDS if each.word == first)
    try:
        words = [first, *filter(None, [text.strip()])] if is_text else shlex.split(line)
    except ValueError as error:
        raise ValidationError(f"%ensemble can't read {line.strip()!r}: {error}.") from None
    if not words:
        return write_text(_write_overview())
    word = "help" if words[0] in _HELP_WORDS else words[0].lstrip("-")
    command = next((each for each in LINE_COMMANDS if each.word == word), None)
    if command is None:
        hint = did_you_mean(word, [each.word for each in LINE_COMMANDS])
        raise ValidationError(f"%ensemble knows no {line.strip()!r}.{hint} A cell that runs begins with %%ensemble.")
    if any(each in _HELP_WORDS for each in words[1:]):
        return write_text(f"{command.usage}\n  {command.meaning}\n")
    module, _, function = command.function.partition(":")
    return getattr(importlib.import_module(f"{__package__}.{module}"), function)(words[1:], shell)


def refuse_line_word(line: str) -> None:
    """Check that what stands behind ``%%ensemble`` is not meant for a line.

    Raises:
        ValidationError: it begins with a sub-command.
    """
    first = line.split(maxsplit=1)[:1]
    command = next((each for each in LINE_COMMANDS if [each.word] == first), None)
    if command is not None:
        raise ValidationError(
            f"%%ensemble runs the ensemble that its cell declares. {command.word!r} is a line of its own, with one %: "
            f"{command.usage}. {command.of_a_cell}".rstrip()
        )


def complete_line(words: list[str]) -> list[str]:
    """The words that may follow those of a line, whose last one is not finished."""
    if len(words) <= 1:
        return [each.word for each in LINE_COMMANDS]
    return [option for each in LINE_COMMANDS if each.word == words[0] for option in each.options]


def _write_overview() -> str:
    """Every sub-command, with one line each."""
    rows = [
        ("%%ensemble", "runs the ensemble that the cell declares, in YAML"),
        ("%ensemble --file PATH ...", "runs the cell in a file; the options are those of %%ensemble"),
        *((each.usage, each.meaning) for each in LINE_COMMANDS),
        ("%config EnsembleMagics", "the defaults: llm, timeline, display, store, warm_up"),
    ]
    width = max(len(usage) for usage, _ in rows) + 4
    return _OVERVIEW.format(commands="\n  ".join(f"{usage:{width}}{meaning}" for usage, meaning in rows))


def show_help(_words: Sequence[str], _shell: Any) -> None:
    """The options of a cell."""
    write_text(format_option_help())


def show_version(_words: Sequence[str], _shell: Any) -> None:
    """The version of this package."""
    from ensemble_notebook import __version__

    write_text(f"ensemble-notebook {__version__}\n")


def list_models(words: Sequence[str], _shell: Any) -> ModelsTable:
    """Every form of spec. Opens nothing.

    Raises:
        ValidationError: a word follows.
    """
    from ensemble_notebook.models.model_kinds import describe_models
    from ensemble_notebook.notebook.picture.shown_table import MODELS, ModelsTable

    if words:
        raise ValidationError(f"%ensemble models takes no {words[0]!r}. It lists what each form of spec comes to here.")
    return ModelsTable(MODELS.to_frame(describe_models()))
