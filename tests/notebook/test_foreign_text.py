"""Wherever a text of a model, a tool or a person becomes part of a page of ours, it is text, and no formula (C30a)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import nbformat
import pytest
from nbconvert import HTMLExporter, MarkdownExporter

from ensemble_notebook import Ensemble, EnsembleOutput, ScriptedChatModel, Task
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.notebook.live.mistake_page import make_html
from tests.notebook.conftest import Shell
from tests.notebook.test_answer_html import READERS
from tests.support.hostile_texts import KNOWN, PAYLOADS, Page, make_hostile_texts

TEXTS: Final = (*PAYLOADS, *(f"${payload}$" for payload in PAYLOADS), *KNOWN[::5], *make_hostile_texts(40, seed=2))
ATTRIBUTES: Final = {"style", "colspan", "open", "role", "aria-label"}


def run(text: str, reply: str = "well") -> EnsembleOutput:
    """A run that has the text for its name, an input, a reply, an output, what a tool gave, and an error."""

    def do(_task: object) -> str:
        return text

    def fail(_task: object) -> str:
        raise ValueError(text)

    tasks = [
        Task.of("Say {word}", name="say", llm=ScriptedChatModel(default=f"{text} {reply}")),
        Task.of("Do", name="do", handler=do, context=["say"]),
        Task.of("Fail", name="fail", handler=fail),
    ]
    return Ensemble(tasks=tasks, name=text, error_strategy="partial").run(word=text)


def make_pages(text: str) -> Iterator[str]:
    """What is shown of it, as HTML, place by place."""
    one, two = run(text), run(text, "better")
    diff = one.diff(two)
    for shown in (one, one.plan, diff, diff.outputs, diff.definition, diff.timeline):
        bundle = shown._repr_mimebundle_()
        yield (bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"]
    ensemble = Ensemble(tasks=[Task.of("Say {word}", name="say", llm=ScriptedChatModel(default=text))])
    yield ensemble.map([{"word": text, text[:30]: 1}])._repr_mimebundle_()["text/html"]
    with pytest.raises(CellError) as caught:
        read_cell(f"tasks:\n  a: {{description: A, agnt: {text!r}}}\n{text}", {})
    yield make_html(caught.value)


def list_active(html: str) -> list[str]:
    """What is active in it, without what may be longer for a longer text: the lines of a plan are drawings of ours."""
    return [each.partition("=")[0] for each in Page(html).find_active()]


def list_attributes(html: str) -> set[str]:
    return {name for _, attributes in Page(html).elements for name, _ in attributes}


def assert_is_text(html: str, text: str, usual: str = "") -> None:
    """It has nothing in it that the page of a usual text has not."""
    assert list_active(html) == list_active(usual), text
    assert list_attributes(html) <= ATTRIBUTES | list_attributes(usual), text
    assert Page(html).formulas == [], text


def test_a_text_is_text_in_pictures_comparisons_maps_and_mistakes_c30a(store_path: Path, shell: Shell) -> None:
    usual = list(make_pages("word"))
    for text in TEXTS:
        for html, plain in zip(make_pages(text), usual, strict=True):
            assert_is_text(html, text, plain)
    for line in ("runs -n 60", "runs --compare -n 20"):
        result = shell.run(f"%ensemble {line}").result
        html = result._repr_html_() if hasattr(result, "_repr_html_") else result._repr_mimebundle_()["text/html"]
        assert_is_text(html, line)


def test_no_renderer_finds_more_in_what_a_notebook_saved_of_them_c30a(store_path: Path, shell: Shell) -> None:
    saved, usual = (make_notebook(texts) for texts in (TEXTS[::4], ["word"] * len(TEXTS[::4])))
    active, plain = (list_active(HTMLExporter().from_notebook_node(each)[0]) for each in (saved, usual))
    assert active == plain
    exported, as_usual = (MarkdownExporter().from_notebook_node(each)[0] for each in (saved, usual))
    for render in READERS.values():
        assert list_active(str(render(exported))) == list_active(str(render(as_usual)))


def make_notebook(texts: Sequence[str]) -> nbformat.NotebookNode:
    """A notebook with all that is shown of these."""
    pages = [html for text in texts for html in make_pages(text)]
    outputs = [nbformat.v4.new_output("display_data", {"text/html": html}) for html in pages]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("say", id="say", outputs=outputs)])


def test_a_text_is_data_in_an_exported_page_c30a(store_path: Path, tmp_path: Path) -> None:
    usual = Page(run("word").export(tmp_path / "usual.html").read_text(encoding="utf-8")).find_active()
    for text in TEXTS[::3]:
        page = run(text).export(tmp_path / "run.html").read_text(encoding="utf-8")
        assert Page(page).find_active() == usual, text
