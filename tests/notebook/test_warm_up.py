"""The warm-up: what it imports, whom it gives way to, and that it can be done without."""

import importlib.util
import logging
import sys
import threading
import time
import warnings

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from ensemble_notebook.notebook.magics.warm_up import GIVE_WAY_S, IMPORTS, REST_S, THREAD_NAME, WarmUp
from tests.support.kernel import LIMIT_S, Kernel

OURS = (
    "ensemble_notebook.cell.cell_reader",
    "ensemble_notebook.ensemble.ensemble",
    "ensemble_notebook.notebook.live.run_display",
    "ensemble_notebook.notebook.live.timeline_widget",
    "ensemble_notebook.models.model_source",
    "ensemble_notebook.trace.execution_trace",
)
WATCH = f"""
import sys, threading
contacted = []
def watch(name, args):
    if name in ("socket.connect", "socket.getaddrinfo"):
        contacted.append(args)
sys.addaudithook(watch)
def is_warming():
    return any(thread.name == {THREAD_NAME!r} for thread in threading.enumerate())
def count():
    return sum(thread.name == {THREAD_NAME!r} for thread in threading.enumerate()), callbacks()
def count_after_this_cell():
    # At once, when the cell is over: what it began may have ended before anybody asks.
    get_ipython().events.register("post_execute", lambda: counts.append(count()))
counts = []
def callbacks():
    known = [each for calls in get_ipython().events.callbacks.values() for each in calls]
    return sum("warm_up" in getattr(each, "__module__", "") for each in known)
"""


@pytest.fixture
def kernel():
    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--HistoryManager.enabled=False"])
    kernel = Kernel(manager, client)
    kernel.run(WATCH)
    yield kernel
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


def wait_until_done(kernel):
    deadline = time.monotonic() + LIMIT_S
    while kernel.value("is_warming()") == "True":
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_kernel_imports_in_silence_what_a_first_run_needs(kernel):
    request, _ = kernel.run("%load_ext ensemble_notebook")
    assert kernel.value("is_warming()") == "True"
    wait_until_done(kernel)
    names = ("aiohttp", "anywidget", *OURS, "ruamel.yaml")
    assert kernel.value(f"[each for each in {names} if each not in sys.modules]") == "[]"
    assert kernel.value("contacted") == "[]"
    assert kernel.value("callbacks()") == "0"
    assert kernel.value("[type(each).__name__ for each in sys.meta_path if 'WarmUp' in repr(each)]") == "[]"
    assert kernel.of(request, "stream", "display_data", "error") == []
    before = kernel.value("len(sys.modules)")
    kernel.run("%%ensemble --dry-run\nllm: scripted\ntasks: [Say hello]")
    assert int(kernel.value("len(sys.modules)")) - int(before) < 20


def test_all_of_ours_that_it_imports_is_there():
    # A module that was renamed would be left out in silence, since what fails is left to whoever needs it.
    names = [name for each in IMPORTS for name in getattr(each, "args", ()) if name.startswith("ensemble_notebook.")]
    assert set(OURS) <= set(names)
    assert [name for name in names if importlib.util.find_spec(name) is None] == []


def test_cell_that_imports_the_same_package_is_not_held_up(kernel):
    kernel.run("%load_ext ensemble_notebook")
    _, reply = kernel.run("import langchain_openai, openai\nprint(openai.__version__)")
    assert reply["status"] == "ok"
    _, reply = kernel.run("%%ensemble\nllm: scripted\ntasks: [Say hello]")
    assert reply["status"] == "ok"
    wait_until_done(kernel)


def test_unloading_and_switching_off_end_it_and_loading_twice_doubles_nothing(kernel):
    load = "%load_ext ensemble_notebook\n%load_ext ensemble_notebook\n%reload_ext ensemble_notebook"
    kernel.run(f"{load}\ncount_after_this_cell()")
    assert kernel.value("counts[0]") == "(1, 2)"
    kernel.run("%unload_ext ensemble_notebook")
    assert kernel.value("callbacks()") == "0"
    wait_until_done(kernel)
    count = kernel.value("len(sys.modules)")
    time.sleep(3 * REST_S)
    assert kernel.value("len(sys.modules)") == count


def test_switched_off_it_never_begins(kernel):
    kernel.run("%load_ext ensemble_notebook\n%config EnsembleMagics.warm_up = False")
    assert (kernel.value("is_warming()"), kernel.value("callbacks()")) == ("False", "0")
    kernel.run("%config EnsembleMagics.warm_up = True\ncount_after_this_cell()")
    assert kernel.value("counts[0]") == "(1, 2)"


def test_nobody_who_reads_no_warm_up():
    source = WATCH + "%load_ext ensemble_notebook"
    cells = [nbformat.v4.new_code_cell(each) for each in (source, "1", "print(is_warming())")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=LIMIT_S).execute()
    assert notebook.cells[-1].outputs[0].text == "False\n"


# --- By itself, in a shell that says it is a kernel's -----------------------------------------------------------------


class Steps:
    """Steps that are told when they may end."""

    def __init__(self, count):
        self.begun = []
        self.may_end = [threading.Event() for _ in range(count)]
        self.all = [self._make(number) for number in range(count)]

    def _make(self, number):
        def step():
            self.begun.append(number)
            assert self.may_end[number].wait(LIMIT_S)

        return step


@pytest.fixture
def made(ip, monkeypatch):
    """Makes warm-ups in a shell whose cells are sent by a person; ends them."""
    monkeypatch.setattr(ip, "kernel", object(), raising=False)
    monkeypatch.setattr(ip, "get_parent", lambda: {"content": {"allow_stdin": True}}, raising=False)
    warm_ups = []

    def make(steps):
        warm_ups.append(WarmUp(ip, steps))
        return warm_ups[-1]

    with warnings.catch_warnings():
        warnings.resetwarnings()
        yield make
        for each in warm_ups:
            each.stop()


def until(is_so):
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def warming():
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def test_no_step_begins_while_a_cell_runs(ip, made):
    steps = Steps(2)
    made(steps.all)
    ip.events.trigger("post_execute")
    until(lambda: steps.begun == [0])
    ip.events.trigger("pre_execute")
    steps.may_end[0].set()
    time.sleep(2 * REST_S)
    assert steps.begun == [0]
    ip.events.trigger("post_execute")
    until(lambda: steps.begun == [0, 1])
    steps.may_end[1].set()
    until(lambda: not warming())


def test_stopped_it_begins_no_further_step_and_leaves_nothing(ip, made):
    steps = Steps(2)
    before = {event: list(calls) for event, calls in ip.events.callbacks.items()}, list(sys.meta_path)
    warm_up = made(steps.all)
    ip.events.trigger("post_execute")
    until(lambda: steps.begun == [0])
    warm_up.stop()
    warm_up.stop()
    steps.may_end[0].set()
    until(lambda: not warming())
    assert steps.begun == [0]
    assert ({event: list(calls) for event, calls in ip.events.callbacks.items()}, list(sys.meta_path)) == before


def test_import_gives_way_to_a_cell_for_a_moment_only(ip, made):
    took = []

    def step():
        began = time.monotonic()
        ip.events.trigger("pre_execute")
        with pytest.raises(ModuleNotFoundError):
            import no_such_module  # noqa: F401
        took.append(time.monotonic() - began)

    made([step])
    ip.events.trigger("post_execute")
    until(lambda: took)
    assert GIVE_WAY_S <= took[0] < GIVE_WAY_S + 30


def test_step_that_fails_is_left_to_the_run(ip, made, caplog):
    done = []

    def broken():
        raise ImportError("no wheel")

    with caplog.at_level(logging.WARNING):
        made([broken, lambda: done.append(1)])
        ip.events.trigger("post_execute")
        until(lambda: done)
    assert caplog.records == []


def test_where_warnings_are_errors_nothing_is_imported(ip, made):
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made([lambda: done.append(1)])
        ip.events.trigger("post_execute")
        until(lambda: not warming())
    assert done == []


def test_terminal_has_none(ip):
    before = {event: list(calls) for event, calls in ip.events.callbacks.items()}
    WarmUp(ip, [])
    assert {event: list(calls) for event, calls in ip.events.callbacks.items()} == before
