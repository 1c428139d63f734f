"""IPython in a real terminal: a table that moves, and Ctrl-C (C30, E35)."""

import io
import os
import sys
from collections.abc import Iterator

import pexpect
import pytest

LIMIT_S = 60
SETUP = """\
import asyncio
from pathlib import Path
GO_ON = Path(__file__).with_name("go_on")
async def quick(task):
    return "the \\x1b]0;title\\x07 answer"
async def slow(task):
    while not GO_ON.exists():
        await asyncio.sleep(0.05)
    return "slow answer"
def review(after):
    from ensemble_notebook import ScriptedChatModel
    get_ipython().push({"model": ScriptedChatModel(default="A draft.")})
    tasks = f"{{a: {{description: A, review: after}}, b: {{description: B, handler: {after}, context: [a]}}}}"
    get_ipython().run_cell_magic("ensemble", "-o report", f"llm: model\\ntasks: {tasks}")
def run(handler, options=""):
    tasks = f"{{a: {{description: A, handler: quick}}, b: {{description: B, handler: {handler}, context: [a]}}}}"
    get_ipython().run_cell_magic("ensemble", options, f"tasks: {tasks}")
"""


@pytest.fixture
def terminal(tmp_path) -> Iterator[pexpect.spawn]:
    """IPython at its second prompt."""
    (tmp_path / "setup.py").write_text(SETUP)
    environment = {**os.environ, "TERM": "xterm-256color", "IPYTHONDIR": str(tmp_path)}
    options = ["--no-banner", "--simple-prompt", "--HistoryManager.enabled=False", "--ext=ensemble_notebook"]
    command = ["-m", "IPython", *options, "-i", str(tmp_path / "setup.py")]
    child = pexpect.spawn(
        sys.executable, command, env=environment, dimensions=(30, 120), encoding="utf-8", timeout=LIMIT_S
    )
    child.expect(r"In \[1\]")
    yield child
    child.close(force=True)


def test_table_moves_while_the_cell_runs_and_stays_at_the_end(terminal, tmp_path):
    terminal.sendline("%config EnsembleMagics.display")
    terminal.expect(r"In \[2\]")
    terminal.logfile_read = log = io.StringIO()
    terminal.sendline("run('slow', '-o report')")
    for _ in range(3):
        terminal.expect("● running")
    (tmp_path / "go_on").touch()
    terminal.expect(r"In \[3\]")
    shown = log.getvalue().partition("In [3]")[0]
    assert shown.count("✓ completed") >= 1
    assert shown.rindex("✓ completed") > shown.rindex("● running")
    assert "\x1b[1A" in shown
    assert shown.rstrip().endswith("slow answer")


def test_model_text_can_not_control_the_terminal(terminal):
    terminal.sendline("run('quick')")
    terminal.expect(r"In \[2\]")
    assert "the ]0;title answer" in terminal.before
    assert "\x1b]0;" not in terminal.before


def test_control_c_stops_the_run_and_says_so_in_one_line(terminal):
    terminal.sendline("run('slow', '-o report')")
    terminal.expect("● running")
    terminal.sendintr()
    terminal.expect(r"Stopped: \d of 2 tasks are done and kept\.")
    terminal.expect(r"In \[2\]")
    assert "Traceback" not in terminal.before
    terminal.sendline("report")
    terminal.expect("⊘ interrupted")


def test_prompt_stands_alone_while_the_table_rests(terminal):
    terminal.sendline("review('quick')")
    terminal.expect(r"‖ Is the output of 'a' good\?\s+A draft\.\s+\[a\]pprove.*: ")
    with pytest.raises(pexpect.TIMEOUT):
        terminal.expect("running|waiting", timeout=1.2)
    terminal.sendline("e My draft.")
    terminal.expect("✓ completed")
    terminal.expect(r"In \[2\]")
    terminal.sendline("report['a'].raw")
    terminal.expect("My draft.")


def test_control_c_at_the_prompt_stops_the_run(terminal):
    terminal.sendline("review('quick')")
    terminal.expect(r"\[a\]pprove")
    terminal.sendintr()
    terminal.expect(r"Stopped: \d of 2 tasks are done and kept\.")
    terminal.expect(r"In \[2\]")
    assert "Traceback" not in terminal.before


def test_cell_is_typed_line_by_line_and_read_as_typed(terminal):
    for line in ("%%ensemble --define -o team", "- description: |", "      Say:", "        >>> 1", "        ... 2", ""):
        terminal.sendline(line)
        terminal.expect(r"\.\.\.: ")
    terminal.sendline("")
    terminal.expect(r"In \[2\]")
    terminal.sendline("print(ascii(team.tasks[0].description))")
    terminal.expect_exact(r"'Say:\n  >>> 1\n  ... 2'")
