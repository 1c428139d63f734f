"""A provider of one's own: one class and one line in the table of kinds, and everything knows it.

The class here stands for what a module of a new provider would hold; see "A model provider" in docs/architecture.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook import Agent, Ensemble, Task, ValidationError
from ensemble_notebook.cell.writing.editor_schema import write_editor_schema
from ensemble_notebook.cli.main import main
from ensemble_notebook.models import model_kinds
from ensemble_notebook.models.model_spec import (
    MadeModel,
    ModelIdentity,
    ModelParameters,
    ModelSpec,
    Notice,
    SpecForm,
    make_spec_error,
)
from tests.support.cell import mistakes_of, read
from tests.support.openai_server import Answer, OpenAIServer

ROOT = Path(__file__).parents[2]
NAME = "claude-3-5-haiku-20241022"
SPEC = f"lighthouse:{NAME}"
KEY = "a-key-of-a-test-provider"


class ChatClaude(ChatOpenAI):
    """A chat model of LangChain that says whose it is."""

    def _get_ls_params(self, stop: list[str] | None = None, **options: Any) -> Any:
        return {**super()._get_ls_params(stop, **options), "ls_provider": "anthropic"}


@dataclass(frozen=True, slots=True)
class LighthouseSpec(ModelSpec):
    """A model of the Lighthouse, which serves those of Anthropic."""

    words: ClassVar = ("lighthouse",)
    forms: ClassVar = ("lighthouse:NAME",)
    examples: ClassVar = (SPEC,)

    name: str
    variable: str = "LIGHTHOUSE_API_KEY"

    @classmethod
    def read(cls, word: str, rest: str | None) -> Self | None:
        return cls(rest) if rest else None

    @property
    def text(self) -> str:
        return f"lighthouse:{self.name}"

    @property
    def key_variable(self) -> str:
        return self.variable

    def with_key_variable(self, variable: str) -> Self:
        return replace(self, variable=variable)

    def check(self) -> None:
        if not os.environ.get(self.variable):
            raise make_spec_error(f"The model {self.text!r} needs a key in {self.variable}.")

    def identify(self, parameters: ModelParameters) -> ModelIdentity:
        return ModelIdentity(self.name, "anthropic", parameters.max_tokens)

    async def open(self, parameters: ModelParameters, notice: Notice) -> MadeModel:
        notice("Loading the client of the Lighthouse ...")
        key: Any = os.environ[self.variable]
        url = os.environ["LIGHTHOUSE_BASE_URL"]
        return MadeModel(
            key=(self, url, repr(parameters.settings)),
            make=lambda: ChatClaude(model=self.name, api_key=key, base_url=url, **parameters.settings),
            key_variable=self.variable,
        )

    @classmethod
    def describe(cls) -> tuple[SpecForm, ...]:
        is_ready = "LIGHTHOUSE_API_KEY" in os.environ
        return (SpecForm(spec=cls.forms[0], meaning="a model of the Lighthouse", is_ready=is_ready, note="by its key"),)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Where the models of the new provider are; its one line is in the table."""
    monkeypatch.setattr(model_kinds, "KINDS", (*model_kinds.KINDS, LighthouseSpec))
    monkeypatch.setenv("LIGHTHOUSE_API_KEY", KEY)
    with OpenAIServer() as running:
        monkeypatch.setenv("LIGHTHOUSE_BASE_URL", running.url)
        yield running


def cook(llm: Any = SPEC) -> Ensemble:
    return Ensemble(tasks=[Task.of("Cook", agent=Agent(role="Cook", goal="Please"))], llm=llm)


@pytest.mark.usefixtures("server")
def test_estimate_and_plan_know_it_and_its_price() -> None:
    estimate = cook().estimate()
    assert estimate.cost is not None
    assert estimate.cost.high > 0
    assert SPEC in str(cook().plan())


def test_run_trace_and_budget_know_it(server: OpenAIServer) -> None:
    server.script(Answer("Soup.", usage=(1000, 100), model=NAME))
    output = cook({"model": SPEC, "temperature": 0.5}).run()
    assert output.raw == "Soup."
    (call,) = output.frames.llm_calls.to_dict("records")
    assert (call["model"], call["provider"]) == (NAME, "anthropic")
    assert output.metrics.cost is not None
    assert output.metrics.cost > 0
    (request,) = server.requests
    assert (request.body["model"], request.body["temperature"]) == (NAME, 0.5)


def test_recording_names_it_and_holds_no_key(server: OpenAIServer, tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "cook.yaml"
    server.script(Answer(f"Soup, says {KEY}.", model=NAME))
    cook().run(record=file)
    text = file.read_text()
    assert f'llm: "{SPEC}"' in text
    assert 'provider: "anthropic"' in text
    assert KEY not in text
    monkeypatch.delenv("LIGHTHOUSE_BASE_URL")
    assert cook().run(replay=file).raw.startswith("Soup, says ")
    assert len(server.requests) == 1


def test_reuse_takes_the_result_of_the_same_model_only(server: OpenAIServer, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    server.script(Answer("Soup.", model=NAME))
    cook().run(reuse=True)
    assert cook().run(reuse=True).raw == "Soup."
    assert len(server.requests) == 1
    cook("lighthouse:claude-other").run(reuse=True)
    assert len(server.requests) == 2


def test_refusal_names_the_variable_of_its_key(server: OpenAIServer) -> None:
    server.script(Answer.status(401))
    with pytest.raises(Exception, match="did not accept the key in LIGHTHOUSE_API_KEY"):
        cook().run()


def test_missing_key_is_told_before_anything_runs(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIGHTHOUSE_API_KEY")
    with pytest.raises(ValidationError, match=f"The model '{SPEC}' needs a key in LIGHTHOUSE_API_KEY"):
        cook().run()
    with pytest.raises(ValidationError, match="needs a key in MY_KEY"):
        cook({"model": SPEC, "api_key_env": "MY_KEY"}).run()
    assert not server.requests


@pytest.mark.usefixtures("server")
def test_magic_and_command_list_it(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run("table = %ensemble models").success
    assert shell.names["table"].loc["lighthouse:NAME"].to_dict() == {
        "meaning": "a model of the Lighthouse",
        "is_ready": True,
        "note": "by its key",
    }
    main(["models"])
    assert "✓ lighthouse:NAME  a model of the Lighthouse: by its key" in capsys.readouterr().out


def test_cell_runs_it_and_names_it_in_mistakes(server: OpenAIServer, shell: Any) -> None:
    server.script(Answer("Soup.", model=NAME))
    assert shell.run(f"%%ensemble --llm {SPEC} -o dinner\n- Cook").success
    assert shell.names["dinner"].raw == "Soup."
    (mistake,) = mistakes_of("llm: something:else\ntasks: [Cook]", {})
    assert "PROVIDER:NAME, lighthouse:NAME" in str(mistake)
    (mistake,) = mistakes_of("llm: lighthose:claude\ntasks: [Cook]", {})
    assert "Did you mean 'lighthouse:claude'?" in str(mistake)
    (mistake,) = mistakes_of("llm: {model: 'lighthouse:'}\ntasks: [Cook]", {})
    assert "'lighthouse:' names no model. Did you mean 'lighthouse:NAME'?" in str(mistake)


@pytest.mark.usefixtures("server")
def test_cell_reads_it_as_other_tools_spell_it() -> None:
    assert read(f"llm: lighthouse/{NAME}\ntasks: [Cook]").definition.llm == SPEC


def test_each_list_of_forms_is_the_tables() -> None:
    """The documents are prose, and have a line for each form all the same."""
    forms = [form for kind in model_kinds.KINDS for form in kind.forms]
    assert [form.spec for form in model_kinds.describe_models()] == forms
    readme = (ROOT / "README.md").read_text().partition("## Another model")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", readme, re.MULTILINE)[1:] == forms
    contract = (ROOT / "docs/contract/engine.md").read_text().partition("\n## Models")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (`.+?) \|", contract, re.MULTILINE)
    assert sorted(re.findall(r"`([^`]+)`", " ".join(rows))) == sorted(forms)
    assert all(f'"{example}"' in write_editor_schema() for example in model_kinds.list_examples())
