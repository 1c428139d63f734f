"""The limits of a class in a shell: who has set them, what can't be read, and that a notebook can't change them.

Holds C122, C123 and E142.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from traitlets import TraitError
from traitlets.config import Config

from ensemble_notebook import ValidationError
from ensemble_notebook.domain.kernel_limits import kernel_limits
from ensemble_notebook.notebook.magics.kernel_settings import LIMITS

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

CELL = "%%ensemble -o report\nllm: scripted\ntasks: [Say a, Say b]\n"


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """The kernel has no limits before a test, nor after it."""
    kernel_limits.clear()
    yield
    kernel_limits.clear()


def configure(ip: InteractiveShell, **traits: object) -> None:
    ip.config.merge(Config(EnsembleMagics=traits))


def load(ip: InteractiveShell) -> None:
    from ensemble_notebook import load_ipython_extension

    load_ipython_extension(ip)


@pytest.mark.parametrize(
    "trait, value, told",
    [
        ("cell_budget", "ten cents", "'ten cents' is no limit: it needs a currency, 'tokens' or 'calls'."),
        ("kernel_budget", "€5", "this budget is in 'EUR', and the prices are in 'USD'"),
        ("day_budget", {"max_costs": 1}, "max_cost"),
        ("day_budget", 5, "5 can't be read. It is a text such as '$0.50, 20k tokens'"),
        ("class_rate_limit", "often", "'often' is no rate"),
        ("allowed_models", ["opnai:*"], "'opnai:*' begins with no kind of model. Did you mean 'openai'?"),
        ("allowed_models", ["opnai:gpt-5"], "Did you mean 'openai:gpt-5'?"),
        ("allowed_models", [], "no model is named"),
        ("allowed_models", 3, "It is a list of model specs"),
        ("recordings", "lessons", "'lessons' is no whole path"),
        ("recordings", "/nowhere/at/all", "/nowhere/at/all is no folder"),
    ],
)
def test_c123_a_value_that_can_not_be_read_names_its_place_and_leaves_nothing_loaded(ip, trait, value, told):
    configure(ip, **{trait: value})
    with pytest.raises(ValidationError) as caught:
        load(ip)
    assert str(caught.value).startswith(f"c.EnsembleMagics.{trait}: ")
    assert told in str(caught.value)
    configure(ip, **{trait: None})
    load(ip)
    assert ip.find_cell_magic("ensemble") is not None


def test_c123_a_value_of_the_environment_that_can_not_be_read_names_its_variable(ip, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DAY_BUDGET", '{"max_cost": ')
    with pytest.raises(ValidationError, match=r"^ENSEMBLE_NOTEBOOK_DAY_BUDGET: "):
        load(ip)


def test_c122_each_limit_is_read_from_configuration_or_from_its_variable_which_goes_first(ip, monkeypatch, tmp_path):
    configure(
        ip,
        cell_budget="$0.50, 20k tokens",
        kernel_budget={"max_cost": 2, "allow_unknown_cost": True},
        allowed_models=["local"],
        class_rate_limit="60/min",
    )
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_ALLOWED_MODELS", "local, openai:gpt-4.1-*")
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DAY_BUDGET", '{"max_cost": 5}')
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_RECORDINGS", str(tmp_path))
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_LLM", "scripted")
    load(ip)
    assert kernel_limits.cell_budget.limits == {"max_cost": pytest.approx(0.5), "max_tokens": 20_000}
    assert (kernel_limits.kernel_budget.is_shared, kernel_limits.kernel_budget.allow_unknown_cost) == (True, True)
    assert kernel_limits.kernel_budget.set_by == "c.EnsembleMagics.kernel_budget"
    assert kernel_limits.day_budget.set_by == "ENSEMBLE_NOTEBOOK_DAY_BUDGET"
    assert kernel_limits.allowed_models.patterns == ("local", "openai:gpt-4.1-*")
    assert kernel_limits.class_rate_limit.describe() == "60 per 60 s"
    assert kernel_limits.recordings == Path(tmp_path)
    assert ip.magics_manager.registry["EnsembleMagics"].llm == "scripted"


def test_c122_a_notebook_can_not_change_what_is_set_for_it_and_can_set_the_rest(ip, monkeypatch, caplog):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_KERNEL_BUDGET", "2 calls")
    load(ip)
    magics = ip.magics_manager.registry["EnsembleMagics"]
    ip.run_line_magic("config", "EnsembleMagics.kernel_budget = None")  # IPython logs it
    told = "EnsembleMagics.kernel_budget is set by ENSEMBLE_NOTEBOOK_KERNEL_BUDGET, and can't be changed here"
    assert told in caplog.text
    with pytest.raises(TraitError, match="can't be changed here"):
        magics.kernel_budget = "9 calls"
    with pytest.raises(TraitError, match="can't be changed here"):
        magics.kernel_budget = None
    assert kernel_limits.kernel_budget.limits == {"max_llm_calls": 2}
    ip.run_line_magic("config", "EnsembleMagics.cell_budget = '1 call'")
    assert kernel_limits.cell_budget.set_by == "%config EnsembleMagics.cell_budget"
    ip.run_line_magic("config", "EnsembleMagics.cell_budget = '2 cows'")
    assert "%config EnsembleMagics.cell_budget: 'cows' can't be limited" in caplog.text
    magics.cell_budget = None
    assert kernel_limits.cell_budget is None


def test_c122_another_setting_can_be_changed_beside_a_limit_of_a_file(ip, caplog):
    configure(ip, kernel_budget="2 calls")
    load(ip)
    ip.run_line_magic("config", "EnsembleMagics.display = 'static'")
    assert ip.magics_manager.registry["EnsembleMagics"].display == "static"
    assert not caplog.records


def test_c122_loading_again_does_not_give_a_kernel_its_budget_back(ip, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_KERNEL_BUDGET", "2 calls")
    ip.run_line_magic("load_ext", "ensemble_notebook")
    ip.run_cell(CELL)
    assert ip.user_ns["report"].status.value == "completed"
    ip.run_line_magic("unload_ext", "ensemble_notebook")
    ip.run_line_magic("load_ext", "ensemble_notebook")
    ip.run_cell(CELL)
    assert ip.user_ns["report"].status.value == "budget_exceeded"


def test_c122_the_help_of_every_limit_says_what_it_is(ip):
    load(ip)
    traits = ip.magics_manager.registry["EnsembleMagics"].traits(config=True)
    assert all(traits[name].help for name in LIMITS)


def test_e142_what_a_cell_begins_has_one_budget_together(ip, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_CELL_BUDGET", "3 calls")
    ip.run_line_magic("load_ext", "ensemble_notebook")
    ip.run_cell(
        "from ensemble_notebook import Ensemble, Task\n"
        "runs = [Ensemble(tasks=[Task.of('a')], llm='scripted').run().status.value for _ in range(4)]"
    )
    assert ip.user_ns["runs"] == [*["completed"] * 3, "budget_exceeded"]
    ip.run_cell(CELL)
    assert ip.user_ns["report"].status.value == "completed"


def test_e142_a_cell_that_names_a_model_which_is_not_allowed_is_refused(ip, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_ALLOWED_MODELS", "local")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    ip.run_line_magic("load_ext", "ensemble_notebook")
    result = ip.run_cell("%%ensemble\nllm: openai:gpt-5\ntasks: [Say a]\n")
    told = str(result.error_in_exec)
    assert "ENSEMBLE_NOTEBOOK_ALLOWED_MODELS allows local" in told
    assert "ask whoever runs this class or hub" in told


def test_e142_a_default_model_that_is_none_is_named_with_who_has_set_it(ip, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_LLM", "opnai:gpt-5")
    ip.run_line_magic("load_ext", "ensemble_notebook")
    result = ip.run_cell("%%ensemble\ntasks: [Say a]\n")
    assert "ENSEMBLE_NOTEBOOK_LLM" in str(result.error_in_exec)


def test_e142_a_dry_run_says_that_a_model_would_be_refused(ip, monkeypatch, capsys):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_ALLOWED_MODELS", "local")
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_CELL_BUDGET", "$1")
    ip.run_line_magic("load_ext", "ensemble_notebook")
    ip.run_cell("%%ensemble --dry-run\nllm: openai:nobody@http://127.0.0.1:9/v1\ntasks: [Say a]\n")
    told = capsys.readouterr().out
    assert "It would be refused: " in told
    assert "ENSEMBLE_NOTEBOOK_ALLOWED_MODELS allows local" in told
    assert "the budget that ENSEMBLE_NOTEBOOK_CELL_BUDGET sets can't be held" in told
