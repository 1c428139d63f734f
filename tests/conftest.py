"""What holds for every test: hypothesis' profiles, and what a test needs.

Warnings are errors, order is random and a hanging test is cut: see `[tool.pytest]`. Each layer's fixtures are beside
its tests.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from ensemble_notebook.trace.store import table_keeper
from ensemble_notebook.trace.store.run_store import RunStore

# No deadline: two busy cores make any single example slow, and a slow example is no fault of the rule it checks.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples on every run, so that a red CI can be seen again; a blob to paste when it is not enough.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
# A few examples each, for `make quick`.
settings.register_profile("quick", settings.get_profile("ci"), max_examples=5)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# No test fills the store of whoever runs it. Tests of the store ask for the fixture `store_path`.
os.environ["ENSEMBLE_NOTEBOOK_STORE"] = "off"

# What a test needs is seen from what it uses, so that a new one lands in the right class by itself. `make quick` leaves
# these out, and those that are marked as slow by hand.
NEEDS_BY_PACKAGE: Final = {"jupyter_client": "kernel", "nbclient": "kernel", "pexpect": "kernel"}
NEEDS_BY_FIXTURE: Final = {"browser": "browser", "fetched": "weights", "checkout": "slow"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with what it needs: a kernel, a browser, the local model's weights, or time."""
    for item in items:
        if isinstance(item, pytest.Function):
            for need in find_needs(item):
                item.add_marker(need)


def find_needs(test: pytest.Function) -> set[str]:
    """The marks of a test, by the packages that its module imports from and by its fixtures, indirect ones included."""
    values = vars(test.module).values()
    packages = {
        (getattr(each, "__module__", None) or getattr(each, "__name__", "")).partition(".")[0] for each in values
    }
    needs = {NEEDS_BY_PACKAGE[package] for package in packages & NEEDS_BY_PACKAGE.keys()}
    return needs | {NEEDS_BY_FIXTURE[name] for name in NEEDS_BY_FIXTURE.keys() & set(test.fixturenames)}


@pytest.fixture
def store_path(monkeypatch, tmp_path) -> Iterator[Path]:
    """The file of a run store of this test's own, where runs are remembered; not there yet."""
    path = tmp_path / "runs" / "runs.db"
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(path))
    # Nothing is written behind the back of a test; those of what is kept in quiet times have it begin at once.
    monkeypatch.setattr(table_keeper, "QUIET_S", 3600.0)
    yield path
    if (keeper := RunStore.open(path)._keeper) is not None:
        keeper.stop()
