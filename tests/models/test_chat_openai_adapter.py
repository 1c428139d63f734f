"""Specs without LangChain, users' models with it: what is used of langchain-openai that is not public there."""

import asyncio
import dataclasses
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import openai
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.globals import set_llm_cache
from langchain_openai import ChatOpenAI

from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.openai.chat_openai import (
    bind_schema,
    find_base_url,
    has_replaceable_completions,
    has_schema_support,
    is_openai_model,
    is_responses_api_used,
)
from tests.support.openai_server import MODEL, Answer

WHAT_TO_DO = (
    "langchain-openai or openai has moved names that chat_openai.py uses. Until that module knows them, "
    "models go the plain way: correct, but slower, and a user's model retries unseen. Find in BaseChatOpenAI where "
    "requests are sent now (today: root_async_client, async_client.create, async_client.with_raw_response.create), use "
    "that there, and raise the floor in pyproject.toml."
)
SEARCH = ToolSpec(
    name="search", description="Look it up.", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)
SCHEMA = {"title": "Dish", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


NEW_NAMES = {"root_async_client": "openai_client", "async_client": "completions"}


class MovedChatOpenAI(ChatOpenAI):
    """A ``ChatOpenAI`` whose client and completions are fields of other names, as a later version may have it.

    The code that it inherits finds them where they are now.
    """

    openai_client: Any = None
    completions: Any = None
    root_async_client: ClassVar[Any] = property(lambda self: self.openai_client)
    async_client: ClassVar[Any] = property(lambda self: self.completions)

    def __setattr__(self, name, value):
        super().__setattr__(NEW_NAMES.get(name, name), value)


def spec(url):
    return f"openai:{MODEL}@{url}"


def model(url, model_class=ChatOpenAI, **settings):
    return model_class(model=MODEL, base_url=url, api_key="none", max_retries=0, stream_usage=True, **settings)


async def converse(source, llm, *, is_streamed=False, schema=None):
    """Ask, answer all tool calls, ask again; give the two replies and what was streamed."""
    pieces = []
    port = dataclasses.replace(await source.prepare(llm, print), has_schema_support=True)
    conversation = port.open("You are a cook.", "Cook a steak.", [SEARCH], schema)
    first = await conversation.reply(pieces.append if is_streamed else None)
    for call in first.tool_calls:
        conversation.add_tool_result(call, "found")
    return first, await conversation.reply(pieces.append if is_streamed else None), "".join(pieces)


FIRST_REPLY = """
import sys
from ensemble_notebook import Ensemble, Task

assert Ensemble(tasks=[Task(description="Cook a steak")], llm=sys.argv[1]).run().raw == "Rest it."
print(sorted({"langchain_core", "langchain_openai", "langsmith", "openai", "httpx", "requests"} & sys.modules.keys()))
"""


def test_a_spec_is_asked_without_the_packages_of_providers(server):
    server.script("Rest it.")
    done = subprocess.run(
        [sys.executable, "-c", FIRST_REPLY, spec(server.url)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_names_of_the_installed_version_are_those_that_the_adapter_uses():
    assert {"root_async_client", "async_client"} <= ChatOpenAI.model_fields.keys(), WHAT_TO_DO
    assert callable(ChatOpenAI._use_responses_api), WHAT_TO_DO


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
def test_users_model_of_the_installed_version_does_not_retry_unseen(server, source, is_streamed):
    server.script(Answer.status(500), "Rest it.")

    async def run():
        port = await source.prepare(ChatOpenAI(model=MODEL, base_url=server.url, api_key="k", max_retries=2), print)
        assert port.warning is None
        with pytest.raises(openai.InternalServerError):
            await port.open("s", "u").reply(print if is_streamed else None)

    asyncio.run(run())
    assert len(server.requests) == 1, WHAT_TO_DO


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
def test_model_without_the_names_is_plain_and_works(server, source, is_streamed):
    script = [Answer("Looking.", calls=[("call_7", "search", {"q": "steak"})]), Answer("Rest it.", usage=(30, 9))]
    server.script(*script, *script)
    plain = asyncio.run(converse(source, model(server.url, MovedChatOpenAI), is_streamed=is_streamed))
    assert plain == asyncio.run(converse(source, spec(server.url), is_streamed=is_streamed))
    first, second, streamed = plain
    assert first.tool_calls[0].arguments == {"q": "steak"}
    assert (second.text, second.usage.input_tokens, second.usage.output_tokens) == ("Rest it.", 30, 9)
    assert streamed == ("Looking.Rest it." if is_streamed else "")
    bodies = [request.body for request in server.requests]
    assert [body.pop("stream", False) for body in bodies] == [is_streamed] * 4
    assert bodies[:2] == bodies[2:]


def test_port_that_always_streams_does_so_where_nobody_hears(server, source):
    server.script("Rest it.")

    async def run():
        port = dataclasses.replace(await source.prepare(spec(server.url), print), is_streamed_inside=True)
        return await port.open("s", "u").reply()

    assert asyncio.run(run()).text == "Rest it."
    assert server.requests[0].is_streamed


def test_request_that_is_made_again_is_the_same(server, source):
    server.script(Answer.status(503), Answer("Looking.", calls=[("search", {"q": "steak"})]), "Rest it.")

    async def run():
        conversation = (await source.prepare(spec(server.url), print)).open("s", "u", [SEARCH])
        with pytest.raises(openai.InternalServerError):
            await conversation.reply(max_tokens=50)
        (call,) = (await conversation.reply(max_tokens=50)).tool_calls
        conversation.add_tool_result(call, "found")
        return await conversation.reply()

    assert asyncio.run(run()).text == "Rest it."
    first, again, last = (request.body for request in server.requests)
    assert first == again
    assert last["messages"][:2] == again["messages"]
    assert [message["role"] for message in last["messages"]] == ["system", "user", "assistant", "tool"]


def test_cache_of_langchain_is_asked_before_the_server(server, source):
    async def run():
        port = await source.prepare(spec(server.url), print)
        return [(await port.open("s", "u").reply()).text for _ in range(2)]

    server.script("Rest it.")
    set_llm_cache(InMemoryCache())
    try:
        assert asyncio.run(run()) == ["Rest it."] * 2
    finally:
        set_llm_cache(None)
    assert len(server.requests) == 1


def test_callbacks_of_a_model_hear_each_piece_of_its_stream(server, source):
    server.script("Rest the steak.")

    class Pieces(AsyncCallbackHandler):
        heard = ""

        async def on_llm_new_token(self, token, **_):
            self.heard += token

    async def run(handler):
        port = await source.prepare(model(server.url, callbacks=[handler]), print)
        await port.open("s", "u").reply(print)
        return handler.heard

    assert asyncio.run(run(Pieces())) == "Rest the steak."


@pytest.mark.parametrize(
    "answer",
    [
        Answer("Rest it.", usage=(30, 9)),
        Answer("Rest", finish_reason="length"),
        Answer(None, calls=[("call_7", "search", {"q": "steak"}), ("call_8", "search", '{"q": ')]),
        Answer(""),
    ],
    ids=["text", "cut off", "calls", "nothing"],
)
def test_reply_past_langchain_is_the_one_that_it_gives(server, source, answer):
    server.script(answer, answer, answer)

    async def run():
        port, langchain = [await source.prepare(llm, print) for llm in (spec(server.url), model(server.url))]
        direct = [await port.open("s", "u", [SEARCH]).reply(on_token) for on_token in (None, print)]
        return [*direct, await langchain.open("s", "u", [SEARCH]).reply()]

    whole, streamed, heard = asyncio.run(run())
    assert whole == streamed == heard
    plain, _, asked = (request.body for request in server.requests)
    assert plain == {name: value for name, value in asked.items() if name != "stream"}


def test_model_without_the_names_is_held_to_a_schema(server, source):
    server.script("{}", "{}")
    asyncio.run(converse(source, model(server.url, MovedChatOpenAI), schema=SCHEMA))
    assert server.requests[0].body["response_format"]["json_schema"]["name"] == "Dish"


@pytest.mark.parametrize("make", [spec, model, lambda url: model(url, MovedChatOpenAI)])
def test_error_is_classified_alike(server, source, make):
    server.script(Answer.status(429, retry_after=7))

    async def fault():
        port = await source.prepare(make(server.url), print)
        with pytest.raises(openai.RateLimitError) as caught:
            await port.open("s", "u").reply()
        return port.classify(caught.value)

    found = asyncio.run(fault())
    assert (found.reason, found.is_transient, found.retry_after_s) == ("429", True, 7)
    assert len(server.requests) == 1


@pytest.mark.parametrize("content", ['{"error": {"message": "Busy."}}', "Busy.", "[1]", "", "[" * 100_000])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 422, 429, 500, 503])
def test_errors_of_specs_are_those_of_the_openai_package(server, source, status, content):
    server.script(*[Answer.status(status, raw=content.encode())] * 2)

    async def errors():
        for llm in (spec(server.url), model(server.url)):
            port = await source.prepare(llm, print)
            with pytest.raises(openai.APIStatusError) as caught:
                await port.open("s", "u").reply()
            yield caught.value

    async def run():
        return [error async for error in errors()]

    ours, theirs = asyncio.run(run())
    assert isinstance(theirs, type(ours))  # LangChain has classes of its own below them
    assert (str(ours), ours.body) == (str(theirs), theirs.body)
    assert ours.response.status_code == theirs.response.status_code == status


def test_users_model_without_the_names_is_taken_as_it_is_and_its_retries_are_told(server, source):
    model = MovedChatOpenAI(model=MODEL, base_url=server.url, api_key="k", max_retries=2)
    port = asyncio.run(source.prepare(model, print))
    assert port.model is model
    assert "max_retries=2" in port.warning
    assert asyncio.run(port.open("s", "u").reply()).text


def test_only_models_with_the_names_get_other_completions():
    assert has_replaceable_completions(ChatOpenAI(model=MODEL, api_key="k"))
    assert not has_replaceable_completions(MovedChatOpenAI(model=MODEL, api_key="k"))
    assert is_openai_model(MovedChatOpenAI(model=MODEL, api_key="k"))
    assert not has_replaceable_completions(object())


@pytest.mark.parametrize("model_class", [ChatOpenAI, MovedChatOpenAI])
def test_address_is_found_with_and_without_the_names(model_class, monkeypatch):
    assert "api.openai.com" in find_base_url(model_class(model=MODEL, api_key="k"))
    assert has_schema_support(model_class(model="gpt-4o", api_key="k"))
    assert "//here" in find_base_url(model_class(model=MODEL, api_key="k", base_url="http://here/v1"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://there/v1")
    assert "//there" in find_base_url(model_class(model=MODEL, api_key="k"))


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_interface_is_the_one_that_was_asked_for(is_asked_for):
    model = ChatOpenAI(model=MODEL, api_key="k", use_responses_api=is_asked_for)
    assert is_responses_api_used(model, {}) is is_asked_for
    assert ("extra_body" in bind_schema(model, SCHEMA, {}).kwargs) is not is_asked_for
    without_the_name = SimpleNamespace(use_responses_api=is_asked_for)
    assert is_responses_api_used(without_the_name, {}) is is_asked_for
