"""Parameters of models in specs, also in cells (E56)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, EnsembleOutput, Task, ValidationError
from tests.conformance.scene import prompts, run_cell
from tests.support.cell import assert_mistakes
from tests.support.openai_server import Answer, OpenAIServer

PARAMETERS: dict[str, Any] = {
    "temperature": 0.9,
    "max_tokens": 50,
    "top_p": 0.5,
    "seed": 7,
    "stop": ["END"],
    "reasoning_effort": "low",
    "extra_body": {"top_k": 3, "deep": {"a": [1]}},
}
SENT = {
    "temperature": 0.9,
    "max_completion_tokens": 50,
    "top_p": 0.5,
    "seed": 7,
    "stop": ["END"],
    "reasoning_effort": "low",
    "top_k": 3,
    "deep": {"a": [1]},
}
IN_A_CELL = """
  temperature: 0.9
  max_tokens: 50
  top_p: 0.5
  seed: 7
  stop: [END]
  reasoning_effort: low
  extra_body: {top_k: 3, deep: {a: [1]}}
"""
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def ask(way: str, llm: dict[str, Any], lines: str) -> EnsembleOutput:
    """Run one task on a model with parameters, from Python or from a cell."""
    if way == "cell":
        return run_cell(f"llm:{lines}tasks: {{soup: Make soup}}")
    return Ensemble(tasks=[Task.of("Make soup", name="soup")], llm=llm).run()


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e56_parameters_are_sent_under_the_client_s_names(server: OpenAIServer, way: str) -> None:
    where = {"model": "local", "base_url": server.url}
    ask(way, {**where, **PARAMETERS}, f"\n  model: local\n  base_url: {server.url}{IN_A_CELL}")
    body = server.requests[0].body
    assert {name: body.get(name) for name in SENT} == SENT
    assert body["model"] == "local"


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e56_a_bare_name_is_openai_s(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
    ask(way, {"model": "gpt-4o-mini", "temperature": 0}, "\n  {model: gpt-4o-mini, temperature: 0}\n")
    body = server.requests[0].body
    assert (body["model"], body["temperature"]) == ("gpt-4o-mini", 0)


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e56_the_local_model_takes_parameters(way: str) -> None:
    def tell(seed: int) -> EnsembleOutput:
        given = {"model": "local", "temperature": 1.5, "seed": seed, "max_tokens": 12}
        return ask(way, given, f"\n  {{model: local, temperature: 1.5, seed: {seed}, max_tokens: 12}}\n")

    tell(1)  # what the server keeps of a prompt changes its numbers a little, so that the first one stands alone
    outputs = {seed: tell(seed) for seed in (7, 8, 9)}
    assert tell(7)["soup"].raw == outputs[7]["soup"].raw
    assert len({output["soup"].raw for output in outputs.values()}) > 1
    assert all(0 < (output.metrics.output_tokens or 0) <= 12 for output in outputs.values())


@pytest.mark.parametrize(
    "name, mode, is_native",
    [
        ("m", None, False),
        ("m", "auto", False),
        ("m", "native", True),
        ("m", "prompt", False),
        ("gpt-4o-mini", None, True),  # its profile says so
        ("gpt-4o-mini", "prompt", False),
    ],
)
@pytest.mark.parametrize("way", ["python", "cell"])
def test_e56_schemas_are_given_as_the_spec_says(
    server: OpenAIServer, way: str, name: str, mode: str | None, is_native: bool
) -> None:
    server.default = Answer('{"city": "Rome"}')
    if way == "cell":
        words = "" if mode is None else f", schema_mode: {mode}"
        llm = f"{{model: {name}, base_url: '{server.url}'{words}}}"
        output = run_cell(f"llm: {llm}\ntasks: {{city: {{description: Name one, output_type: {{city: str}}}}}}")
    else:
        spec = {"model": name, "base_url": server.url} | ({} if mode is None else {"schema_mode": mode})
        output = Ensemble(tasks=[Task.of("Name one", name="city", output_type=SCHEMA, llm=spec)]).run()
    assert output["city"].parsed_output["city"] == "Rome"
    assert ("response_format" in server.requests[0].body) is is_native
    assert ("## Output Format" in prompts(output)[0][1]) is not is_native


def test_e56_a_budget_knows_the_limit_of_a_spec(server: OpenAIServer) -> None:
    llm = {"model": "m", "base_url": server.url, "max_tokens": 50}
    estimate = Ensemble(tasks=[Task.of("Make soup", llm=llm)]).estimate()
    assert estimate.output_tokens.high == 50


def test_e56_mistakes_are_told_before_anything_is_asked() -> None:
    agent = Agent(role="Cook", goal="Cook", llm={"model": "local", "temprature": 1})
    with pytest.raises(ValidationError, match=r"A model has no 'temprature'\. Did you mean 'temperature'\?"):
        Ensemble(tasks=[Task.of("Make soup", agent=agent)]).run()


@pytest.mark.parametrize(
    "llm, message",
    [
        ("{model: local, «temprature»: 0.9}", r"Did you mean 'temperature'\?"),
        ("{model: local, temperature: «hot»}", "takes a number"),
        ("{model: local, temperature: «-1»}", "must be a number >= 0"),
        ("{model: local, max_tokens: «0»}", "must be a whole number > 0"),
        ("{model: local, seed: «1.5»}", "must be a whole number"),
        ("{model: local, schema_mode: «nativ»}", r"Did you mean 'native'\?"),
        ("{model: local, extra_body: «3»}", "mapping"),
        ("{model: «local:x.bin»}", "local:PATH.gguf"),
    ],
)
def test_e56_mistakes_in_a_cell_are_shown_in_place(llm: str, message: str) -> None:
    assert_mistakes(f"llm: {llm}\ntasks: [a]", message)
