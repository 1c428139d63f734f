"""Models of other providers by name (E82), through LangChain's classes, against a server that speaks their protocol."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langchain.chat_models import base
from langchain_core.callbacks import BaseCallbackHandler

from ensemble_notebook import Agent, Ensemble, LlmToken, Task, TaskExecutionError, ValidationError
from ensemble_notebook.models.provider_spec import PROVIDERS
from tests.support.anthropic_server import AnthropicServer
from tests.support.openai_server import Answer

NAME = "claude-3-5-haiku-20241022"
SPEC = f"anthropic:{NAME}"
KEY = "a-key-of-this-test-alone"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnthropicServer]:
    """The provider, at which LangChain's class looks by the usual variables."""
    with AnthropicServer(default=Answer("Soup.", usage=(1000, 100), model=NAME)) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        yield running


def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what} weighs 3 kg"


def cook(llm: Any = SPEC, **fields: Any) -> Ensemble:
    agent = Agent(role="Cook", goal="Please", tools=[weigh])
    return Ensemble(tasks=[Task.of("Cook", name="cook", agent=agent, **fields)], llm=llm)


def test_e82_a_run_with_tools_is_priced_and_traced(server: AnthropicServer) -> None:
    server.script(Answer("Let me see.", calls=[("weigh", {"what": "a leek"})], model=NAME), Answer("Soup.", model=NAME))
    output = cook({"model": SPEC, "temperature": 0.5, "max_tokens": 50}).run()
    assert (output.raw, output["cook"].tool_call_count) == ("Soup.", 1)
    calls = output.frames.llm_calls
    assert set(zip(calls.model, calls.provider, strict=True)) == {(NAME, "anthropic")}
    assert output.metrics.cost is not None
    assert output.metrics.cost > 0
    first, second = server.requests
    assert (first.body["model"], first.body["temperature"], first.body["max_tokens"]) == (NAME, 0.5, 50)
    assert KEY in first.headers["Authorization"]
    assert "a leek weighs 3 kg" in str(second.messages[-1]["content"])
    assert output.warnings == ()


def test_e82_a_reply_is_streamed(server: AnthropicServer) -> None:
    pieces: list[str] = []

    def hear(event: Any) -> None:
        if isinstance(event, LlmToken):
            pieces.append(event.text)

    server.script(Answer("Soup with leek.", model=NAME))
    assert cook().start(listeners=[hear]).result(30).raw == "Soup with leek."
    assert server.requests[0].is_streamed
    assert [each for each in pieces if each] == ["Soup", " with", " leek."]


def test_e82_a_typed_reply_is_corrected(server: AnthropicServer) -> None:
    server.script(Answer("Soup", model=NAME), Answer('{"dish": "soup"}', model=NAME))
    assert cook(output_type={"dish": "str"}).run().parsed_output == {"dish": "soup"}
    assert len(server.requests) == 2


def test_e82_plan_and_estimate_know_it(server: AnthropicServer) -> None:
    estimate = cook().estimate()
    assert estimate.cost is not None
    assert estimate.cost.high > 0
    assert SPEC in str(cook().plan())
    assert server.requests == []


def test_e82_a_recording_answers_without_package_and_key(server: AnthropicServer, tmp_path: Path) -> None:
    file = tmp_path / "cook.yaml"
    server.script(Answer(f"Soup, says {KEY}.", model=NAME))
    cook().run(record=file)
    text = file.read_text()
    assert f'llm: "{SPEC}"' in text
    assert KEY not in text
    assert cook().run(replay=file).raw.startswith("Soup, says ")
    assert len(server.requests) == 1


def test_e82_the_engine_tries_again_and_not_the_client(server: AnthropicServer) -> None:
    server.script(Answer.status(529, code="overloaded_error"), Answer("Soup.", model=NAME))
    output = cook().run()
    assert output.raw == "Soup."
    assert output.frames.attempts.status.tolist() == ["error", "ok"]
    assert len(server.requests) == 2


@pytest.fixture(params=["spec", "object"])
def llm(request: pytest.FixtureRequest, server: AnthropicServer) -> Any:
    """The same model, by a spec and by an object that is used again and again."""
    from langchain_anthropic import ChatAnthropic

    return SPEC if request.param == "spec" else ChatAnthropic(model=NAME)


def ask_once(llm: Any) -> Ensemble:
    """A request that fails if its first attempt does."""
    return Ensemble(tasks=[Task.of("Cook", max_retries=0)], llm=llm)


def test_e82_a_model_is_asked_on_one_loop_after_the_other(server: AnthropicServer, llm: Any) -> None:
    assert ask_once(llm).run().raw == "Soup."
    for _ in range(3):
        assert asyncio.run(ask_once(llm).arun()).raw == "Soup."
        assert ask_once(llm).start(listeners=[lambda _: None]).result(30).raw == "Soup."
    assert len(server.requests) == 7


def test_e82_a_model_is_asked_on_two_loops_at_once(server: AnthropicServer, llm: Any) -> None:
    server.default = Answer("Soup.", model=NAME, delay=0.05)

    async def run_eight() -> list[str]:
        return [each.raw for each in await asyncio.gather(*(ask_once(llm).arun() for _ in range(8)))]

    with ThreadPoolExecutor(9) as threads:
        there = threads.submit(asyncio.run, run_eight())
        here = [threads.submit(ask_once(llm).run) for _ in range(8)]
        assert there.result(60) == [each.result(60).raw for each in here] == ["Soup."] * 8
    assert len(server.requests) == 16


def test_e30_an_object_is_copied_without_its_own_retries(server: AnthropicServer) -> None:
    from langchain_anthropic import ChatAnthropic

    heard: list[str] = []

    class Hears(BaseCallbackHandler):
        def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            heard.append("asked")

    model = ChatAnthropic(model=NAME, max_retries=2, callbacks=[Hears()], max_tokens=77)
    server.script(Answer.status(529, code="overloaded_error"), Answer("Soup.", model=NAME))
    output = cook(model).run()
    assert output.frames.attempts.status.tolist() == ["error", "ok"]
    assert output.warnings == ()
    assert [each.body["max_tokens"] for each in server.requests] == [77, 77]
    assert heard == ["asked", "asked"]
    assert model.max_retries == 2
    assert "_async_client" not in vars(model)


def test_e30_an_object_of_a_class_of_ones_own_is_left_alone_with_a_warning(server: AnthropicServer) -> None:
    from langchain_anthropic import ChatAnthropic

    class Mine(ChatAnthropic):
        pass

    # Its client is nobody's of ours, and LangChain keeps it: a connection would be left open, and be told of elsewhere.
    output = cook(Mine(model=NAME, default_headers={"Connection": "close"})).run()
    (warning,) = output.warnings
    assert "Mine tries failed requests again by itself (max_retries=2)" in warning
    assert len(server.requests) == 1


def count_usage(server: AnthropicServer, usage: dict[str, Any] | None, *, streamed: bool) -> Any:
    """The row of the call whose server counts so; None is a server whose stream says nothing of the input."""
    odd = None if usage is None else json.dumps(usage)
    server.script(Answer("Soup.", model=NAME, usage=(1000, 100), odd_usage=odd))
    run = cook().start(listeners=[lambda _: None]) if streamed else cook().start()
    return run.result(30).frames.llm_calls.iloc[0]


@pytest.mark.parametrize("seconds", ["5m", "1h"])
def test_e82_what_is_written_to_a_cache_is_counted_whole_and_streamed(server: AnthropicServer, seconds: str) -> None:
    written = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0, f"ephemeral_{seconds}_input_tokens": 900}
    usage = {
        "input_tokens": 100,
        "output_tokens": 100,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 900,
        "cache_creation": written,
    }
    whole, streamed = (count_usage(server, usage, streamed=each) for each in (False, True))
    assert [each.is_streamed for each in server.requests] == [False, True]
    assert whole.cache_write_tokens == streamed.cache_write_tokens == 900
    assert whole.input_tokens == streamed.input_tokens == 1000
    assert whole.cost == streamed.cost > 0


def test_e82_input_that_a_stream_does_not_count_is_unknown(server: AnthropicServer) -> None:
    call = count_usage(server, None, streamed=True)
    assert server.requests[0].is_streamed
    assert (pd.isna(call.input_tokens), call.output_tokens) == (True, 100)
    assert count_usage(server, None, streamed=False).input_tokens == 1000


@pytest.mark.parametrize("is_streamed", [False, True])
def test_e82_thinking_goes_back_with_its_signature_while_tools_are_called(
    server: AnthropicServer, is_streamed: bool
) -> None:
    from langchain_anthropic import ChatAnthropic

    server.thinking = [
        {"type": "thinking", "thinking": "A leek, then.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
    ]
    model = ChatAnthropic(model=NAME, thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2048)
    server.script(Answer("Let me see.", calls=[("weigh", {"what": "a leek"})], model=NAME), Answer("Soup.", model=NAME))
    listeners = [lambda _: None] if is_streamed else []
    output = cook(model).start(listeners=listeners).result(30)
    assert [each.is_streamed for each in server.requests] == [is_streamed] * 2
    assert (output.raw, output.warnings) == ("Soup.", ())
    *_, asked, answered = server.requests[1].messages
    assert [each for each in asked["content"] if "thinking" in each["type"]] == server.thinking
    assert [each["type"] for each in asked["content"]][2:] == ["text", "tool_use"]
    assert answered["content"][0]["tool_use_id"] == asked["content"][-1]["id"]


def test_e82_a_refusal_names_the_variable_of_the_key(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.script(Answer.status(401, code="authentication_error"))
    with pytest.raises(TaskExecutionError, match="did not accept the key in ANTHROPIC_API_KEY"):
        cook().run()
    monkeypatch.setenv("MY_KEY", "another-key-of-this-test")
    cook({"model": SPEC, "api_key_env": "MY_KEY"}).run()
    assert "another-key-of-this-test" in server.requests[-1].headers["Authorization"]


def test_e82_a_key_that_is_not_set_is_told_before_anything_runs(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ValidationError, match=f"The model '{SPEC}' needs a key in the environment variable ANTHROPIC"):
        cook().run()
    assert server.requests == []


def test_e82_a_provider_that_is_not_installed_is_told_with_the_line_that_installs_it() -> None:
    with pytest.raises(ValidationError) as caught:
        cook("mistralai:mistral-large").run()
    assert "pip install 'langchain>=1.0' langchain-mistralai" in str(caught.value)


def test_e82_nothing_is_imported_until_a_model_is_opened() -> None:
    code = (
        "import sys\nfrom ensemble_notebook import Ensemble, Task\n"
        f"Ensemble(tasks=[Task.of('Cook')], llm={SPEC!r}).plan()\n"
        "assert not {'langchain', 'langchain_anthropic', 'anthropic'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_e82_every_provider_of_langchain_is_known() -> None:
    """`openai` and `ollama` are ours. One that a new version brings gets its line in the table."""
    known = {name: module.partition(".")[0] for name, (module, *_) in base._BUILTIN_PROVIDERS.items()}
    packages = {name: each.package.replace("-", "_") for name, each in PROVIDERS.items()}
    assert packages == {name: module for name, module in known.items() if name not in ("openai", "ollama")}
