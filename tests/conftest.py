"""What holds for every test: hypothesis' profiles, and what a test needs.

Warnings are errors, order is random and a hanging test is cut: see `[tool.pytest]`. Each layer's fixtures are beside
its tests.
"""

import gc
import multiprocessing
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from ensemble_notebook.trace.store import run_store
from ensemble_notebook.trace.store.run_store import RunStore
from tests.support.measured_times import Watch, name_of, read_times
from tests.support.warm_kernels import serve_warm_kernels

# No deadline: two busy cores make any single example slow, and a slow example is no fault of the rule it checks.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples on every run, so that a red CI can be seen again; a blob to paste when it is not enough.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
# A few examples each, for `make quick`.
settings.register_profile("quick", settings.get_profile("ci"), max_examples=5)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell that starts the tests in the background has them ignore interrupts, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of kernels and child processes import the package: without compiled files, each takes a second longer. As the
# Makefile has it, for those who call pytest themselves.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# At its import, jsonschema has this compile 38 grammars of addresses, for seconds, and no test is about those.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# What forks processes has imported what runs need. It is one process for all tests, so that it is told here, before the
# first of them starts it.
multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.crash.warm"])

# No test fills the store of whoever runs it. Tests of the store ask for the fixture `store_path`.
os.environ["ENSEMBLE_NOTEBOOK_STORE"] = "off"

# What a test needs is seen from what it uses, so that a new one lands in the right class by itself. `make quick` leaves
# these out, and those that were measured to be slow.
NEEDS_BY_PACKAGE: Final = {"jupyter_client": "kernel", "nbclient": "kernel", "pexpect": "kernel"}
NEEDS_BY_FIXTURE: Final = {
    "browser": "browser",
    "process": "kernel",
    "warm_kernels": "kernel",
    "fetched": "weights",
    "checkout": "build",
}
REASONS: Final = ("browser", "kernel", "weights", "build", "slow")

# Files that take longer than this come before the others where whole files go to processes.
LONG_FILE_S: Final = 5.0

LEFT_OUT: Final = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", action="store_true", help="write down how long tests took, for `make quick`")
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of the tests, each with files of its own")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("measure") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Watch())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other parts."""
    if (part := config.getoption("part")) is None or (place := find_places().get(collection_path)) is None:
        return None
    which, count = map(int, part.split("/"))
    return True if place % count != which - 1 else None


@cache
def find_places() -> dict[Path, int]:
    """The files of tests in the order of their size, so that each part gets as many long ones as the others."""
    files = sorted(Path(__file__).parent.rglob("test_*.py"), key=lambda file: (file.stat().st_size, file))
    return {file: place for place, file in enumerate(files)}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the garbage collector out of what stays as long as the process: ten thousand tests, and all modules."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with what it needs: a kernel, a browser, the local model's weights, a build, or time."""
    times = read_times()
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[name_of(item.nodeid)].append(item)
        for need in find_needs(item) if isinstance(item, pytest.Function) else ():
            item.add_marker(need)
    for name in cases.keys() & times.keys():
        # By name, since their order is random, and each process has to choose the same.
        each = sorted(cases[name], key=lambda item: item.nodeid)
        for place in times[name].choose_slow(len(each)):
            each[place].add_marker("slow")
    if not config.getoption("loadscopereorder", default=True):
        file_s: defaultdict[str, float] = defaultdict(float)
        for name, time in times.items():
            file_s[name.partition("::")[0]] += time.all_s

        # Longest first, so that no process is left alone with one at the end; the short ones stay in random order. What
        # has a browser comes before all else: between others, it would be closed and started again.
        def find_place(item: pytest.Item) -> tuple[bool, float]:
            file = item.nodeid.partition("::")[0]
            return not file.startswith("tests/browser/"), -max(LONG_FILE_S, file_s[file])

        items.sort(key=find_place)


def find_needs(test: pytest.Function) -> set[str]:
    """What a test needs, by the packages that its module imports from and by its fixtures, indirect ones included."""
    needs = {NEEDS_BY_FIXTURE[name] for name in NEEDS_BY_FIXTURE.keys() & set(test.fixturenames)}
    return needs | find_needs_of_module(test.module)


@cache
def find_needs_of_module(module: ModuleType) -> frozenset[str]:
    origins = [getattr(each, "__module__", None) or getattr(each, "__name__", "") for each in vars(module).values()]
    packages = {str(origin).partition(".")[0] for origin in origins}
    return frozenset(NEEDS_BY_PACKAGE[package] for package in packages & NEEDS_BY_PACKAGE.keys())


# --- What was left out ------------------------------------------------------------------------------------------------


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count those that are left out by the first reason that each of them has."""
    if items and items[0].config.getoption("markexpr"):
        marks = [{mark.name for mark in item.iter_markers()} for item in items]
        reasons = [next(reason for reason in (*REASONS, "other") if reason in {*each, "other"}) for each in marks]
        items[0].config.stash[LEFT_OUT] = dict(Counter(reasons))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have a worker tell the process that sums up."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take it from a worker: all of them leave out the same."""
    if (left_out := getattr(node, "workeroutput", {}).get("left_out")) is not None:
        node.config.stash[LEFT_OUT] = left_out


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, and why."""
    if left_out := config.stash.get(LEFT_OUT, {}):
        counts = ", ".join(f"{left_out[reason]} {reason}" for reason in (*REASONS, "other") if reason in left_out)
        ignored = "".join(f", and all of {folder}" for folder in config.getoption("ignore") or ())
        terminalreporter.write_line(f"Left out: {counts}{ignored}. `make test` runs them all.")


@pytest.fixture(scope="session")
def kernels_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of Jupyter's path, with kernels that are there at once."""
    with serve_warm_kernels(tmp_path_factory.mktemp("kernels")) as home:
        yield home


@pytest.fixture(scope="module")
def warm_kernels(kernels_home: Path) -> Iterator[None]:
    """Have the kernels that are started here be there at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(kernels_home))
        yield


@pytest.fixture
def store_path(monkeypatch, tmp_path) -> Iterator[Path]:
    """The file of a run store of this test's own, where runs are remembered; not there yet."""
    path = tmp_path / "runs" / "runs.db"
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(path))
    # Nothing is written behind the back of a test; those of what is kept in quiet times have it begin at once.
    monkeypatch.setattr(run_store, "QUIET_S", 3600.0)
    yield path
    if (keeper := RunStore.open(path)._keeper) is not None:
        keeper.stop()
