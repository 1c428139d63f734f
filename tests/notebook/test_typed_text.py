"""The magic reads what was typed, whatever IPython does to the lines of other cells (C12)."""

import ast
import io

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient

from tests.notebook.test_cell_help import complete, inspect
from tests.support.kernel import LIMIT_S, Kernel

pytestmark = pytest.mark.usefixtures("warm_kernels")

DOCTEST = """\
- description: |
    Say what this prints:
      >>> for each in 1, 2:
      ...     print(each)
      1

    >>> {x}
"""
FOLDED = '- {description: "Say what this prints:\n      >>> print({x})\n      ... and why"}\n'
PROMPTS = "- description: |\n    ...: is a mark\n    In [1]: x = {x}\n    ...: y\n"
TEXTS = {
    DOCTEST: "Say what this prints:\n  >>> for each in 1, 2:\n  ...     print(each)\n  1\n\n>>> {x}",
    FOLDED: "Say what this prints: >>> print({x}) ... and why",
    PROMPTS: "...: is a mark\nIn [1]: x = {x}\n...: y",
}
FIRST = "%%ensemble --define -o team"


def indent(mark: str, text: str) -> str:
    return "".join(mark + line for line in text.splitlines(keepends=True))


DOORS = {
    "a cell": lambda ip, cell: ip.run_cell(cell, store_history=True),
    "no history": lambda ip, cell: ip.run_cell(cell, store_history=False),
    "silent": lambda ip, cell: ip.run_cell(cell, silent=True),
    "blank lines": lambda ip, cell: ip.run_cell(f"\n \n{cell}"),
    "indented": lambda ip, cell: ip.run_cell(indent("    ", cell)),
    "below capture": lambda ip, cell: ip.run_cell(f"%%capture\n{cell}"),
    "below two": lambda ip, cell: ip.run_cell(f"%%time\n\n%%capture out\n{cell}"),
    "an alias": lambda ip, cell: ip.run_cell(cell.replace("%%ensemble", "%%crew")),
    "code": lambda ip, cell: ip.run_cell(f"get_ipython().run_cell_magic('ensemble', {FIRST[11:]!r}, {cell[28:]!r})"),
    "run inside a cell": lambda ip, cell: ip.run_cell(f"get_ipython().run_cell({cell!r})"),
    "pasted from IPython": lambda ip, cell: ip.run_cell("In [1]: " + indent("   ...: ", cell)[8:]),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("door", DOORS)
def test_prompt_marks_in_a_text_are_the_texts_own(shell, door, text):
    shell.run("%alias_magic -c crew ensemble")
    shell.run("%%ensemble --define -o before\n- Say what 1 + 1 is: >>> 1 + 1")
    DOORS[door](shell.ip, f"{FIRST}\n{text}")
    assert shell.names["team"].tasks[0].description == TEXTS[text]


def test_notebook_run_in_a_cell_gets_its_text_as_typed(shell, tmp_path):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"{FIRST}\n{DOCTEST}")])
    nbformat.write(book, tmp_path / "team.ipynb")
    shell.run(f"%run {tmp_path / 'team.ipynb'}")
    assert shell.names["team"].tasks[0].description == TEXTS[DOCTEST]


def test_magic_called_by_code_gets_the_text_of_no_other_cell(shell):
    shell.ip.run_cell(f"{FIRST}\n- '>>> print(2)'", store_history=True)
    shell.run("get_ipython().run_cell_magic('ensemble', '--define -o team', '- print(2)')")
    assert shell.names["team"].tasks[0].description == "print(2)"


LINES = st.lists(
    st.sampled_from(
        ["  >>> x", ">>> x", "... x", "  ... x", "   ...: x", "In [2]: x", '"""', "'''", "", "%%ensemble", "x?"]
    )
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES)
def test_body_comes_as_typed_however_it_is_written(shell, lines):
    body = "\n".join(["- x", *lines, ""])
    call = ast.parse(shell.ip.transform_cell(f"%%ensemble -o team\n{body}"), mode="eval").body
    assert [ast.literal_eval(each) for each in call.args] == ["ensemble", "-o team", body]


def test_other_cells_are_read_as_ipython_reads_them(shell):
    assert shell.run(">>> x = 1\n... y = 2").success
    assert shell.ip.transform_cell("%%time\n>>> x") == "get_ipython().run_cell_magic('time', '', 'x\\n')\n"


def test_mistake_below_a_prompt_mark_is_told_in_the_line_as_typed(shell, capsys):
    shell.run(f"{FIRST}\n- description: |\n      >>> x\n  agnt: Ann")
    assert "line 3" in (shown := capsys.readouterr().out)
    assert "    3 |   agnt: Ann\n      |   ^^^^\n" in shown


@pytest.fixture(scope="module")
def kernel(process):
    made = Kernel(*process)
    made.run("%load_ext ensemble_notebook")
    return made


@pytest.mark.parametrize("above", ["", "%%capture\n"])
@pytest.mark.parametrize("text", TEXTS)
def test_kernel_reads_what_was_typed(kernel, above, text):
    _, reply = kernel.run(f"{above}{FIRST}\n{text}")
    assert reply["status"] == "ok"
    assert ast.literal_eval(f"'{kernel.value('team.tasks[0].description')}'") == TEXTS[text]


def test_help_while_such_a_cell_is_typed(kernel):
    cell = f"%%capture\n%%ensemble\n{DOCTEST}  "
    assert complete(kernel, f"{cell}hand^") == (["handler"], "hand")
    assert complete(kernel, "%%capture\n%%ensemble --dry^\n- Say hello") == (["--dry-run"], "--dry")
    assert "handler" in inspect(kernel, f"{cell}hand^ler: x")["data"]["text/plain"]


def test_notebook_run_without_a_browser_reads_what_was_typed(tmp_path):
    sources = ["%load_ext ensemble_notebook", f"{FIRST}\n{DOCTEST}", "print(team.tasks[0].description)"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in sources])
    NotebookClient(book, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert book.cells[2].outputs[0].text == TEXTS[DOCTEST] + "\n"


@pytest.mark.parametrize("above", ["", "%%capture\n"])
def test_cell_typed_line_by_line_is_complete_after_an_empty_line(shell, above):
    lines = io.StringIO(f"{above}{FIRST}\n{DOCTEST.replace(chr(10) * 2, chr(10))}").readlines()
    for number in range(1, len(lines) + 1):
        assert shell.ip.check_complete("".join(lines[:number]).rstrip("\n"))[0] == "incomplete"
    assert shell.ip.check_complete("".join(lines) + "\n")[0] == "complete"
