"""Loading and unloading: silent, cheap, repeatable, complete."""

import subprocess
import sys

import pytest
from IPython.core.completer import provisionalcompleter

HEAVY = {
    "anywidget",
    "ipywidgets",
    "langchain_core",
    "langchain_openai",
    "openai",
    "pandas",
    "rich",
    "ruamel",
    "xllamacpp",
}


def state(ip) -> tuple:
    """Everything of a shell that an extension can leave something in."""
    return (
        {kind: set(names) for kind, names in ip.magics_manager.magics.items()},
        set(ip.magics_manager.registry),
        [type(each).__name__ for each in ip.configurables],
        {event: list(calls) for event, calls in ip.events.callbacks.items()},
        list(ip.input_transformers_cleanup),
        list(ip.input_transformers_post),
        list(ip.Completer.custom_matchers),
        dict(ip.display_formatter.formatters),
        set(ip.user_ns),
    )


def test_loading_says_nothing_and_adds_both_magics(ip, capsys):
    ip.run_line_magic("load_ext", "ensemble_notebook")
    assert capsys.readouterr() == ("", "")
    assert {kind for kind, names in ip.magics_manager.magics.items() if "ensemble" in names} == {"line", "cell"}


def test_unloading_leaves_nothing_behind(ip):
    ip.run_line_magic("load_ext", "IPython.extensions.storemagic")  # IPython makes its own magics at first use, too
    before = state(ip)
    ip.run_line_magic("load_ext", "ensemble_notebook")
    assert state(ip) != before
    ip.run_line_magic("unload_ext", "ensemble_notebook")
    assert state(ip) == before


@pytest.mark.parametrize("again", ["load_ext", "reload_ext"])
def test_loading_again_leaves_one_of_everything(ip, again):
    ip.run_line_magic("load_ext", "ensemble_notebook")
    once = state(ip)
    ip.run_line_magic(again, "ensemble_notebook")
    assert state(ip) == once


def test_configuration_survives_loading_twice(ip):
    import ensemble_notebook

    ensemble_notebook.load_ipython_extension(ip)
    ip.run_line_magic("config", "EnsembleMagics.llm = 'scripted'")
    ensemble_notebook.load_ipython_extension(ip)
    (magics,) = [each for each in ip.configurables if type(each).__name__ == "EnsembleMagics"]
    assert magics.llm == "scripted"


def test_loading_imports_nothing_heavy():
    script = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell; before = set(sys.modules)\n"
        "ip = InteractiveShell.instance(); ip.history_manager.enabled = False\n"
        "ip.run_line_magic('load_ext', 'ensemble_notebook')\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "ensemble_notebook" in loaded.split()
    assert HEAVY.isdisjoint(loaded.split())


@pytest.mark.parametrize("cell", ["%%ensemble --help", "%%ensemble --help\n\n"])
def test_a_cell_of_options_alone_reaches_the_magic(ip, cell, capsys):
    ip.run_line_magic("load_ext", "ensemble_notebook")
    assert ip.run_cell(cell).success
    assert "--dry-run" in capsys.readouterr().out


def test_unloading_takes_the_input_transformer_out_again(ip):
    before = len(ip.input_transformers_cleanup)
    ip.run_line_magic("load_ext", "ensemble_notebook")
    ip.run_line_magic("unload_ext", "ensemble_notebook")
    assert len(ip.input_transformers_cleanup) == before


def complete(shell, line):
    with provisionalcompleter():
        return [each.text for each in shell.ip.Completer.completions(line, len(line))]


@pytest.mark.parametrize(
    "line, word", [("%ensemble ru", "runs"), ("%ensemble runs --c", "--clear"), ("%ensemble re", "resume")]
)
def test_tab_completes_sub_commands_and_their_options(shell, line, word):
    assert word in complete(shell, line)


def test_unloading_takes_the_completion_out(shell):
    shell.ip.run_line_magic("unload_ext", "ensemble_notebook")
    assert "runs" not in complete(shell, "%ensemble ru")


class BareKernel:
    """A kernel as xeus-python's: it answers Shift-Tab by itself, and takes no attributes."""

    __slots__ = ()


def test_what_a_kernel_lacks_is_left_out(ip):
    ip.kernel = BareKernel()
    for command in ("load_ext", "reload_ext", "unload_ext"):
        ip.run_line_magic(command, "ensemble_notebook")
    assert "ensemble" not in ip.magics_manager.magics["cell"]
