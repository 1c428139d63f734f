"""Makes the virtual environments that tests here ask for, and writes docs/others.md of what they found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser.conftest import browser  # noqa: F401 (a fixture)
from tests.others.document import Section, write_document
from tests.others.venv import Venv, install_packages

LIMIT_S: Final = 1800  # the first test of a file waits until its packages are there

SECTIONS: Final = pytest.StashKey[dict[str, Section]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-document", action="store_true", help="write what was found into docs/others.md")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SECTIONS] = defaultdict(Section)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="module")
def make_venv(request: pytest.FixtureRequest) -> Callable[..., Venv]:
    """Makes a `Venv`; its versions come into the document."""

    def make(name: str, *packages: str, ours: str | None = "") -> Venv:
        venv = Venv(name, *packages, ours=ours)
        request.config.stash[SECTIONS][request.path.name].versions |= venv.versions
        return venv

    return make


@pytest.fixture(scope="module")
def install_node_modules(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Installs the newest versions of packages of npm, which come into the document; gives the folder of programs."""

    def install(name: str, *packages: str) -> Path:
        modules = install_packages(name, *packages)
        for each in packages:
            found = json.loads((modules / each / "package.json").read_text())
            request.config.stash[SECTIONS][request.path.name].versions[each] = found["version"]
        return modules / ".bin"

    return install


@pytest.fixture
def add_figures(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Adds a row to the table of figures in the document; whole numbers add up over rows of the same texts."""

    def add(**figures: str | int) -> None:
        row = {name.replace("_", " "): each for name, each in figures.items()}
        request.config.stash[SECTIONS][request.path.name].add_figures(row)

    return add


# --- The document -----------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report: pytest.TestReport = yield
    section = item.config.stash[SECTIONS][item.path.name]
    section.title = (getattr(item, "module", None).__doc__ or "").partition("\n")[0]
    if isinstance(item, pytest.Function):
        section.add_result(item.originalname, item.location[1] or 0, is_passed=report.passed)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-document"):
        write_document(session.config.stash[SECTIONS])
