"""Bounds of a request before it is sent, and limits of its reply (E36)."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.langchain.langchain_port import LangChainPort, bound_message_tokens
from ensemble_notebook.models.langchain.scripted_model import Reply, ScriptedChatModel, ToolUse
from tests.support.openai_server import Answer

SEARCH = ToolSpec(name="search", description="Look it up.", parameters={"type": "object", "properties": {}})
SCHEMA = {"title": "Dish", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

TEXT = st.text(max_size=60)
TURN = st.builds(
    Reply, TEXT, st.lists(st.builds(ToolUse, st.sampled_from(["search", "look"]), st.dictionaries(TEXT, TEXT)))
)


def port_of(source, llm):
    return asyncio.run(source.prepare(llm, print))


def scripted(*replies, **fields):
    return LangChainPort(model=ScriptedChatModel(replies=replies, **fields), name="scripted", is_scripted=True)


@given(system=TEXT, user=TEXT, turns=st.lists(TURN, min_size=1, max_size=4), answer=TEXT)
def test_bound_is_never_below_what_the_script_counts(system, user, turns, answer):
    async def run():
        conversation = scripted(*turns).open(system, user, [SEARCH])
        for _ in turns:
            bound = conversation.input_bound()
            reply = await conversation.reply()
            assert reply.usage.input_tokens <= bound
            for call in reply.tool_calls:
                conversation.add_tool_result(call, answer)

    asyncio.run(run())


@given(turn=TURN, most=st.integers(1, 12), is_streamed=st.booleans())
def test_limited_reply_of_a_script_is_within_its_limit_and_says_that_it_was_cut(turn, most, is_streamed):
    async def run():
        whole = await scripted(turn).open("s", "u").reply()
        conversation = scripted(turn).open("s", "u")
        return whole, await conversation.reply([].append if is_streamed else None, max_tokens=most)

    whole, cut = asyncio.run(run())
    assert cut.usage.output_tokens == min(most, whole.usage.output_tokens)
    assert (cut.finish_reason == "length") == (cut.usage.output_tokens < whole.usage.output_tokens)
    assert whole.text.startswith(cut.text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bound_counts_bytes_as_they_are_sent(text):
    assert bound_message_tokens(HumanMessage(text)) >= len(text.encode())


def test_blocks_and_what_a_provider_keeps_in_a_message_count_as_json():
    blocks = [{"type": "image", "base64": "QUJD" * 100, "mime_type": "image/png"}, {"type": "text", "text": "é"}]
    kept = {"reasoning_content": "hm " * 50}
    assert bound_message_tokens(AIMessage(blocks)) >= len(json.dumps(blocks, ensure_ascii=False).encode())
    assert bound_message_tokens(AIMessage("", additional_kwargs=kept)) >= len(json.dumps(kept))


def test_bound_covers_the_request_as_it_is_sent(server, source):
    server.script(Answer("Looking.", calls=[("search", {"q": "é" * 50})]))

    async def run():
        conversation = (await source.prepare(f"openai:m@{server.url}", print)).open("s" * 99, "ü" * 99, [SEARCH])
        bounds = [conversation.input_bound()]
        (call,) = (await conversation.reply()).tool_calls
        conversation.add_tool_result(call, "found " * 99)
        bounds.append(conversation.input_bound())
        await conversation.reply()
        return bounds

    bounds = asyncio.run(run())
    for bound, request in zip(bounds, server.requests, strict=True):
        texts = [message["content"] or "" for message in request.messages]
        calls = [call["function"]["arguments"] for each in request.messages for call in each.get("tool_calls", ())]
        tools = [json.dumps(request.body["tools"], ensure_ascii=False)]
        assert bound >= sum(len(text.encode()) for text in texts + calls + tools)


@pytest.mark.parametrize("name", ["tools", "response_format", "stop"])
def test_bound_covers_what_a_model_was_bound_to(name):
    model = ChatOpenAI(model="m", api_key="none").bind(**{name: ["x" * 5000]})
    assert LangChainPort(model=model, name="m").open("s", "u").input_bound() > 5000


def test_bound_grows_with_each_message():
    conversation = scripted("a").open("s", "u")
    before = conversation.input_bound()
    conversation.add_tool_result(ToolCall(id="1", name="search", arguments={}), "x" * 500)
    assert conversation.input_bound() >= before + 500


class Google(FakeListChatModel):
    """Names its limit as Google does."""

    max_output_tokens: int | None = None


@pytest.mark.parametrize(
    "model, limit",
    [
        (ChatOpenAI(model="m", api_key="none"), None),
        (ChatOpenAI(model="m", api_key="none", max_tokens=50), 50),
        (ChatOpenAI(model="m", api_key="none", max_completion_tokens=50), 50),
        (ChatOpenAI(model="m", api_key="none", max_tokens=50).bind(max_tokens=20).with_config(tags=["a"]), 20),
        (Google(responses=["a"], max_output_tokens=70), 70),
        (FakeListChatModel(responses=["a"]), None),
        (ScriptedChatModel(replies=["a"], max_tokens=3), 3),
    ],
)
def test_limit_is_the_one_that_a_model_was_made_with(source, model, limit):
    assert port_of(source, model).max_tokens == limit


@pytest.mark.parametrize(
    "own, asked, sent",
    [({}, 30, 30), ({"max_tokens": 50}, 30, 30), ({"max_tokens": 20}, 30, 20), ({"max_tokens": 20}, None, 20)],
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_lower_limit_is_sent_for_the_one_request(server, source, own, asked, sent, is_streamed):
    model = ChatOpenAI(model="m", base_url=server.url, api_key="none", **own)

    async def run():
        conversation = (await source.prepare(model, print)).open("s", "u", [SEARCH])
        await conversation.reply([].append if is_streamed else None, max_tokens=asked)
        await conversation.reply()

    asyncio.run(run())
    assert [each.body.get("max_completion_tokens") for each in server.requests] == [sent, own.get("max_tokens")]


def test_lower_limit_of_a_wrapping_is_sent(server, source):
    model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_tokens=90).bind(max_tokens=60)

    async def run():
        conversation = (await source.prepare(model, print)).open("s", "u")
        for most in (70, 40):
            await conversation.reply(max_tokens=most)

    asyncio.run(run())
    assert [each.body["max_completion_tokens"] for each in server.requests] == [60, 40]


def test_spec_and_relatives_send_the_limit_too(server, source):
    azure = AzureChatOpenAI(
        azure_endpoint=server.url.removesuffix("/v1"), azure_deployment="d", api_version="2024-10-21", api_key="none"
    )

    async def run():
        for llm in (f"openai:m@{server.url}", azure):
            await (await source.prepare(llm, print)).open("s", "u").reply(max_tokens=30)

    asyncio.run(run())
    limits = [each.body.get("max_completion_tokens", each.body.get("max_tokens")) for each in server.requests]
    assert limits == [30, 30]


def test_limit_of_a_foreign_model_is_lowered_by_its_own_name():
    asked = []

    class Model(Google):
        def _call(self, messages, stop=None, run_manager=None, **kwargs):
            asked.append((self.max_output_tokens, kwargs))
            return "a"

    conversation = LangChainPort(model=Model(responses=["a"], max_output_tokens=70), name="g").open("s", "u")
    asyncio.run(conversation.reply(max_tokens=30))
    asyncio.run(conversation.reply(max_tokens=90))
    assert asked == [(30, {}), (70, {})]


def test_model_without_a_known_limit_is_told_it_in_the_words_of_langchain():
    asked = []

    class Model(FakeListChatModel):
        def _call(self, messages, stop=None, run_manager=None, **kwargs):
            asked.append(kwargs)
            return "a"

    asyncio.run(LangChainPort(model=Model(responses=["a"]), name="m").open("s", "u").reply(max_tokens=30))
    assert asked == [{"max_tokens": 30}]
