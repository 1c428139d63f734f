"""Conversations through langchain-openai with a real server."""

import asyncio
import dataclasses
import json
import time

import pytest
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI

from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.langchain.langchain_port import LangChainPort
from tests.support.openai_server import MODEL, Answer

TEXT = "Rare, then medium.\n\n  Rest it  for five minutes. "
SEARCH = ToolSpec(
    name="search",
    description="Look it up.",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)


def converse(source, llm, *steps, tools=()):
    """Run steps ``async (conversation)`` in one conversation, and give back what the last one returned."""

    async def run():
        conversation = (await source.prepare(llm, print)).open("You are a cook.", "Cook a steak.", tools)
        for step in steps:
            result = await step(conversation)
        return result

    return asyncio.run(run())


def streamed(pieces):
    async def step(conversation):
        return await conversation.reply(pieces.append)

    return step


async def plain(conversation):
    return await conversation.reply()


def answer_all(text):
    """Answer the tool calls of the next reply."""

    async def step(conversation):
        for call in (await conversation.reply()).tool_calls:
            conversation.add_tool_result(call, text)

    return step


@pytest.fixture(params=["spec", "object"])
def llm(request, server):
    """The same server, by a spec and by a user's object."""
    if request.param == "spec":
        return f"openai:{MODEL}@{server.url}"
    return ChatOpenAI(model=MODEL, base_url=server.url, api_key="none")


def test_reply_has_text_usage_model_and_reason(server, source, llm):
    server.script(Answer(TEXT, usage=(20, 9), cached=4, reasoning=3, model="m-2026", finish_reason="length"))
    reply = converse(source, llm, plain)
    assert reply.text == TEXT
    assert reply.usage == TokenUsage(input_tokens=20, output_tokens=9, cache_read_tokens=4, reasoning_tokens=3)
    assert (reply.model, reply.finish_reason, reply.tool_calls) == ("m-2026", "length", ())
    assert server.requests[0].messages == [
        {"role": "system", "content": "You are a cook."},
        {"role": "user", "content": "Cook a steak."},
    ]
    assert not server.requests[0].is_streamed


def test_streamed_reply_is_the_same_and_its_pieces_are_its_text(server, source, llm):
    server.default = Answer(TEXT, usage=(20, 9), cached=4, reasoning=3, pause=0.01)  # so that they come one by one
    pieces = []
    assert converse(source, llm, streamed(pieces)) == converse(source, llm, plain)
    assert len(pieces) > 5
    assert "".join(pieces) == TEXT
    assert server.requests[0].is_streamed
    assert server.requests[0].body["stream_options"] == {"include_usage": True}


def test_usage_that_the_server_leaves_out_is_unknown(server, source, llm):
    server.default = Answer(usage=None)
    assert converse(source, llm, plain).usage == TokenUsage()


@pytest.mark.parametrize("ask", [plain, streamed([])], ids=["plain", "streamed"])
@pytest.mark.parametrize("answer", [Answer(None), Answer(""), Answer(raw=b'{"choices":[]}', ignores_stream=True)])
def test_empty_reply_is_an_empty_text(server, source, llm, answer, ask):
    server.script(answer)
    reply = converse(source, llm, ask)
    assert (reply.text, reply.tool_calls) == ("", ())


@pytest.mark.parametrize("ask", [plain, streamed([])], ids=["plain", "streamed"])
@pytest.mark.parametrize(
    "calls, expected",
    [
        ([("search", {"q": "a"})], [("call_1", "search", {"q": "a"})]),
        ([("x1", "search", {"q": "a"}), ("x2", "look", {})], [("x1", "search", {"q": "a"}), ("x2", "look", {})]),
        ([("search", "")], [("call_1", "search", {})]),
        ([("search", "null")], [("call_1", "search", {})]),
        ([("search", '{"q": "a"')], [("call_1", "search", '{"q": "a"')]),
        ([("search", '"a"')], [("call_1", "search", "a")]),
        ([("search", "[1, 2]")], [("call_1", "search", [1, 2])]),
        (
            [("a", "search", '{"q": '), ("b", "search", {"q": "b"}), ("c", "search", "7")],
            [("a", "search", '{"q": '), ("b", "search", {"q": "b"}), ("c", "search", 7)],
        ),
    ],
)
def test_tool_calls_come_as_they_were_asked_for(server, source, llm, calls, expected, ask):
    server.script(Answer(None, calls=calls))
    reply = converse(source, llm, ask, tools=[SEARCH])
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == expected
    assert reply.finish_reason == "tool_calls"


def test_tools_are_offered_in_every_turn(server, source, llm):
    server.script(Answer(None, calls=[("search", {"q": "a"})]))
    converse(source, llm, answer_all("found"), plain, tools=[SEARCH])
    for request in server.requests:
        (tool,) = request.body["tools"]
        assert tool["type"] == "function"
        assert tool["function"]["name"] == "search"
        assert tool["function"]["parameters"]["required"] == ["q"]


@pytest.mark.parametrize("arguments", ['{"q": "a"}', '{"q": ', '"a"'])
def test_next_request_repeats_what_was_said(server, source, llm, arguments):
    server.script(Answer("Looking.", calls=[("call_9", "search", arguments)]))
    converse(source, llm, answer_all("found"), plain, tools=[SEARCH])
    *_, asked, answered = server.requests[1].messages
    (call,) = asked["tool_calls"]
    assert asked["content"] == "Looking."
    assert (call["id"], call["function"]) == ("call_9", {"name": "search", "arguments": arguments})
    assert answered["role"] == "tool"
    assert (answered["tool_call_id"], answered["content"]) == ("call_9", "found")


def test_missing_ids_are_made_up_and_fit_the_answers(server, source, llm):
    server.script(
        Answer(None, calls=[(None, "search", {"q": "a"}), (None, "search", {"q": "b"})]),
        Answer(None, calls=[(None, "search", {"q": "c"})]),
    )
    converse(source, llm, answer_all("1"), answer_all("2"), plain, tools=[SEARCH])
    messages = server.requests[2].messages
    asked = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert asked == ["call_1", "call_2", "call_3"]
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == asked


def test_failed_request_leaves_the_conversation_as_it_was(server, source, llm):
    server.script(Answer.status(500), Answer("one two", cut="middle"), "Done.")

    async def failing(conversation):
        with pytest.raises(Exception, match=r"."):
            await conversation.reply()

    async def failing_stream(conversation):
        with pytest.raises(Exception, match=r"."):
            await conversation.reply([].append)

    assert converse(source, llm, failing, failing_stream, plain).text == "Done."
    first, second, third = server.requests
    assert first.messages == second.messages == third.messages


@pytest.mark.parametrize("is_streamed", [False, True])
def test_server_sees_at_once_that_a_request_was_cancelled(server, source, llm, is_streamed):
    server.default = Answer("one two three", delay=0 if is_streamed else 60, pause=60)

    async def cancelled(conversation):
        task = asyncio.create_task(conversation.reply([].append if is_streamed else None))
        await server.opened()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.closed(), timeout=30)

    converse(source, llm, cancelled)
    assert server.requests[0].is_disconnected


def test_watcher_that_raises_stops_the_stream(server, source, llm):
    server.default = Answer("one two three", pause=60)

    async def watched(conversation):
        with pytest.raises(ZeroDivisionError):
            await conversation.reply(lambda text: 1 / 0)
        await asyncio.wait_for(server.closed(), timeout=30)

    converse(source, llm, watched)
    assert server.requests[0].is_disconnected


def test_fifty_requests_run_side_by_side(server, source, llm):
    server.default = Answer(until=lambda: server.max_in_flight == 50)

    async def all_at_once():
        port = await source.prepare(llm, print)
        await asyncio.gather(*(port.open("s", str(number)).reply() for number in range(50)))

    asyncio.run(all_at_once())
    assert server.max_in_flight == 50
    assert {request.prompt for request in server.requests} == {str(number) for number in range(50)}


def test_same_json_is_sent_as_by_the_user_s_own_model(server, source):
    model = ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", temperature=0.5, extra_body={"top_k": 5})
    server.script(Answer(None, calls=[("search", {"q": "a"})]))
    converse(source, model, answer_all("found"), plain, tools=[SEARCH])
    tool = {"type": "function", "function": server.requests[1].body["tools"][0]["function"]}
    reply = AIMessage("", tool_calls=[{"name": "search", "args": {"q": "a"}, "id": "call_1"}])
    messages = [("system", "You are a cook."), ("user", "Cook a steak."), reply]
    messages.append({"role": "tool", "content": "found", "name": "search", "tool_call_id": "call_1"})
    asyncio.run(model.bind_tools([tool]).ainvoke(messages))
    ours, theirs = server.requests[1].body, server.requests[2].body
    assert ours | {"messages": []} == theirs | {"messages": []}
    assert [message["role"] for message in ours["messages"]] == ["system", "user", "assistant", "tool"]
    assert ours["messages"][2]["tool_calls"] == theirs["messages"][2]["tool_calls"]


def test_content_blocks_are_flattened_to_text():
    blocks = [{"type": "thinking", "thinking": "hm"}, "Medium ", {"type": "text", "text": "rare."}, {"type": "image"}]
    port = LangChainPort(model=GenericFakeChatModel(messages=iter([AIMessage(blocks)])), name="fake")
    assert asyncio.run(port.open("s", "u").reply()).text == "Medium rare."


class Blocks(GenericFakeChatModel):
    """Streams content blocks, as Anthropic's models do."""

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        from langchain_core.outputs import ChatGenerationChunk

        for block in (
            {"type": "thinking", "thinking": "hm", "index": 0},
            {"type": "text", "text": "Medium ", "index": 1},
            {"type": "text", "text": "rare.", "index": 1},
        ):
            yield ChatGenerationChunk(message=AIMessageChunk(content=[block]))


def test_streamed_content_blocks_are_flattened_to_text_and_kept_whole():
    port = LangChainPort(model=Blocks(messages=iter([])), name="fake")
    conversation, pieces = port.open("s", "u"), []
    assert asyncio.run(conversation.reply(pieces.append)).text == "Medium rare."
    assert pieces == ["Medium ", "rare."]
    kept = conversation._messages[-1]
    assert type(kept) is AIMessage
    assert [block["type"] for block in kept.content] == ["thinking", "text"]


def test_model_that_can_not_stream_gives_its_reply_in_one_piece(source):
    class Silent(FakeListChatModel):
        disable_streaming: bool = True

    pieces = []
    assert converse(source, Silent(responses=["Medium rare."]), streamed(pieces)).text == "Medium rare."
    assert pieces == ["Medium rare."]


def test_model_that_calls_no_tools_is_not_told_of_any(source):
    model = FakeListChatModel(responses=["Medium rare."])
    assert converse(source, model, plain, tools=[SEARCH]).text == "Medium rare."
    assert asyncio.run(source.prepare(model, print)).has_tool_support is False


ODD_ANSWERS = {
    "usage of words": Answer(TEXT, odd_usage='{"prompt_tokens": "many", "completion_tokens": 1}'),
    "wrong sum": Answer(TEXT, odd_usage='{"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 9}'),
    "broken call": Answer("Looking.", calls=[("search", "no JSON"), ("search", {"q": "a"})]),
    "list in one piece": Answer("Looking.", calls=[("search", "[1]")], ignores_stream=True),
}
UNSTREAMED_ODD_ANSWERS = ODD_ANSWERS | {
    "endless number": Answer(TEXT, odd_usage=f'{{"prompt_tokens": {"1" * 5000}, "completion_tokens": 2}}'),
    "no choice": Answer(raw=b'{"model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}'),
}


@pytest.mark.parametrize("odd", UNSTREAMED_ODD_ANSWERS.values(), ids=UNSTREAMED_ODD_ANSWERS)
def test_odd_answer_is_the_same_to_a_spec_and_to_a_users_client(source, server, odd):
    server.default = odd
    user = ChatOpenAI(model=MODEL, base_url=server.url, api_key="k")
    assert converse(source, f"openai:{MODEL}@{server.url}", plain) == converse(source, user, plain)


@pytest.mark.parametrize("odd", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
def test_odd_stream_is_the_same_to_a_spec_and_to_a_users_client(source, server, odd):
    server.default = odd
    user = ChatOpenAI(model=MODEL, base_url=server.url, api_key="k")
    ours, theirs = (converse(source, llm, streamed([])) for llm in (f"openai:{MODEL}@{server.url}", user))
    # The client has told LangChain, and LangChain us, of fields that the server has left out.
    assert (ours.refused_usage is None) == (theirs.refused_usage is None)
    assert dataclasses.replace(ours, refused_usage=None) == dataclasses.replace(theirs, refused_usage=None)


def test_relative_of_chat_openai_finds_what_it_looks_for_in_a_reply(source, server):
    """Such as the reasoning of ChatDeepSeek, which only the client's own type of reply has as an attribute."""

    class Reasoner(ChatOpenAI):
        def _create_chat_result(self, response, generation_info=None):
            result = super()._create_chat_result(response, generation_info)
            said = response.choices[0].message.reasoning_content
            result.generations[0].message.content += f" ({said})"
            return result

    message = '{"role": "assistant", "content": "Rest it.", "reasoning_content": "It is hot."}'
    server.script(Answer(raw=f'{{"choices": [{{"finish_reason": "stop", "message": {message}}}]}}'.encode()))
    model = Reasoner(model=MODEL, base_url=server.url, api_key="k")
    assert converse(source, model, plain).text == "Rest it. (It is hot.)"


@pytest.mark.parametrize("answer", [Answer(TEXT), Answer("Looking.", calls=[("search", {"q": "a"}), ("search", [])])])
def test_server_that_ignores_stream_is_understood_as_it_is(source, server, llm, answer):
    server.script(answer, dataclasses.replace(answer, ignores_stream=True))
    pieces = []
    whole = converse(source, llm, plain)
    streamed_reply = converse(source, llm, streamed(pieces))
    assert (streamed_reply, "".join(pieces)) == (whole, whole.text)
    assert server.requests[1].is_streamed


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(
    "said, kind",
    [
        (b"<!doctype html>\n<title>Sign in</title>" + b" " * 9000 + b"</html>", "text/html"),
        (b'{"detail": "Use /v2, please."}', "application/json"),
        (b"[[]]", "application/json"),
        (b'{"choices": [{"text": "Soup."}]}', "application/json"),
        (b'{"choices": ' + b"[" * 100_000, "application/json"),
    ],
)
def test_what_is_no_reply_is_quoted(source, server, llm, said, kind, is_streamed):
    server.default = Answer(raw=said, content_type=kind, ignores_stream=True)

    async def ask():
        port = await source.prepare(llm, print)
        with pytest.raises(Exception, match=r".") as caught:
            await port.open("You are a cook.", "Cook.").reply((lambda text: None) if is_streamed else None)
        return port.classify(caught.value)

    fault = asyncio.run(ask())
    assert (fault.reason, fault.is_transient) == ("malformed reply", False)
    assert " ".join(said.decode().split())[:20] in fault.advice
    assert "which is no reply of a model; is the address right?" in fault.advice
    assert len(fault.advice) < 250


LONG = 2_000_000
SHAPES = {"letters": "x" * LONG, "braces": "{ " * (LONG // 2), "open": '[{"a":' * (LONG // 6), "quotes": '"' * LONG}


def cut_into_events(text, is_call):
    """The events of a reply that is streamed in pieces, as one answer of the server."""
    deltas = []
    for start in range(0, len(text), 4096):
        function = {"arguments": text[start : start + 4096]} | ({} if start else {"name": "search"})
        call = {"index": 0, "function": function} | ({} if start else {"id": "call_1"})
        deltas.append({"tool_calls": [call]} if is_call else {"content": function["arguments"]})
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"\n\ndata: ".join(json.dumps(chunk).encode() for chunk in chunks)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_call", [False, True], ids=["text", "call"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
def test_long_reply_of_any_shape_takes_seconds_at_most_e67(source, server, llm, shape, is_call, is_streamed):
    text = SHAPES[shape]
    if is_streamed:
        server.script(Answer(raw=cut_into_events(text, is_call)))
    else:
        server.script(Answer(None, calls=[("search", text)]) if is_call else Answer(text))
    started = time.process_time()
    reply = converse(source, llm, streamed([]) if is_streamed else plain, tools=[SEARCH])
    assert time.process_time() - started < 5
    assert (reply.tool_calls[0].arguments if is_call else reply.text) == text


def test_streamed_calls_are_told_apart_by_index_and_id(source, server, llm):
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "search", "arguments": '{"q"'}},
        {"index": 0, "function": {"arguments": ': "x"}'}},
        {"index": 0, "id": "b", "function": {"name": "search", "arguments": '{"q": "y"}'}},
        {"index": 1, "id": "c", "function": {"name": "search", "arguments": ""}},
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}, "finish_reason": None}]} for each in pieces]
    chunks[-1]["choices"][0]["finish_reason"] = "tool_calls"
    server.script(Answer(raw=b"\n\ndata: ".join(json.dumps(chunk).encode() for chunk in chunks)))
    reply = converse(source, llm, streamed([]), tools=[SEARCH])
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [("a", {"q": "x"}), ("b", {"q": "y"}), ("c", {})]
