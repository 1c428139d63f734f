"""An answer as HTML of our own: its formatting is kept, and the rest of it is text, all of which is seen (C30a)."""

from __future__ import annotations

import re
from typing import Final

import mistune
import nbformat
import pytest
from markdown_it import MarkdownIt
from nbconvert import HTMLExporter, MarkdownExporter

from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.answer_html import write_answer
from ensemble_notebook.notebook.picture.answer_picture import Answer
from tests.support.hostile_texts import KNOWN, Page, make_hostile_texts

TYPESET: Final = "mathjax_process tex2jax_process"
# All that may ever be written: tags told letter by letter, characters without a meaning, and numbers of others.
ALPHABET: Final = re.compile(
    r'(?:</?(?:p|h[1-6]|ul|ol|li|blockquote|table|thead|tbody|tr|strong|em|s|code|pre|span|div)>|</t[dh]>|<br>|<hr>'
    r'|<t[dh] style="text-align:(?:left|center|right)">|<ul style="list-style:none">'
    r'|<span style="float:left;min-width:1\.6em;margin-left:-2em;text-align:right">'
    r'|<div style="opacity:0\.7;font-size:85%">'
    r'|<h[456] style="font-size:(?:1|1\.15|1\.3)em;font-style:normal;font-weight:600;margin:0\.8em 0 0\.4em">'
    r'|<code style="background:(?:none;padding:0|rgba\(128,128,128,0\.15\);border-radius:4px;padding:1px 4px)">'
    r'|<pre style="background:rgba\(128,128,128,0\.08\);border:1px solid rgba\(128,128,128,0\.35\);border-radius:6px;'
    r'padding:9px 12px">'
    rf'|<div class="ensemble-answer mathjax_ignore tex2jax_ignore">|<(?:span|div) class="{TYPESET}">'
    r"|[A-Za-z0-9 ]|[^\x00-\x7f]|&#[0-9]{1,3};)*+"
)  # fmt: skip
HARMFUL: Final = re.compile(
    r"\\(?:href|url|style|class|cssId|require|def|newcommand|includegraphics|unicode|ref|x)\b|%"
)
SEEN: Final = "<&$%([]{\"'/@;?,^!"
"""Marks that never format anything, so that each is seen as often as it was written."""

FUZZED: Final = tuple(make_hostile_texts(600))
# The readers of the Markdown that a notebook may be exported to, with everything on.
READERS: Final = {
    "markdown-it": MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render,
    "mistune": mistune.create_markdown(escape=False, plugins=["strikethrough", "table", "url", "footnotes", "math"]),
}


def body(markdown: str) -> str:
    """What is written inside the element that holds all of it."""
    html = write_answer(markdown)
    start, end = '<div class="ensemble-answer mathjax_ignore tex2jax_ignore">', "</div>"
    assert html.startswith(start)
    assert html.endswith(end)
    return html[len(start) : -len(end)]


def show(markdown: str) -> str:
    """The same with characters in place of their numbers, no element around a single one, and no looks of ours."""
    html = re.sub(r"<span>(&#[0-9]+;)</span>", r"\1", body(markdown))
    html = re.sub(r'<(h[456]|code|pre) style="[^"]*">', r"<\1>", html)
    return re.sub("&#([0-9]+);", lambda match: chr(int(match[1])), html)


def write_notebook(bundles: list[dict[str, str]]) -> nbformat.NotebookNode:
    outputs = [nbformat.v4.new_output("display_data", bundle) for bundle in bundles]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("say", id="say", outputs=outputs)])


def make_bundles(texts: tuple[str, ...]) -> list[dict[str, str]]:
    answers = [Answer(text, "report.raw") for text in texts]
    return [{"text/html": answer.html, "text/plain": answer.plain} for answer in answers]


@pytest.mark.parametrize("texts", [KNOWN, FUZZED], ids=["known", "fuzzed"])
def test_what_is_written_is_of_a_fixed_alphabet_c30a(texts: tuple[str, ...]) -> None:
    assert [text for text in texts if not ALPHABET.fullmatch(write_answer(text))] == []


@pytest.mark.parametrize("texts", [KNOWN, FUZZED], ids=["known", "fuzzed"])
def test_no_formula_is_found_but_harmless_ones_that_we_mark_c30a(texts: tuple[str, ...]) -> None:
    pages = {text: Page(write_answer(text)) for text in texts}
    assert [text for text, page in pages.items() if not all(is_wanted for _, is_wanted in page.formulas)] == []
    assert [text for text, page in pages.items() for each, _ in page.formulas if HARMFUL.search(each)] == []


@pytest.mark.parametrize("texts", [KNOWN, FUZZED], ids=["known", "fuzzed"])
def test_every_character_of_the_text_is_seen_c30a(texts: tuple[str, ...]) -> None:
    for text in texts:
        seen = Page(write_answer(text)).text
        assert [each for each in seen if each.isalpha()] == [each for each in text if each.isalpha()], text
        assert {mark: seen.count(mark) for mark in SEEN} == {mark: text.count(mark) for mark in SEEN}, text


@pytest.mark.parametrize("texts", [KNOWN, FUZZED], ids=["known", "fuzzed"])
def test_no_renderer_finds_more_in_a_saved_notebook_than_in_one_of_plain_words_c30a(texts: tuple[str, ...]) -> None:
    hostile, plain = (write_notebook(make_bundles(each)) for each in (texts, ("word",)))
    pages = [HTMLExporter(template_name=name).from_notebook_node(hostile)[0] for name in ("lab", "classic")]
    usual = [HTMLExporter(template_name=name).from_notebook_node(plain)[0] for name in ("lab", "classic")]
    for page, expected in zip(pages, usual, strict=True):
        assert Page(page).find_active() == Page(expected).find_active()
    exported, _ = MarkdownExporter().from_notebook_node(hostile)
    for render in READERS.values():
        assert Page(str(render(exported))).find_active() == []


def test_formatting_is_kept() -> None:
    assert show("# Title\n\n**bold** _it_ ~~no~~ `List<int>`, a < b") == (
        "<h4>Title</h4><p><strong>bold</strong> <em>it</em> <s>no</s> <code>List<int></code>, a < b</p>"
    )
    assert show("- one\n- two\n\n> quote\n\n---\n\na  \nb") == (
        "<ul><li>one</li><li>two</li></ul><blockquote><p>quote</p></blockquote><hr><p>a<br>b</p>"
    )
    assert show("```py\nif a<b:\n    pass\n```") == (
        '<div style="opacity:0.7;font-size:85%">py</div><pre><code>if a<b:\n    pass\n</code></pre>'
    )


def test_cells_are_aligned_and_those_without_a_column_are_shown() -> None:
    left, right = ('<td style="text-align:left">', '<td style="text-align:right">')
    assert show("| a | n |\n|---|--:|\n| b | 1 | `x \\| y` |\n| c |").endswith(
        f"<tbody><tr>{left}b</td>{right}1</td>{left}<code>x | y</code></td></tr>"
        f"<tr>{left}c</td>{right}</td></tr></tbody></table>"
    )
    assert "<p>secret</p>" not in show("> | a |\n> |---|\n> | b | secret |")
    assert f"{left}secret</td>" in show("> | a |\n> |---|\n> | b | secret |")


def test_links_images_html_and_entities_show_as_they_were_written() -> None:
    text = '[x](//evil.example/y) ![i](j.png) <b onclick="x">&lt;</b> <http://x.example> [r]\n\n[r]: http://x.example'
    assert show(text) == "<p>" + text.replace("\n\n", "</p><p>") + "</p>"


@pytest.mark.parametrize(
    "numbers, shown",
    [
        ((1, 2, 3), "<ol><li>a</li><li>a</li><li>a</li></ol>"),
        ((1, 1, 1), "<ol><li>a</li><li>a</li><li>a</li></ol>"),
        ((4,), "4."),
        ((1, 3), "3."),
    ],
)
def test_a_list_has_the_numbers_that_were_written(numbers: tuple[int, ...], shown: str) -> None:
    assert shown in show("\n".join(f"{number}. a" for number in numbers))


def test_what_is_nested_too_deep_is_shown_as_it_was_written() -> None:
    for text in (
        ">" * 500 + " deep",
        "- " * 500 + "deep",
        "1. " * 500 + "deep",
        "*a **b " * 200 + "deep" + "** *" * 200,
    ):
        html = write_answer(text)
        assert "deep" in Page(html).text
        assert Page(html).text.count("a") == text.count("a")
        depth = 0
        for tag in re.findall("</?[a-z]+", html.replace("<br>", "").replace("<hr>", "")):
            depth += -1 if tag.startswith("</") else 1
            assert depth < 100


@pytest.mark.parametrize(
    "text, formula",
    [
        ("Area $\\pi r^2$.", "$\\pi r^2$"),
        ("$$\n\\frac{a}{b}\n= c\n$$", "$$\n\\frac{a}{b}\n= c\n$$"),
        ("a $$x$$ b", "$$x$$"),
        ("\\\\(a\\\\)", "\\(a\\)"),
        ("\\\\[\na\n\\\\]", "\\[\na\n\\]"),
        (
            "so\n\\begin{align}\n- a &= b \\\\\n+ c\n\\end{align}\nthen",
            "\\begin{align}\n- a &= b \\\\\n+ c\n\\end{align}",
        ),
        ("- a\n  $$\n  - b\n  $$", "$$\n- b\n$$"),
        ("> $$\n> - b\n> $$", "$$\n- b\n$$"),
        ("\\begin{cases}\\begin{cases}a\\end{cases}\\end{cases}",) * 2,
    ],
)
def test_harmless_formulas_are_typeset_c30a(text: str, formula: str) -> None:
    assert re.search(rf'<(span|div) class="{TYPESET}">{re.escape(formula)}</\1>', show(text))


@pytest.mark.parametrize(
    "formula",
    [
        *(r"\href{x}{y}", r"\url{x}", r"\style{x}{y}", r"\class{x}{y}", r"\cssId{x}{y}", r"\require{x}", r"\def\x{y}"),
        *(r"\newcommand{\x}{y}", r"\includegraphics{x}", r"\unicode{65}", r"\phantom{x}", r"\color{red}{x}"),
        *(r"\tag{x}", r"\label{x}", r"\ref{x}", r"\hspace{9em}", r"\rlap{x}", r"\begin{x}y\end{x}", r"\let\x\y"),
        *(r"\mmlToken{mi}{x}", r"\begin x"),
        *("a % hidden", "a #1", "{a", "a}{", "{" * 20 + "}" * 20, r"\alpha\href{x}{y}", r"\text{\href{x}{y}}"),
    ],
)  # fmt: skip
def test_other_formulas_show_as_their_source_c30a(formula: str) -> None:
    for opening, closing in (
        ("$", "$"),
        ("$$", "$$"),
        ("$$\n", "\n$$"),
        (r"\\(", r"\\)"),
        ("\\begin{align}", "\\end{align}"),
    ):
        text = opening + formula + closing
        assert TYPESET not in body(text)
        assert formula in show(text)


@pytest.mark.parametrize(
    "text", ["$5 and $10", "from $5 to $6 or so", "$HOME/$USER", "a$b$c", "$ x $", "$$\n\n$$", "$a `$` b"]
)
def test_amounts_of_money_are_no_formulas(text: str) -> None:
    assert TYPESET not in body(text)
    assert Page(body(text)).text.count("$") == text.count("$")


def test_characters_that_a_page_does_not_show_are_pictures() -> None:
    assert show("a\x00b\x1b[31mc\x9b\x7f\r\nd\te") == "<p>a\u2400b\u241b[31mc\ufffd\u2421\nd\te</p>"


def test_terminal_text_has_no_control_characters() -> None:
    assert remove_control_characters("a\x1b]0;title\x07b\x9b31m\r\n\tc") == "a]0;titleb31m\n\tc"
