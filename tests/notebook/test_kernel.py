"""`%%ensemble` in a real kernel: where outputs land, what an interrupt leaves, what "Run All" and nbclient see.

pytestmark = pytest.mark.usefixtures("warm_kernels")

Holds C10, C13, C14, C30, C35, E35 and W14 in a kernel.
"""

import time
from collections.abc import Iterator

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.support.hostile_texts import Page
from tests.support.kernel import LIMIT_S, Kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
TRACE = "application/vnd.ensemble.trace+json"
ANSWER = {"text/plain", "text/html"}

SETUP = """
%load_ext ensemble_notebook
import threading
gates = {name: threading.Event() for name in ("first", "second")}
def quick(task): return f"{task.name} is done"
def first(task): return str(gates["first"].wait(120))
def second(task): return str(gates["second"].wait(120))
def chatty(task):
    print("printed by", task.name)
    return "said"
"""


def cell(handler: str, options: str = "") -> str:
    return f"""%%ensemble {options}
tasks:
  begin: {{description: Begin, handler: quick}}
  end: {{description: End, handler: {handler}, context: [begin]}}
"""


@pytest.fixture
def kernel(process) -> Iterator[Kernel]:
    kernel = Kernel(*process)
    _, reply = kernel.run(SETUP)
    assert reply["status"] == "ok", reply
    yield kernel
    kernel.run("for gate in gates.values(): gate.set()")


def test_widget_comes_first_and_the_picture_stays_in_the_same_output(kernel):
    request, reply = kernel.run(cell("quick"))
    assert reply["status"] == "ok"
    bundles = kernel.bundles(request)
    assert "starting" in bundles[0]["text/plain"]
    assert WIDGET in bundles[1]
    assert TRACE in bundles[2]
    assert WIDGET not in bundles[2]
    assert Page(bundles[3]["text/html"]).text == "end wrote:end is done"
    timeline = kernel.of(request, "display_data", "update_display_data")[:3]
    assert len({message["content"]["transient"]["display_id"] for message in timeline}) == 1


def test_run_is_followed_while_it_goes_on(kernel):
    request = kernel.send(cell("first"))
    kernel.until(lambda: kernel.has_told(request, "begin"))
    assert not kernel.is_idle(request)
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request)["status"] == "error"


def test_interrupt_stops_at_once_keeps_what_was_done_and_fails_the_cell(kernel):
    request = kernel.send(cell("first", "-o report"))
    kernel.until(lambda: kernel.has_told(request, "begin"))
    begun = time.monotonic()
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(request)
    took = time.monotonic() - begun
    kernel.until(lambda: kernel.is_idle(request))
    assert reply["status"] == "error"
    assert reply["ename"] == "RunInterrupted"
    (error,) = kernel.of(request, "error")
    assert len(error["content"]["traceback"]) == 1
    assert "tasks are done and kept" in error["content"]["traceback"][0]
    assert took < 30
    assert kernel.value("report.status.value") == "interrupted"
    assert kernel.value("report['begin'].raw") == "begin is done"
    assert TRACE in kernel.bundles(request)[-1]


def test_interrupt_at_the_first_sign_of_life_leaves_a_kernel_that_works(kernel):
    request = kernel.send(cell("first", "-o early"))
    kernel.until(lambda: bool(kernel.bundles(request)))
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request)["status"] == "error"
    kernel.until(lambda: kernel.is_idle(request))
    assert kernel.value("early.status.value") == "interrupted"
    assert kernel.run(cell("quick"))[1]["status"] == "ok"


def test_queued_cells_do_not_run_after_an_interrupt(kernel):
    kernel.run("ran = False")
    request = kernel.send(cell("first"))
    queued = kernel.send("ran = True")
    kernel.until(lambda: any(WIDGET in bundle for bundle in kernel.bundles(request)))
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request)["status"] == "error"
    assert kernel.reply(queued)["status"] == "aborted"
    assert kernel.value("str(ran)") == "False"


def test_two_background_cells_each_show_in_their_own_place(kernel):
    requests = {name: kernel.run(cell(name, f"-b -o {name}_run"))[0] for name in ("first", "second")}
    other, _ = kernel.run("print('in between')")
    kernel.run("gates['second'].set()")
    kernel.until(lambda: any(set(bundle) == ANSWER for bundle in kernel.bundles(requests["second"])[3:]))
    assert not any(bundle.get(TRACE, {}).get("kind") == "saved" for bundle in kernel.bundles(requests["first"]))
    kernel.run("gates['first'].set()")
    kernel.until(lambda: any(set(bundle) == ANSWER for bundle in kernel.bundles(requests["first"])[3:]))
    for name, request in requests.items():
        final = kernel.bundles(request)[-2:]
        assert TRACE in final[0]
        assert Page(final[1]["text/html"]).text == f"{name}_run.result() · end wrote:True"
    assert kernel.bundles(other) == []


def test_what_tools_print_lands_in_the_cell_that_runs_them(kernel):
    request, _ = kernel.run(cell("chatty"))
    printed = "".join(message["content"]["text"] for message in kernel.of(request, "stream"))
    assert "printed by end" in printed


def test_failed_run_is_a_failed_cell(kernel):
    kernel.run("def burn(task): raise OSError('fire')")
    request, reply = kernel.run(cell("burn", "-o report"))
    assert (reply["status"], reply["ename"]) == ("error", "TaskExecutionError")
    (error,) = kernel.of(request, "error")
    assert 1 <= len(error["content"]["traceback"]) <= 3
    assert TRACE in kernel.bundles(request)[-1]
    assert kernel.value("report['begin'].raw") == "begin is done"


MISTAKE = "%%ensemble\ntasks:\n  a: {descripton: <b>A</b>}"


def test_mistake_is_html_beside_plain_text_where_somebody_watches_and_fails_the_cell(kernel):
    request, reply = kernel.run(MISTAKE)
    assert (reply["status"], reply["ename"]) == ("error", "CellError")
    (bundle,) = kernel.bundles(request)
    assert "Did you mean <strong>description</strong>?" in bundle["text/html"]
    assert "&lt;b&gt;A&lt;/b&gt;" in bundle["text/html"]
    assert "<b>" not in bundle["text/html"]
    plain = bundle["text/plain"].splitlines()
    assert plain[0] == "  line 2: unknown key 'descripton' in task 'a'. Did you mean 'description'?"
    assert plain[1:3] == ["    2 |   a: {descripton: <b>A</b>}", "      |       ^^^^^^^^^^"]
    (error,) = kernel.of(request, "error")
    assert error["content"]["traceback"] == ["CellError: 1 mistake in this cell, shown above"]


def test_traceback_asked_for_after_a_mistake_has_it_as_plain_text(kernel):
    kernel.run(MISTAKE)
    request, _ = kernel.run("%tb")
    told = "\n".join(kernel.of(request, "error")[-1]["content"]["traceback"])
    assert "Did you mean 'description'?" in told
    assert "      |       ^^^^^^^^^^" in told


def test_mistake_is_plain_text_where_nobody_watches_and_stops_what_runs_all_cells():
    cells = ["%load_ext ensemble_notebook", MISTAKE, "print('went on')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    with pytest.raises(CellExecutionError, match="Did you mean 'description'"):
        NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    (output,) = notebook.cells[1].outputs
    assert output.output_type == "error"
    assert "      |       ^^^^^^^^^^" in output.traceback
    assert notebook.cells[2].outputs == []


TEXTLESS = """%%ensemble -o secret --capture metadata -i x=kanarie
tasks:
  a: {description: "Say {x}", handler: say}
  b: {description: Fail, handler: fail, context: [a]}
"""


def test_saved_notebook_holds_no_text_where_only_metadata_is_captured():
    setup = (
        "%load_ext ensemble_notebook\ndef say(task): return task.description\n"
        "def fail(task): raise ValueError(task.description)"
    )
    cells = [setup, TEXTLESS.replace("  b: {description: Fail, handler: fail, context: [a]}\n", ""), TEXTLESS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    client = NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3", allow_errors=True)
    client.execute()
    kept = str([each.outputs for each in notebook.cells])
    assert "kanarie" not in kept
    assert "ValueError" in kept
    assert "1/2" in kept


def test_widget_is_told_no_text_where_only_metadata_is_captured(kernel):
    request, reply = kernel.run(TEXTLESS.replace("say}", "quick}").replace("handler: fail", "handler: quick"))
    assert reply["status"] == "ok"
    told = str(kernel.of(request, "comm_open", "comm_msg")) + str(kernel.bundles(request))
    assert "'b'" in told
    assert "kanarie" not in told
    assert "a is done" not in told
    assert kernel.value("secret['a'].raw") == "a is done"


def test_question_at_the_cell_is_refused_where_only_metadata_is_captured(kernel):
    kernel.run(REVIEWED)
    _, reply = kernel.run(gate("--capture metadata"))
    assert reply["status"] == "error"
    assert "A review at the cell shows texts on the page" in reply["evalue"]


REVIEWED = """
from ensemble_notebook import ScriptedChatModel
model = ScriptedChatModel(default="A draft.")
"""
GATE = """%%ensemble -o report {options}
llm: model
tasks:
  draft: {{description: Write, review: {{timing: after, timeout: {timeout}}}}}
"""


def gate(options: str = "", timeout: float = 60) -> str:
    return GATE.format(options=options, timeout=timeout)


def prompt_of(kernel) -> str:
    """What the kernel asks for, once it does."""
    return kernel.client.get_stdin_msg(timeout=LIMIT_S)["content"]["prompt"]


@pytest.mark.parametrize("options", ["", "--no-timeline"])
def test_review_that_no_page_can_answer_comes_by_input(kernel, options):
    kernel.run(REVIEWED)
    request = kernel.send(gate(options))
    assert "[a]pprove" in prompt_of(kernel)
    kernel.client.input("e Another draft.")
    assert kernel.reply(request)["status"] == "ok"
    kernel.until(lambda: kernel.is_idle(request))
    printed = "".join(message["content"]["text"] for message in kernel.of(request, "stream"))
    assert "Is the output of 'draft' good?\n  A draft." in printed
    assert kernel.value("report.raw") == "Another draft."


def test_interrupt_at_the_prompt_stops_the_run(kernel):
    kernel.run(REVIEWED)
    request = kernel.send(gate("--no-timeline"))
    prompt_of(kernel)
    begun = time.monotonic()
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(request)
    assert (reply["status"], reply["ename"]) == ("error", "RunInterrupted")
    assert time.monotonic() - begun < 30
    assert kernel.value("report.status.value") == "interrupted"


def test_prompt_is_left_when_the_time_for_the_review_is_over(kernel):
    kernel.run(REVIEWED)
    request = kernel.send(gate("--no-timeline", timeout=2))
    prompt_of(kernel)
    assert kernel.reply(request)["status"] == "ok"
    assert kernel.value("report.status.value") == "exited_early"
    assert kernel.run("print('works')")[1]["status"] == "ok"


def notebook(*sources: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def test_notebook_run_without_a_browser_keeps_pictures_and_no_widgets(tmp_path):
    book = notebook(SETUP, cell("quick"), cell("quick", "-b -o later"), "later.result().timeline")
    NotebookClient(book, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert "widgets" not in book.metadata
    kinds = [set(output.get("data", {})) for output in book.cells[1].outputs]
    assert kinds == [{"text/plain", "text/html", TRACE}, {"text/plain", "text/html"}]
    assert "completed" in book.cells[1].outputs[0].data["text/plain"]
    assert set(book.cells[3].outputs[0].data) == {"text/plain", "text/html", TRACE}
    assert len(nbformat.writes(book)) < 60_000


def test_notebook_run_without_a_browser_waits_for_nobody(tmp_path):
    book = notebook(SETUP, REVIEWED, gate(timeout=2 * LIMIT_S), "report.status.value")
    NotebookClient(book, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    told = [output.text for output in book.cells[2].outputs if output.output_type == "stream"]
    assert "Nobody can be asked here: give review_handler=..., or resume where somebody can." in "".join(told)
    assert "exited_early" in book.cells[3].outputs[0].data["text/plain"]


def test_notebook_run_without_a_browser_stops_at_a_mistake(tmp_path):
    book = notebook(SETUP, "%%ensemble\n- ''", "never = True")
    with pytest.raises(CellExecutionError):
        NotebookClient(
            book, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        ).execute()
    assert book.cells[2].execution_count is None


def test_a_reply_of_a_megabyte_costs_a_cell_little_and_is_not_sent_to_the_page_c30(kernel: Kernel) -> None:
    kernel.run("%load_ext ensemble_notebook")
    kernel.run("def write(task): return 'see https://example.org/a?b=c, or mail bob@example.org\\n' * 20_000")
    kernel.run("import time")
    started = float(kernel.value("time.process_time()"))
    request, reply = kernel.run("%%ensemble -o report\n- {description: Write, handler: write}")
    assert float(kernel.value("time.process_time()")) - started < 5
    assert reply["status"] == "ok"
    answer = kernel.bundles(request)[-1]
    assert Page(answer["text/html"]).text.endswith("characters are left out here. All of it: report.raw")
    # Of these, what shows the timeline is 560 kB (five texts, which come with the first view).
    assert sum(len(str(message["content"])) for message in kernel.messages) < 700_000
    assert kernel.value("len(report.raw)") == "1100000"
