"""`jupyter ensemble run` and `validate`: a cell in a file, and an exit status that tells."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ensemble_notebook.cli.main import DONE, FAILED, INTERRUPTED, MISTAKE, main

CHAIN = """\
llm: scripted
tasks:
  plan: Plan a page about {topic}
  write: {description: Write it, context: [plan]}
"""
HANDLERS = """\
def good(task): return f"**{task.name}** of {task.inputs.get('dish', 'nothing')} \\x1b[31m"
def bad(task): raise OSError("the stove is on fire")
def slow(task):
    import time
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a module of handlers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "kitchen.py").write_text(HANDLERS)
    yield tmp_path
    sys.modules.pop("kitchen", None)


def chain_of(first: str, second: str) -> str:
    return (
        f"tasks:\n  a: {{description: A, handler: {first}}}\n  b: {{description: B, handler: {second}, context: [a]}}"
    )


def file_of(folder, text: str) -> str:
    (folder / "cell.yaml").write_text(text)
    return str(folder / "cell.yaml")


def test_run_prints_table_and_answer(folder, capsys):
    assert main(["run", file_of(folder, CHAIN), "-i", "topic=tides"]) == DONE
    shown = capsys.readouterr()
    assert "✓ completed" in shown.out
    assert "scripted replies, no model" in shown.out
    assert shown.out.index("✓ plan") < shown.out.index("✓ write")
    assert "plan: done in" in shown.err


def test_names_are_found_in_the_working_folder(folder, capsys):
    text = "tasks:\n  cook: {description: 'Cook {dish}', handler: kitchen.good}"
    assert main(["run", file_of(folder, text), "-i", "dish=soup"]) == DONE
    assert capsys.readouterr().out.rstrip().endswith("**cook** of soup [31m")


def test_first_line_may_hold_the_options_and_the_command_line_comes_before_it(folder, capsys):
    text = "%%ensemble -o report -i topic=tides --name tidal\n" + CHAIN
    assert main(["run", file_of(folder, text)]) == DONE
    assert "tidal" in capsys.readouterr().out
    assert main(["run", file_of(folder, text), "--name", "other", "-i", "topic=moon"]) == DONE
    assert "other" in capsys.readouterr().out.splitlines()[0]


def test_answer_goes_to_a_file_where_one_is_named(folder, capsys):
    text = "tasks:\n  cook: {description: Cook, handler: kitchen.good}"
    assert main(["run", file_of(folder, text), "--out", "answer.md"]) == DONE
    assert (folder / "answer.md").read_text().startswith("**cook** of nothing")
    assert "**cook**" not in capsys.readouterr().out


@pytest.mark.parametrize("place", [[], ["-o", "trace.json"]])
def test_answer_of_a_run_that_keeps_no_text_is_not_printed(folder, capsys, place):
    cell = file_of(folder, "tasks: {soup: {description: Cook, handler: kitchen.good}}")
    assert main(["run", cell, "--capture", "metadata", *place]) == DONE
    shown = capsys.readouterr()
    assert "✓ completed" in shown.out
    assert "**soup**" not in shown.out + shown.err
    assert "capture mode metadata keeps no text. -o FILE writes it to a file." in shown.err


def test_answer_of_a_run_that_keeps_no_text_goes_to_the_file_that_is_named(folder, capsys):
    cell = file_of(folder, "tasks: {soup: {description: Cook, handler: kitchen.good}}")
    assert main(["run", cell, "--capture", "metadata", "-o", "soup.md"]) == DONE
    assert (folder / "soup.md").read_text().startswith("**soup**")
    assert "**soup**" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("second, status", [("kitchen.good", DONE), ("kitchen.bad", FAILED)])
def test_trace_goes_to_a_json_file_where_one_is_named_also_of_a_failed_run(folder, capsys, second, status):
    assert main(["run", file_of(folder, chain_of("kitchen.good", second)), "--out", "run.trace.json"]) == status
    assert "The trace is in run.trace.json" in capsys.readouterr().out
    names = [span["name"] for span in json.loads((folder / "run.trace.json").read_text())["spans"]]
    assert {"a", "b"} <= set(names)


def test_trace_makes_a_page_of_a_trace_file_and_says_where_it_is(folder, capsys):
    assert main(["run", file_of(folder, CHAIN), "-i", "topic=tides", "-o", "run.trace.json"]) == DONE
    capsys.readouterr()
    assert main(["trace", "run.trace.json", "--no-open"]) == DONE
    page = Path(capsys.readouterr().out.strip())
    assert page.name == "run.html"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["trace", "run.trace.json", "-o", "run.svg", "--no-open"]) == DONE
    assert (folder / "run.svg").exists()
    assert main(["trace", "cell.yaml", "--no-open"]) == MISTAKE
    assert main(["trace", "gone.trace.json", "--no-open"]) == MISTAKE


def test_options_of_the_run_reach_it(folder, capsys):
    text = "llm: scripted\ntasks: {a: A, b: {description: B, context: [a]}}"
    assert main(["run", file_of(folder, text), "--budget", "1 call", "--capture", "off"]) == FAILED
    shown = capsys.readouterr()
    assert "budget exceeded" in shown.out
    assert "a: done in" in shown.err
    assert "b: skipped" in shown.err


def test_recorded_run_is_replayed(folder, capsys):
    file = file_of(folder, "%%ensemble --llm scripted\n- Say hello")
    assert main(["run", file, "--record", "talk.jsonl"]) == DONE
    said = capsys.readouterr().out.splitlines()[-1]
    assert main(["run", file, "--replay", "talk.jsonl"]) == DONE
    assert capsys.readouterr().out.splitlines()[-1] == said
    file = file_of(folder, "%%ensemble --llm scripted\n- Say goodbye")
    assert main(["run", file, "--replay", "talk.jsonl"]) == FAILED


REVIEWED = "tasks:\n  a: {description: A, handler: kitchen.good, review: before}"


def test_review_asks_who_sits_at_the_terminal(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("approve\n"))
    assert main(["run", file_of(folder, REVIEWED)]) == DONE
    assert "May 'a' begin?" in capsys.readouterr().err


def test_review_is_decided_by_its_timeout_where_nobody_sits_there(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["run", file_of(folder, REVIEWED)]) == FAILED
    shown = capsys.readouterr()
    assert "nobody to ask" in shown.out
    assert "a: skipped: not done: nobody could be asked" in shown.err
    assert "a: done" not in shown.err


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, None])
def test_review_says_before_the_first_task_that_nobody_can_be_asked(folder, stdin):
    command = [sys.executable, "-m", "ensemble_notebook.cli.main", "run", file_of(folder, REVIEWED)]
    closed = {"stdin": stdin} if stdin is not None else {"preexec_fn": lambda: os.close(0)}
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, **closed)
    assert ended.returncode == FAILED
    assert "nobody can be asked here: give review_handler=..., or resume where somebody can" in ended.stderr
    assert "May 'a' begin?" not in ended.stderr
    assert "somebody chose to leave" not in ended.stdout + ended.stderr


def test_answer_that_is_piped_in_is_taken(folder):
    command = [sys.executable, "-m", "ensemble_notebook.cli.main", "run", file_of(folder, REVIEWED)]
    ended = subprocess.run(
        command, cwd=folder, input="approve\n", capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == DONE, ended.stderr
    assert "a: done" in ended.stderr


def test_what_is_odd_is_said_when_a_cell_is_validated(folder, capsys):
    text = "constraints: {global_max_delegations: 1}\ntasks: [A]"
    assert main(["validate", file_of(folder, text)]) == DONE
    assert "hierarchical_constraints has no effect" in capsys.readouterr().err


def test_failed_run_prints_what_was_done_and_fails(folder, capsys):
    assert main(["run", file_of(folder, chain_of("kitchen.good", "kitchen.bad"))]) == FAILED
    shown = capsys.readouterr()
    assert "✓ a" in shown.out
    assert "✕ b" in shown.out
    assert "Task 'b' (Handler) failed: OSError: the stove is on fire" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    "command, text, told",
    [
        (["run"], "tasks:\n  a: {descripton: A}", "line 2"),
        (["run"], "%%ensemble\ntasks:\n  a: {descripton: A}", "line 3"),
        (["run"], CHAIN, "topic"),
        (["run"], "%%ensemble --otu x\n- A", "Did you mean '--out'?"),
        (["run", "--workflow", "paralel"], "- A", ""),
        (["validate"], "tasks:\n  a: {description: A, context: [b]}", "b"),
        (["validate"], "a: [", ""),
    ],
)
def test_mistake_has_a_status_of_its_own_and_no_traceback(folder, capsys, command, text, told):
    try:
        status = main([command[0], file_of(folder, text), *command[1:]])
    except SystemExit as exit_:  # argparse ends by itself where its own options are wrong
        status = exit_.code
    assert status == MISTAKE
    shown = capsys.readouterr().err
    assert told in shown
    assert "Traceback" not in shown


def test_unreadable_files_are_mistakes(folder, capsys):
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    for name in ("missing.yaml", "bytes.yaml", "."):
        assert main(["run", name]) == MISTAKE
        assert f"{name} can't be read" in capsys.readouterr().err


def test_validate_shows_the_plan_and_runs_nothing(folder, capsys):
    text = chain_of("no.such.module", "kitchen.bad").replace("description: A", "description: 'A {x}'")
    assert main(["validate", file_of(folder, text)]) == DONE
    shown = capsys.readouterr().out
    assert "longest chain 2 tasks" in shown
    assert "needs -i x=..." in shown


def test_cell_comes_from_stdin_too(folder):
    command = [sys.executable, "-m", "ensemble_notebook.cli.main", "run", "-"]
    text = "- Say hello"
    done = subprocess.run([*command, "--llm", "scripted"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == DONE, done.stderr
    assert "✓ completed" in done.stdout


def test_interrupt_leaves_the_table_and_its_own_status(folder):
    file = file_of(folder, chain_of("kitchen.good", "kitchen.slow"))
    command = [sys.executable, "-m", "ensemble_notebook.cli.main", "run", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline().startswith("a: done")
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        shown, told = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, told
    assert time.monotonic() - begun < 30
    assert "⊘ interrupted" in shown
    assert "Stopped: 1 of 2 tasks are done and kept." in told
    assert "Traceback" not in told


def test_command_without_a_sub_command_shows_the_help(capsys):
    assert main([]) == MISTAKE
    shown = capsys.readouterr().out
    assert "exit status:" in shown
    for command in ("demo", "run", "validate", "enable", "disable", "models", "schema"):
        assert command in shown
