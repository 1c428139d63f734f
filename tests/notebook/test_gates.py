"""Gates of runs that are begun in a kernel, a script or a terminal: somebody is asked, or it is said that nobody was.

pytestmark = pytest.mark.usefixtures("warm_kernels")

Holds C35 and E45 where a person sits at a page or a terminal, and where none does.
"""

import os
import sys

import nbformat
import pexpect
import pytest
from nbclient import NotebookClient

from tests.support.kernel import LIMIT_S, Kernel

NOBODY = "Nobody can be asked here: give review_handler=..., or resume where somebody can"
CELL = """%%ensemble {options}
tasks:
  draft: {{description: Draft, handler: write}}
  send: {{description: Send it, handler: send, context: [draft], review: {{timing: before, timeout: {timeout}}}}}
"""
SETUP = """
%load_ext ensemble_notebook
sent = []
def write(task): return "Dear all"
def send(task):
    sent.append(task.name)
    return "sent"
def tell(output):
    by = ' '.join(output.frames.reviews['by'])
    return f"{output.status.value} {output.exit_reason.value} {len(sent)} {by}"
"""


def cell(options: str, timeout: float = 2 * LIMIT_S) -> str:
    return CELL.format(options=options, timeout=timeout)


NESTED = "%%ensemble -o report\ntasks: {all: {ensemble: mail}}"
WAYS = {
    "cell": cell("-o report"),
    "run": "report = mail.run()",
    "arun": "report = await mail.arun()",
    "start": "report = mail.start().result()",
    "nested": NESTED,
}
ALLOWED = "completed completed 1 a person"
ENDED = "exited_early nobody_to_ask 0 nobody_to_ask"


@pytest.fixture
def kernel(process) -> Kernel:
    kernel = Kernel(*process)
    _, reply = kernel.run(SETUP)
    assert reply["status"] == "ok", reply
    _, reply = kernel.run(cell("--define -o mail"))
    assert reply["status"] == "ok", reply
    return kernel


def answer(kernel: Kernel, text: str) -> str:
    """Type an answer once it is asked for; gives the prompt."""
    prompt = kernel.client.get_stdin_msg(timeout=LIMIT_S)["content"]["prompt"]
    kernel.client.input(text)
    return prompt


@pytest.mark.parametrize("way", WAYS)
def test_person_at_a_page_is_asked_wherever_a_run_is_begun(kernel, way):
    request = kernel.send(WAYS[way])
    assert "[a]pprove" in answer(kernel, "a")
    assert kernel.reply(request)["status"] == "ok"
    kernel.until(lambda: kernel.is_idle(request))
    assert kernel.value("tell(report)") == ALLOWED


def test_person_at_a_page_is_asked_about_a_phase_too(kernel):
    kernel.run("from ensemble_notebook import Ensemble, Phase, PhaseReview, Task, console_review")
    kernel.run("phase = Phase.of('one', Task.of('Write', handler=write), review=PhaseReview(console_review))")
    request = kernel.send("report = Ensemble(phases=[phase]).run()")
    assert "[a]pprove" in answer(kernel, "a")
    assert kernel.reply(request)["status"] == "ok"
    kernel.until(lambda: kernel.is_idle(request))
    assert kernel.value("tell(report)") == "completed completed 0 a person"


def test_rows_of_a_map_are_asked_about_in_turn_and_one_answer_serves_all(kernel):
    request = kernel.send("result = mail.map([{'n': n} for n in range(3)], concurrency=1)")
    assert "[a all]" in answer(kernel, "a")
    answer(kernel, "a all")
    assert kernel.reply(request)["status"] == "ok"
    kernel.until(lambda: kernel.is_idle(request))
    printed = "".join(message["content"]["text"] for message in kernel.of(request, "stream"))
    assert [f"(row {n})" in printed for n in range(3)] == [True, True, False]
    assert kernel.value("len(sent)") == "3"


@pytest.mark.parametrize("way", ["run", "arun"])
def test_prompt_of_a_run_from_python_is_left_when_the_time_is_over(kernel, way):
    kernel.run(cell("--define -o mail", timeout=1))
    request = kernel.send(WAYS[way])
    kernel.client.get_stdin_msg(timeout=LIMIT_S)
    assert kernel.reply(request)["status"] == "ok"
    kernel.until(lambda: kernel.is_idle(request))
    assert kernel.value("tell(report)") == "exited_early user_exit_early 0 on_timeout"


@pytest.mark.parametrize("way", ["run", "arun"])
def test_interrupt_at_the_prompt_of_a_run_from_python_stops_it(kernel, way):
    request = kernel.send(WAYS[way])
    kernel.client.get_stdin_msg(timeout=LIMIT_S)
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request)["ename"] == "RunInterrupted"
    kernel.until(lambda: kernel.is_idle(request))
    assert kernel.value("len(sent)") == "0"


def test_notebook_that_nobody_reads_ends_early_wherever_a_run_is_begun(tmp_path):
    ways = {**WAYS, "background": cell("-b -o later"), "result": "report = later.result()"}
    ways["quiet"] = cell("--no-timeline -o report")
    sources = [SETUP, cell("--define -o mail"), *(code for way in ways.values() for code in (way, "tell(report)"))]
    sources.insert(2, "report = mail.start().result()")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(book, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    told = [each.outputs[0].data["text/plain"].strip("'") for each in book.cells if each.source == "tell(report)"]
    assert told == [ENDED] * len(ways)
    quiet = next(each for each in book.cells if each.source == ways["quiet"])
    printed = "".join(output.get("text", "") for output in quiet.outputs)
    assert f"May 'send' begin? {NOBODY}. So the run ends early." in printed


# --- A terminal ---

SCRIPT = """
import asyncio, sys
from ensemble_notebook import Ensemble, Review, Task
def send(task):
    print("SENT")
    return "sent"
mail = Ensemble(tasks=[Task.of("Send it", name="send", handler=send, review=Review("before"))], name="mail")
way = sys.argv[1]
if way == "run":
    output = mail.run()
elif way == "arun":
    output = asyncio.run(mail.arun())
elif way == "start":
    output = mail.start().result()
elif way == "handler":
    output = Ensemble(tasks=[Task.of("Do", handler=lambda task: mail.run().raw)]).run()
else:
    output = Ensemble(tasks=[Task(name="all", ensemble=mail)]).run()
print("ENDED", output.status.value, list(output.frames.reviews["by"]))
"""


@pytest.fixture
def script(tmp_path) -> str:
    file = tmp_path / "mail.py"
    file.write_text(SCRIPT)
    return str(file)


@pytest.mark.parametrize("way", ["run", "arun", "start", "handler", "nested"])
def test_person_at_a_terminal_is_asked_by_a_script(script, way):
    child = pexpect.spawn(sys.executable, [script, way], env={**os.environ}, encoding="utf-8", timeout=LIMIT_S)
    child.expect_exact("May 'send' begin?")
    child.expect_exact("[a]pprove")
    child.sendline("a")
    child.expect_exact("SENT")
    child.expect_exact("ENDED completed ['a person']")
    child.close(force=True)


def test_control_c_at_the_prompt_of_a_script_stops_the_run(script):
    child = pexpect.spawn(sys.executable, [script, "arun"], env={**os.environ}, encoding="utf-8", timeout=LIMIT_S)
    child.expect_exact("[a]pprove")
    child.sendintr()
    child.expect_exact("RunInterrupted")
    child.expect(pexpect.EOF)
    assert "SENT" not in child.before
    child.close(force=True)
