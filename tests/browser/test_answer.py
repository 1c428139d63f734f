"""Answers in a real JupyterLab and Notebook 7: laid out, typeset, and whatever a reply holds, only text (C30a)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import nbformat
import pytest

from ensemble_notebook import Ensemble, ScriptedChatModel, Task
from ensemble_notebook.notebook.picture.answer_picture import Answer
from tests.browser.lab import Lab, Notebook, photograph, wait_for
from tests.support.hostile_texts import KNOWN, make_hostile_texts

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import Opener

REPLY: Final = r"""# Tides

Two **high** tides a day, *about* 12 h 25 min apart; ~~always~~ mostly. Run `tides --at "West Rock"` for a table:

| Harbour    | High  |   Range |
|:-----------|:-----:|--------:|
| West Rock  | 06:12 | 4.10 m  |
| North Pier | 06:40 | $3.9$ m |

## How it comes

### Why

1. The moon pulls: $F = G\frac{m_1 m_2}{r^2}$.
2. The earth turns.
   - Springs, at *new* and *full* moon
   - Neaps

$$
\begin{align}
h(t) &= \sum_{n=1}^{N} A_n \cos(\omega_n t + \varphi_n) \\
- h(0) &= 0
\end{align}
$$

> A tide waits for no one, and $5 or $10 change nothing.

```python
def height(t: float, parts: list[Part]) -> float:
    return sum(part.size * cos(part.speed * t) for part in parts if part.size > 0)
```

3. Read [the almanac](https://almanac.example/tides).
4. See ![the chart](chart.png), and $\href{https://evil.example}{this}$.

---

That is all.
"""
SOURCES: Final = (
    "and $5 or $10 change",
    "[the almanac](https://almanac.example/tides)",
    r"$\href{https://evil.example}{this}$",
)
LAB, NOTEBOOK = "JupyterLab", "Notebook 7"
FIND_ACTIVE: Final = """() => [...document.querySelectorAll(".jp-OutputArea-output")].flatMap(output => [
    ...output.querySelectorAll("a, img, iframe, script, object, embed, form, input, link, meta, svg, video, audio, b"),
    ...[...output.querySelectorAll("*")].filter(each => [...each.attributes].some(({name}) =>
        name.startsWith("on") || ["href", "src", "id"].includes(name)))
]).map(each => each.outerHTML.slice(0, 200))"""
FIND_ACTIVE_IN_VIEW: Final = """() => [...document.querySelectorAll(".ensemble-timeline *")].filter(each =>
    each.matches("a, img, iframe, script, object, embed, form, link, meta, video, audio, math, x") ||
    [...each.attributes].some(({name}) => name.startsWith("on") || ["href", "src"].includes(name))
).map(each => each.outerHTML.slice(0, 200))"""
# The sizes of text and headings, in the order of their levels, and what code stands on.
MEASURE_LOOKS: Final = """() => {
    const answer = document.querySelector(".ensemble-answer");
    const looks = (part) => getComputedStyle(answer.querySelector(part));
    return {
        sizes: ["p", "h6", "h5", "h4"].map(part => parseFloat(looks(part).fontSize)),
        grounds: ["p code", "pre"].map(part => looks(part).backgroundColor),
    };
}"""
MEASURE_SIDES: Final = """() => [".ensemble-timeline", ".ensemble-answer"].map(part => {
    const { left, right } = document.querySelector(part).getBoundingClientRect();
    return [left, right];
})"""
COUNT_TYPESET: Final = """() => document.querySelectorAll(".jp-OutputArea-output mjx-container").length"""


COUNT_MARKED: Final = """() => document.querySelectorAll(".mathjax_process > mjx-container").length"""
SHOW_AGAIN: Final = """\
import nbformat
from IPython.display import display
display(nbformat.read("NAME", as_version=4).cells[0].outputs[0].data, raw=True)
"""


def make_notebook(path: Path, replies: list[str]) -> Path:
    """A notebook that somebody else saved, which no page trusts, and a cell that shows the same as its own output."""
    answers = [Answer(reply, "report.raw") for reply in replies]
    data = {"text/html": "".join(each.html for each in answers), "text/plain": "".join(each.plain for each in answers)}
    saved = nbformat.v4.new_code_cell("print()", outputs=[nbformat.v4.new_output("display_data", data)])
    again = nbformat.v4.new_code_cell(SHOW_AGAIN.replace("NAME", path.name))
    notebook = nbformat.v4.new_notebook(cells=[saved, again])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)
    return path


def watch(page: Page) -> list[str]:
    """What the page asks of other machines, and says in dialogs, from now on."""
    noticed: list[str] = []

    def refuse(route: Any) -> None:
        noticed.append(route.request.url)
        route.abort()

    page.route(lambda url: not url.startswith(("http://127.0.0.1", "file:", "data:", "blob:")), refuse)
    page.on("dialog", lambda dialog: (noticed.append(dialog.message), dialog.dismiss()))
    return noticed


def open_saved(page: Page, lab: Lab, where: str, replies: list[str]) -> Notebook:
    lab.wear("light")
    path = make_notebook(lab.work / f"answers-{len(list(lab.work.iterdir()))}.ipynb", replies)
    notebook = Notebook(page, lab.url(path) if where == LAB else lab.notebook_7_url(path), path)
    notebook.open()
    return notebook


@pytest.mark.parametrize("where", [LAB, NOTEBOOK])
def test_an_answer_is_laid_out_and_its_formulas_are_typeset_c30a(page: Page, lab: Lab, where: str) -> None:
    noticed = watch(page)
    notebook = open_saved(page, lab, where, [REPLY])
    wait_for(lambda: page.evaluate(COUNT_TYPESET) == 3, 60)
    for theme in ("light", "dark"):
        notebook.wear(theme)
        for text in SOURCES:
            assert text in notebook.output(0)
        looks = page.evaluate(MEASURE_LOOKS)
        text, *headings = looks["sizes"]
        assert text <= headings[0] < headings[1] < headings[2]
        assert "rgba(0, 0, 0, 0)" not in looks["grounds"]
        assert page.evaluate(COUNT_TYPESET) == 3
        assert page.evaluate(FIND_ACTIVE) == []
        photograph(f"answer-{where.replace(' ', '-').lower()}-{theme}", notebook.outputs(0))
    assert noticed == []
    notebook.shut_down()


def test_an_answer_is_as_wide_as_the_timeline_above_it_c30a(open_in_window: Opener) -> None:
    setup = (
        "%load_ext ensemble_notebook\nimport ensemble_notebook\nm = ensemble_notebook.ScriptedChatModel(default='Ebb')"
    )
    notebook = open_in_window(setup, "%%ensemble\nllm: m\ntasks: [Say a word]")
    notebook.run_to_end(0, 1)
    notebook.outputs(1).locator(".ensemble-answer").wait_for()
    timeline, answer = notebook.page.evaluate(MEASURE_SIDES)
    assert answer == pytest.approx(timeline, abs=1)


@pytest.mark.parametrize("where", [LAB, NOTEBOOK])
def test_nothing_comes_of_a_hostile_reply_c30a(page: Page, lab: Lab, where: str) -> None:
    noticed = watch(page)
    notebook = open_saved(page, lab, where, [*KNOWN, *make_hostile_texts(300, seed=1), "the end $x$"])
    for number in (0, 1):  # as a stranger's output, and as one of this kernel
        if number:
            notebook.run_to_end(number)
        wait_for(notebook.outputs(number).locator("mjx-container").last.is_visible, 60)
        assert "alert(1)" in notebook.output(number)
        assert page.evaluate(COUNT_TYPESET) == page.evaluate(COUNT_MARKED) > 1
        assert page.evaluate(FIND_ACTIVE) == []
    assert noticed == []
    notebook.shut_down()


def test_nothing_comes_of_hostile_texts_in_the_timeline_of_an_exported_page_c30a(page: Page, tmp_path: Path) -> None:
    texts = [*KNOWN[::4], *make_hostile_texts(40, seed=3)]
    models = [ScriptedChatModel(default=text) for text in texts]
    tasks = [Task.of("Say {w}", name=f"say{place}", llm=model) for place, model in enumerate(models)]
    tasks += [Task.of("Do", name=f"do{place}", handler=lambda _, text=text: text) for place, text in enumerate(texts)]
    run = Ensemble(tasks=tasks, name=texts[0], workflow="parallel").run(w="\n\n".join(texts))
    noticed = watch(page)
    page.goto(run.export(tmp_path / "run.html").as_uri())
    timeline = page.locator(".ensemble-timeline")
    timeline.get_by_text("say0", exact=True).first.click()  # a slow run has its pin in the middle of the row
    page.keyboard.press("Enter")
    drawer = timeline.locator(".et-drawer")
    drawer.wait_for(timeout=20_000)
    for _ in range(20):
        for tab in drawer.get_by_role("tab").all():
            tab.click()
            assert page.evaluate(FIND_ACTIVE_IN_VIEW) == []
        drawer.get_by_role("button", name="Next span").click()
    for place in range(20):  # tooltips
        timeline.locator(".et-canvas").hover(position={"x": 20 + 20 * place, "y": 20 + 10 * place})
        assert page.evaluate(FIND_ACTIVE_IN_VIEW) == []
    timeline.get_by_text("say0", exact=True).first.click()  # a slow run has its pin in the middle of the row
    page.keyboard.press("t")
    assert page.evaluate(FIND_ACTIVE_IN_VIEW) == []
    assert noticed == []
