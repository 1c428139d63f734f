"""Builds the site, offline, from what is there: the pages of docs/, the lessons, and a reference made from the code.

    python docs/site/build.py FOLDER

Pages for contributors are not in it, and links to these, and to files of the checkout, are words in it. A run in a
lesson is its static picture until the page's script makes a timeline of it; a page that nobody looks into fetches none.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

import nbformat

import ensemble_notebook
from ensemble_notebook.cell.reading.options import format_option_help

ROOT: Final = Path(__file__).parents[2]
HERE: Final = ROOT / "docs/site"
RUN: Final = "application/vnd.ensemble.trace+json"
FOR_CONTRIBUTORS: Final = frozenset(
    {"architecture.md", "conformance.md", "dependencies.md", "others.md", "performance.md", "README.md", "contract"}
)
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_PICTURE: Final = re.compile(r'<picture>\s*<source .*srcset="(.+?)">\s*<img alt="(.+?)" src="(.+?)">\s*</picture>')
_PARTS: Final = ("timeline.js", "details.js", "explorer.js", "views.js")


def make_pages(folder: Path) -> None:
    """Write everything that Sphinx reads into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    static = folder / "_static"
    shutil.copytree(HERE / "_static", static)
    shutil.copytree(HERE / "_templates", folder / "_templates")
    shutil.copy(HERE / "conf.py", folder)
    shutil.copytree(ROOT / "docs/pictures", folder / "pictures")
    for part in (*_PARTS, "timeline.css"):
        shutil.copy(ROOT / "ensemble_notebook/static" / part, static)
    (folder / "lessons").mkdir()
    (static / "runs").mkdir()
    (static / "first-run.html").write_text(write_first_run(static / "runs"))
    sources = [*(ROOT / "docs").glob("*.md"), *HERE.glob("*.md")]
    pages = {page.name for page in sources} - FOR_CONTRIBUTORS
    lessons = {path.name: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    for page in sources:
        if page.name in pages:
            (folder / page.name).write_text(keep_links(page.read_text(), pages | set(lessons)))
    for name, path in lessons.items():
        nbformat.write(make_lesson(path, static / "runs", pages | set(lessons)), folder / "lessons" / name)
    (folder / "keys.md").write_text("".join(write_keys()))
    (folder / "options.md").write_text(write_options())
    (folder / "api.md").write_text(write_api())


def keep_links(text: str, pages: set[str]) -> str:
    """A page whose links lead to pages of the site; those to anything else become words."""

    def follow(link: re.Match[str]) -> str:
        words, target = link.groups()
        if target.startswith(("#", "http", "mailto:", "pictures/")):
            return link[0]
        path, _, anchor = target.partition("#")
        name = Path(path).name
        if name not in pages or "contract/" in path:
            return words
        place = f"/lessons/{name}" if name.endswith(".ipynb") else f"/{name}"
        return f"[{words}]({place}{'#' + anchor if anchor else ''})"

    text = _PICTURE.sub(_choose_by_theme, text)
    return _LINK.sub(follow, text).replace("```yaml\n%%ensemble", "```ensemble\n%%ensemble")


def _choose_by_theme(picture: re.Match[str]) -> str:
    """Both pictures, of which the page shows that of its theme; Sphinx refuses one that is not there."""
    dark, told, light = picture.groups()
    return f'<img class="only-light" alt="{told}" src="{light}">\n\n<img class="only-dark" alt="{told}" src="{dark}">'


def make_lesson(path: Path, runs: Path, pages: set[str]) -> nbformat.NotebookNode:
    """A lesson whose runs are pictures that the page's script makes timelines of."""
    lesson = nbformat.read(path, as_version=4)
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            cell.source = keep_links(cell.source, pages)
        for output in cell.get("outputs", ()):
            if RUN in output.get("data", {}):
                name = f"{path.stem}-{cell.execution_count}.json"
                (runs / name).write_text(json.dumps(output.data.pop(RUN), separators=(",", ":")))
                output.data["text/html"] = wrap_run(name, output.data.get("text/html", ""))
    return lesson


def wrap_run(name: str, picture: str, button: str = "") -> str:
    """The place of a run in a page."""
    return f'<div class="run" data-run="{escape(name)}">{button}{picture}</div>'


def write_first_run(runs: Path) -> str:
    """The run of the first page: a picture, which a click makes a timeline, so that the page is light."""
    demo = nbformat.read(ROOT / "notebooks/00-demo.ipynb", as_version=4)
    (cell,) = (cell for cell in demo.cells if cell.source.startswith("%ensemble demo report"))
    (data,) = (output.data for output in cell.outputs if RUN in output.get("data", {}))
    (runs / "first.json").write_text(json.dumps(data[RUN], separators=(",", ":")))
    return wrap_run("first.json", data["text/html"], "<button data-explore>Explore this run</button>")


# --- The reference ----------------------------------------------------------------------------------------------------


def write_keys() -> Iterator[str]:
    """A table of the keys of each mapping of a cell, of the schema that editors read."""
    schema = json.loads((ROOT / "ensemble_notebook/ensemble-cell.schema.json").read_text())
    yield "# Keys\n\nEvery key of a cell, of the schema that editors read. [The language](cell.md) has examples.\n"
    for name, each in schema["$defs"].items():
        properties = {
            key: value
            for key, value in each.get("properties", {}).items()
            if value is not True and "description" in value
        }
        if properties:
            yield f"\n## {name.replace('_', ' ').capitalize()}\n\n| Key | Is | Default |\n|---|---|---|\n"
            yield from (write_row(key, value) for key, value in properties.items())


def write_row(key: str, value: Mapping[str, Any]) -> str:
    """The row of a key."""
    default = f"`{json.dumps(value['default'])}`" if value.get("default") not in (None, "") else ""
    told = value["description"].replace("|", "\\|").replace("{", "\\{").replace("*", "\\*")
    return f"| `{key}` | {told} | {default} |\n"


def write_options() -> str:
    """The help of the magic and of the program."""
    helps = ["run", "map", "demo", "validate", "trace", "models"]
    told = "".join(f"\n## jupyter ensemble {name}\n\n```text\n{ask(name)}```\n" for name in helps)
    return f"# Options\n\n## %%ensemble\n\n```text\n{format_option_help()}\n```\n{told}"


def ask(command: str) -> str:
    """What the program says of a command."""
    program = "from ensemble_notebook.cli.main import main; main()"
    asked = [sys.executable, "-c", program, command, "--help"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.replace(
        "usage: -c", "usage: jupyter ensemble"
    )


def write_api() -> str:
    """A page for each public name."""
    names = "\n".join(
        f"   {name}" for name in sorted(ensemble_notebook.__all__, key=str.lower) if name != "__version__"
    )
    return (
        "# Python\n\nEvery public name of the package, from its own docstrings.\n\n"
        f"```{{eval-rst}}\n.. currentmodule:: ensemble_notebook\n\n.. autosummary::\n   :toctree: api\n\n{names}\n```\n"
    )


def main(out: Path) -> int:
    """Build all of it into a folder; a mistake on any page is an error."""
    pages = out / "pages"
    make_pages(pages)
    built = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", pages, out / "html"]
    return subprocess.run(built, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
