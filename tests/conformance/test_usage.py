"""What replies took: counted where it can be, unknown where it can't (E64, E65)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import Budget, Ensemble, EnsembleOutput, ExecutionTrace, RunStatus, Task
from tests.conformance.scene import done, run, run_cell
from tests.support.openai_server import Answer, OpenAIServer

ODD_USAGES = [
    "{}",
    "[1, 2]",
    '"12"',
    '{"prompt_tokens": null, "completion_tokens": null, "total_tokens": null}',
    '{"prompt_tokens": 11}',
    '{"total_tokens": 7}',
    '{"prompt_tokens": -11, "completion_tokens": 7, "total_tokens": -4}',
    '{"prompt_tokens": 1.5, "completion_tokens": 7}',
    '{"prompt_tokens": "11", "completion_tokens": "7"}',
    '{"prompt_tokens": NaN, "completion_tokens": 7}',
    '{"prompt_tokens": 11, "completion_tokens": Infinity}',
    '{"prompt_tokens": true, "completion_tokens": false}',
    '{"prompt_tokens": 9223372036854775808, "completion_tokens": 7}',
    '{"prompt_tokens": %s, "completion_tokens": 7}' % ("9" * 5000),
    '{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 3}',
    '{"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 12}}',
    '{"prompt_tokens": 11, "completion_tokens": 7, "completion_tokens_details": [3]}',
]
WAYS = ["python", "watched", "cell"]


class Watcher:
    """A listener for whom replies are streamed."""

    wants_tokens = True

    def on_event(self, event: object) -> None:
        """Do nothing."""


def ask(way: str, llm: Any, **fields: Any) -> EnsembleOutput:
    """Run one task on a model, from Python with or without a stream, or from a cell."""
    if way == "cell":
        return run_cell(f"llm: {llm}\ntasks: {{soup: Make soup}}")
    listeners = [Watcher()] if way == "watched" else []
    return run(Task.of("Make soup", name="soup"), llm=llm, listeners=listeners, **fields)


def use_every_view(output: EnsembleOutput, folder: Path) -> None:
    """Look at the output in all ways there are; none may fail."""
    assert repr(output)
    assert output._repr_mimebundle_()
    assert ExecutionTrace.load(output.trace.save(folder / "trace.json")).metrics == output.metrics
    for name in ("spans", "tasks", "llm_calls", "agents"):
        assert repr(getattr(output.frames, name))


@pytest.mark.parametrize("usage", ODD_USAGES, ids=range(len(ODD_USAGES)))
@pytest.mark.parametrize("way", WAYS)
def test_e65_usage_that_does_not_fit_is_unknown_and_quoted(
    server: OpenAIServer, llm: str, tmp_path: Path, way: str, usage: str
) -> None:
    server.script(Answer("Soup.", odd_usage=usage))
    output = ask(way, llm)
    assert (output["soup"].raw, output.status) == ("Soup.", RunStatus.COMPLETED)
    (warning,) = output.warnings
    assert warning.startswith("What test-model says that a reply took can't be counted, and is unknown: ")
    assert warning.endswith(json.dumps(json.loads(usage)) if len(usage) < 200 else '"completion_tokens": 7}')
    assert (output.metrics.input_tokens, output.metrics.output_tokens) == (None, None)
    assert (output.metrics.tokens_complete, output.metrics.cost) == (False, None)
    use_every_view(output, tmp_path)


@pytest.mark.parametrize("is_object", [False, True], ids=["spec", "object"])
@pytest.mark.parametrize("usage", ['{"prompt_tokens": null}', "[7]", '{"prompt_tokens": 1.5, "completion_tokens": 2}'])
@pytest.mark.parametrize("way", ["python", "watched"])
def test_e65_usage_of_a_model_object_is_checked_too(
    server: OpenAIServer, llm: str, way: str, usage: str, is_object: bool
) -> None:
    from langchain_openai import ChatOpenAI

    server.script(Answer("Soup.", odd_usage=usage))
    model: Any = ChatOpenAI(model="test-model", base_url=server.url, api_key="none") if is_object else llm
    output = ask(way, model)
    assert (output["soup"].raw, output.metrics.input_tokens, len(output.warnings)) == ("Soup.", None, 1)


@pytest.mark.parametrize("usage", ['{"prompt_tokens": null, "completion_tokens": null}', '{"total_tokens": 7}', "[]"])
def test_e65_a_budget_keeps_what_it_reserved_for_unknown_usage(
    server: OpenAIServer, llm: str, tmp_path: Path, usage: str
) -> None:
    server.default = Answer("Soup.", odd_usage=usage)
    budget = Budget(max_tokens=2000)
    tasks = [Task.of(f"Make soup {number}") for number in range(40)]
    output = Ensemble(tasks=tasks, llm=llm, workflow="parallel", budget=budget).run()
    assert output.status is RunStatus.BUDGET_EXCEEDED
    assert 0 < len(server.requests) < 7
    assert sum(warning.startswith("What test-model says") for warning in output.warnings) == 1
    use_every_view(output, tmp_path)


def test_e65_reasoning_beside_the_output_is_counted_where_the_total_says_so(server: OpenAIServer, llm: str) -> None:
    usage = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}
    server.default = Answer(
        "Soup.", odd_usage=json.dumps(usage | {"completion_tokens_details": {"reasoning_tokens": 94}})
    )
    for way in WAYS:
        metrics = ask(way, llm).metrics
        assert (metrics.input_tokens, metrics.output_tokens, metrics.total_tokens) == (32, 103, 135)


def make_odd_usage(chance: random.Random) -> str:
    """Make a usage of any shape."""
    values = ["null", "0", "7", "-1", "1.5", "1e3", "NaN", '"12"', "[]", "{}", "true", str(2**53), str(2**53 + 1)]
    names = ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "cached_tokens"]
    if chance.random() < 0.1:
        return chance.choice(values)
    fields = [f'"{name}": {chance.choice(values)}' for name in chance.sample(names, chance.randint(0, len(names)))]
    if chance.random() < 0.3:
        fields.append(f'"completion_tokens_details": {{"reasoning_tokens": {chance.choice(values)}}}')
    return f"{{{', '.join(fields)}}}"


def test_e65_no_usage_of_any_shape_loses_a_reply_or_breaks_a_view(
    server: OpenAIServer, llm: str, tmp_path: Path
) -> None:
    chance = random.Random(65)
    usages = [make_odd_usage(chance) for _ in range(120)]
    server.script(*[Answer("Soup.", odd_usage=usage) for usage in usages])
    tasks = [Task.of("Make soup", name=f"t{number}") for number in range(len(usages))]
    output = Ensemble(tasks=tasks, llm=llm).run()
    assert [each.raw for each in output.task_outputs] == ["Soup."] * len(usages)
    for usage, made in zip(usages, output.task_outputs, strict=True):
        assert made.metrics is not None
        counts = (made.metrics.input_tokens, made.metrics.output_tokens)
        assert counts == (None, None) or all(0 <= int(count or 0) <= 2**53 for count in counts), usage
    use_every_view(output, tmp_path)


def test_e64_unknown_tokens_are_none_and_known_parts_are_said(server: OpenAIServer, llm: str) -> None:
    server.script(Answer("Soup.", usage=None), Answer("Tea.", usage=(5, 2)), Answer("Bread.", usage=None))
    unknown = run(Task.of("Make soup"), llm=llm).metrics
    assert (unknown.input_tokens, unknown.output_tokens, unknown.total_tokens) == (None, None, None)
    partly = run_cell(f"llm: {llm}\ntasks: [Make tea, Bake bread]").metrics
    assert (partly.input_tokens, partly.output_tokens, partly.total_tokens) == (5, 2, 7)
    assert (unknown.tokens_complete, partly.tokens_complete) == (False, False)


def test_e64_no_calls_are_zero_tokens() -> None:
    metrics = run(done("soup")).metrics
    assert (metrics.input_tokens, metrics.total_tokens, metrics.tokens_complete) == (0, 0, True)
