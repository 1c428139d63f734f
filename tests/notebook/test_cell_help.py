"""Tab and Shift-Tab in a `%%ensemble` cell, asked of a real kernel (C20, C21)."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter

from tests.support.kernel import Kernel

CELL = """%%ensemble -o report
agents:
  Writer: {goal: Write}
  Reader: {goal: Read}
tasks:
  facts: List facts about tides
  draft:
    description: Write a draft
    context: [f^]
    agent: Writer
"""


@pytest.fixture(scope="module")
def kernel(process):
    made = Kernel(*process)
    made.run("%load_ext ensemble_notebook\ndef look(task): return 'x'\ntopic = 'tides'")
    return made


def complete(kernel: Kernel, marked: str) -> tuple[list[str], str]:
    """The matches, and what of the cell they replace."""
    code, caret = marked.replace("^", "", 1), marked.index("^")
    reply = kernel.reply(kernel.client.complete(code, caret))
    return reply["matches"], code[reply["cursor_start"] : reply["cursor_end"]]


def inspect(kernel: Kernel, marked: str) -> dict[str, Any]:
    return kernel.reply(kernel.client.inspect(marked.replace("^", "", 1), marked.index("^")))


@pytest.mark.parametrize(
    "written, matches, replaced",
    [
        ("context: [f^]", ["facts"], "f"),
        ("agent: ^", ["Writer", "Reader"], ""),
        ("hand^", ["handler"], "hand"),
        ("handler: lo^", ["look"], "lo"),
        ("reuse: n^", ["never"], "n"),
        ("expected_output: 'All of {to^", ["topic"], "to"),
    ],
)
def test_tab_completes_what_is_at_the_caret(kernel, written, matches, replaced):
    assert complete(kernel, CELL.replace("context: [f^]", written)) == (matches, replaced)


def test_tab_completes_the_first_line(kernel):
    assert complete(kernel, "%%ensemble --dry^\n- Say hello") == (["--dry-run"], "--dry")
    assert "topic" in complete(kernel, "%%ensemble -i town=Bath\n- Say {to^")[0]
    assert "town" in complete(kernel, "%%ensemble -i town=Bath\n- Say {to^")[0]


def test_other_cells_are_completed_as_ever(kernel):
    assert "topic" in complete(kernel, "topi^")[0]
    assert "handler" not in complete(kernel, "%%time\nhand^")[0]


def test_shift_tab_explains_a_key(kernel):
    reply = inspect(kernel, CELL.replace("context: [f^]", "max_re^tries: 3"))
    assert reply["found"]
    assert "(of a task): tries again after a passing failure" in reply["data"]["text/plain"]
    assert inspect(kernel, "look^")["found"]
    assert not inspect(kernel, "%%ensemble\n- Say hello unheard^")["found"]


def test_unloading_takes_it_back_and_reloading_adds_it_once(ip):
    def texts() -> list[str]:
        with provisionalcompleter():
            return [each.text for each in ip.Completer.completions("%%ensemble\nworkf", 16)]

    for _ in range(2):
        ip.run_line_magic("load_ext", "ensemble_notebook")
        ip.run_line_magic("reload_ext", "ensemble_notebook")
        assert texts() == ["workflow"]
        assert len(ip.Completer.custom_matchers) == 1
        ip.run_line_magic("unload_ext", "ensemble_notebook")
        assert texts() == []
        assert ip.Completer.custom_matchers == []


def test_kernel_is_as_it_was_once_the_extension_is_unloaded(kernel):
    kernel.run("%unload_ext ensemble_notebook")
    assert kernel.value("'do_inspect' in vars(get_ipython().kernel)") == "False"
    kernel.run("%load_ext ensemble_notebook")  # for the other tests, which come in any order
