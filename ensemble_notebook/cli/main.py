"""The command ``jupyter ensemble``: its sub-commands, and what it tells the shell at the end.

See docs/contract/cell.md#command-line.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from ensemble_notebook import __version__
from ensemble_notebook.cell.reading.options import add_early_end_options, add_row_options, add_run_options, read_repeat
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError, did_you_mean

DONE: Final = 0
FAILED: Final = 1
MISTAKE: Final = 2
INTERRUPTED: Final = 130

_EPILOG: Final = """\
exit status:
  0    done
  1    the run, the demo or the installation failed, the run ended before all was done, or a mark was not reached
  2    a mistake in the command or in the cell; nothing was run
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command says. Returns the exit status; errors are short and go to stderr.

    What goes wrong before a command sets `has_begun`, as it does where it runs the first thing, is a mistake in it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a bar is no reason to fail where the encoding has none
    parser = _make_parser()
    try:
        parsed = parser.parse_args(arguments)
        if parsed.command is None:
            parser.print_help()
            return MISTAKE
        is_done = _act(parsed)
    except (EnsembleError, RunInterrupted) as error:
        print("\n".join(error._render_traceback_()), file=sys.stderr)
        if isinstance(error, RunInterrupted):
            return INTERRUPTED
        return FAILED if parsed.has_begun and not isinstance(error, ValueError) else MISTAKE
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        print(f"{error.filename}: {error.strerror}" if error.filename else error, file=sys.stderr)
        return FAILED if parsed.has_begun else MISTAKE
    return FAILED if is_done is False else DONE


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyter ensemble",
        description="Teams of language-model agents in a notebook cell.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ensemble-notebook {__version__}")
    parser.set_defaults(has_begun=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    demo = commands.add_parser(
        "demo", help="play recorded runs in a notebook, and open it; needs no model, key or network"
    )
    demo.add_argument("--dir", type=Path, dest="folder", help="where the result goes (a new temporary folder)")
    demo.add_argument("--no-open", action="store_false", dest="opens", help="do not open JupyterLab")

    run = commands.add_parser("run", help="run a cell that is in a file")
    file = "a cell's body in YAML, with or without its %%%%ensemble line; - reads it from stdin"
    run.add_argument("file", metavar="CELL.yaml", help=file)
    add_run_options(run)
    run.add_argument("-o", "--out", type=Path, metavar="FILE", help="write the answer there; the trace to a .json")

    _add_map(commands.add_parser("map", help="run a cell for each row of a file, score the rows, hold them to marks"))

    validate = commands.add_parser("validate", help="check a cell that is in a file, and show its plan")
    validate.add_argument("file", metavar="CELL.yaml", help="as for run")
    add_run_options(validate)

    trace = commands.add_parser("trace", help="show a trace file in the browser, as one page")
    of = "of `run -o`, or of trace.save in a notebook"
    trace.add_argument("file", type=Path, metavar="FILE.trace.json", help=of)
    out = "where the page goes; .svg, .parquet, .chrome.json and .otlp.json work, too"
    trace.add_argument("-o", "--out", type=Path, metavar="FILE", help=out)
    trace.add_argument("--no-open", action="store_false", dest="opens", help="do not open the browser")

    runs = commands.add_parser("class", help="write one page of what a class has done, a folder for each student")
    runs.add_argument("folders", nargs="+", metavar="RUNS/*", help="folders with *.trace.json files, or a run store")
    runs.add_argument(
        "-o", "--out", type=Path, default=Path("class.html"), metavar="FILE", help="where it goes (class.html); or .csv"
    )
    runs.add_argument("--texts", action="store_true", help="with texts of errors, and reasons of checks")

    enable = commands.add_parser("enable", help="have IPython know %%ensemble without %load_ext".replace("%", "%%"))
    for command in (enable, commands.add_parser("disable", help="take back what enable did")):
        place = command.add_mutually_exclusive_group()
        place.add_argument("--user", action="store_true", help="for this user, in every environment (the default)")
        only = "for this Python environment"
        place.add_argument("--sys-prefix", action="store_true", dest="is_environment", help=only)

    models = commands.add_parser("models", help="what the model specs stand for here; fetch the local model")
    actions = models.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("pull", help="fetch the weights of the default local model, once")

    commands.add_parser("schema", help="print the JSON Schema of cells, for editors")
    return parser


def _add_map(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="CELL.yaml", help="as for run")
    parser.add_argument("rows", metavar="ROWS", help="a .csv, .jsonl or .parquet file; its columns fill {NAME}")
    add_run_options(parser)
    parser.add_argument("--repeat", type=read_repeat, metavar="N", help="run each row N times, as independent samples")
    parser.add_argument(
        "--score",
        action="append",
        metavar="[NAME=]SCORER",
        help="a function or judge that --scores names, or a ready-made scorer such as \"contains('refund')\"; may be "
        "repeated",
    )
    parser.add_argument(
        "--scores", action="append", metavar="PLACE", help="where scorers are: FILE.py, or module:function"
    )
    parser.add_argument("--expected", metavar="COLUMN", help="what a row should come to")
    add_row_options(parser)
    parser.add_argument(
        "--failed", metavar="VALUE", help="what a row that failed counts as under a number; or 'leave out'"
    )
    parser.add_argument(
        "--fail-under",
        action="append",
        metavar="NAME=MARK",
        help="exit with 1 unless this score is shown to be at least that, as accuracy=0.9; may be repeated",
    )
    parser.add_argument("--against", metavar="RUN", help="compare with an earlier map: its id, or its .trace.json")
    parser.add_argument(
        "--not-worse-by",
        metavar="LOSS",
        help="exit with 1 unless scores are shown to have lost no more than that against it, as 0.05",
    )
    parser.add_argument(
        "--allow-unpaired",
        action="store_true",
        help="hold to --not-worse-by also where more than 5%% of the rows are in one of the two maps alone",
    )
    add_early_end_options(parser)
    parser.add_argument("--summary", type=Path, metavar="FILE.md", help="add the verdict there, for a pull request")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="write the rows there (.csv, .jsonl, .parquet, .eval, .json, .html, .svg)",
    )


def _act(arguments: argparse.Namespace) -> bool | None:
    """Do it. Returns False where it was not done; modules are imported by the commands that need them."""
    from ensemble_notebook.cli import autoload

    match arguments.command:
        case "demo":
            from ensemble_notebook.cli.demo import demo

            arguments.has_begun = True
            demo(arguments.folder, opens=arguments.opens)
        case "run":
            from ensemble_notebook.cli.cell_files import run_file

            return run_file(arguments)
        case "map":
            from ensemble_notebook.cli.map_command import map_file

            return map_file(arguments)
        case "validate":
            from ensemble_notebook.cli.cell_files import validate_file

            validate_file(arguments)
        case "trace":
            open_trace(arguments.file, arguments.out, opens=arguments.opens)
        case "class":
            _write_class(arguments)
        case "models":
            _show_models(arguments)
        case "schema":
            from ensemble_notebook.cell.writing.editor_schema import write_editor_schema

            print(write_editor_schema(), end="")
        case command:
            arguments.has_begun = True
            file = autoload.find_environment_config() if arguments.is_environment else autoload.find_user_config()
            if command == "enable":
                print(f"%%ensemble is {'now enabled' if autoload.enable(file) else 'enabled already'} in {file}")
            else:
                print(f"%%ensemble {'is no longer' if autoload.disable(file) else 'was not'} enabled in {file}")
    return None


def _show_models(arguments: argparse.Namespace) -> None:
    if arguments.action == "pull":
        from ensemble_notebook.models.local_server import pull_weights

        arguments.has_begun = True
        print(f"The weights are in {pull_weights(print)}")
        return
    from ensemble_notebook.models.model_kinds import describe_models

    for offer in describe_models():
        print(f"{'✓' if offer.is_ready else '·'} {offer.spec:16} {offer.meaning}: {offer.note}")


def _write_class(arguments: argparse.Namespace) -> None:
    from ensemble_notebook.cli.cell_files import check_place
    from ensemble_notebook.trace.class_runs import load_class

    check_place("-o", arguments.out)
    found = load_class(arguments.folders, texts=arguments.texts)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    print(found.save(arguments.out))


def open_trace(file: Path, out: Path | None, *, opens: bool) -> None:
    """Write the page of a trace, say where it is, and open it where somebody can look.

    Args:
        file: a `*.trace.json`, ours or AgentEnsemble's.
        out: where the page goes; None: a new temporary folder.
        opens: False keeps the browser closed; it stays so on CI.

    Raises:
        OSError, TraceFormatError: the file can't be read.
        ValidationError: there is no such file, or `out` can't be written, or has an ending of no format.
    """
    from ensemble_notebook.cli.cell_files import check_place
    from ensemble_notebook.trace.execution_trace import ExecutionTrace
    from ensemble_notebook.trace.run_files import find_format

    if not file.is_file():
        near = (each.name for each in file.parent.glob("*.json*")) if file.parent.is_dir() else ()
        what = "is a folder: name a trace in it" if file.is_dir() else "is not there"
        raise ValidationError(f"The trace {file} {what}.{did_you_mean(file.name, near)}")
    if out is not None:
        check_place("-o", out)
        find_format(out)
    trace = ExecutionTrace.load(file)
    name = f"{file.name.removesuffix('.gz').removesuffix('.json').removesuffix('.trace')}.html"
    page = trace.export(out or Path(tempfile.mkdtemp(prefix="ensemble-trace-")) / name)
    print(page)
    if opens and not os.environ.get("CI"):
        webbrowser.open(page.resolve().as_uri())


if __name__ == "__main__":
    sys.exit(main())
