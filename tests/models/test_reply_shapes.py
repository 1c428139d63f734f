"""Replies in the shapes that servers really send: read alike, whole and streamed, by a spec and by a user's object."""

import asyncio
import json
import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI

from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.langchain.replies import join_chunks, to_model_reply
from ensemble_notebook.models.openai.tool_calls import CallJoiner, ToolCallPiece
from tests.support.openai_server import MODEL, Answer

NAMES = ("read_file", "write_file", "refresh", "read", "_file")
TOOLS = [ToolSpec(name=name, description="", parameters={"type": "object", "properties": {}}) for name in NAMES]


@pytest.fixture(params=["spec", "object"])
def llm(request, server):
    """The same server, by a spec and by a user's object."""
    if request.param == "spec":
        return f"openai:{MODEL}@{server.url}"
    return ChatOpenAI(model=MODEL, base_url=server.url, api_key="none")


def ask(source, llm, *, streams):
    """The reply of a model, the text as it was streamed, and the messages of a second request after the answers."""

    async def run():
        conversation = (await source.prepare(llm, print)).open("You are a cook.", "Cook a steak.", TOOLS)
        pieces = []
        reply = await conversation.reply(pieces.append if streams else None)
        for call in reply.tool_calls:
            conversation.add_tool_result(call, f"result of {call.id}")
        return reply, "".join(pieces)

    return asyncio.run(run())


def whole(message, *, usage=None, finish="stop", **facts):
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return Answer(raw=json.dumps({"id": "1", "model": "m", "choices": [choice], "usage": usage} | facts).encode())


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def events(*chunks):
    """A stream of these chunks, and one more that says why it ends, where none of them does."""
    texts = [json.dumps(each) for each in chunks]
    if not any(re.search(r'"finish_reason": (?!null|""|false|0)', each) for each in texts):
        texts.append(json.dumps(END))
    return Answer(raw="\n\ndata: ".join(texts).encode())


def stream(*deltas, finish="stop", index=0):
    """A stream of these deltas, each in a chunk of its own."""
    choices = [{"index": index, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": index, "delta": {}, "finish_reason": finish})
    return events(*({"id": "1", "model": "m", "choices": [choice]} for choice in choices))


def piece(arguments="", name=None, **facts):
    return facts | {"function": {"arguments": arguments} | ({} if name is None else {"name": name})}


def calls(*pieces):
    return [{"tool_calls": [each]} for each in pieces]


PARTS = [{"type": "text", "text": "Rest "}, "it, ", {"text": "then "}, {"type": "output_text", "text": "eat."}]
MESSAGES = {
    "parts": ({"role": "assistant", "content": PARTS}, "Rest it, then eat."),
    "parts of other kinds": (
        {"content": [{"type": "image_url", "image_url": {"url": "x"}}, *PARTS]},
        "Rest it, then eat.",
    ),
    "a part of no type": (
        {"role": "assistant", "content": [{"type": []}, {"type": {}}, {"type": "text", "text": "Eat."}]},
        "Eat.",
    ),
    "one part": ({"role": "assistant", "content": {"type": "text", "text": "Eat."}}, "Eat."),
    "number": ({"role": "assistant", "content": 7}, "7"),
    "null in parts": ({"role": "assistant", "content": [None, {"type": "text", "text": None}, "Eat."]}, "Eat."),
    "no role": ({"content": "Eat."}, "Eat."),
    "null role": ({"role": None, "content": "Eat."}, "Eat."),
    "model": ({"role": "model", "content": "Eat."}, "Eat."),
    "user": ({"role": "user", "content": "Eat."}, "Eat."),
    "tool": ({"role": "tool", "content": "Eat."}, "Eat."),
    "system": ({"role": "system", "content": "Eat."}, "Eat."),
    "Assistant": ({"role": "Assistant", "content": "Eat."}, "Eat."),
    "names that are numbers": ({"role": "assistant", "content": "Eat.", "id": 7, "name": 8}, "Eat."),
}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("message, text", MESSAGES.values(), ids=MESSAGES)
def test_e84_text_is_read_from_any_shape_of_message(server, source, llm, message, text, streams):
    server.script(stream(message) if streams else whole(message))
    reply, pieces = ask(source, llm, streams=streams)
    assert (reply.text, reply.tool_calls, pieces) == (text, (), text if streams else "")


def test_parts_are_read_piece_by_piece(server, source, llm):
    server.script(
        stream({"role": "assistant", "content": []}, *({"content": [part]} for part in PARTS), {"content": ""})
    )
    reply, pieces = ask(source, llm, streams=True)
    assert reply.text == pieces == "Rest it, then eat."


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("finish", [7, {"type": "stop"}, ["stop"]], ids=str)
def test_facts_of_any_type_are_texts(server, source, llm, finish, streams):
    if streams:
        chunk = {"choices": [{"index": 0, "delta": {"content": "Eat."}, "finish_reason": finish}]}
        server.script(events(chunk))
    else:
        server.script(whole({"content": "Eat."}, finish=finish, model=5))
    reply, _ = ask(source, llm, streams=streams)
    assert (reply.text, reply.finish_reason) == ("Eat.", str(finish))
    assert reply.model in ((None, MODEL) if streams else ("5",))


READ = ("read_file", {"path": "a"})
CALLS = {
    "object": ([piece({"path": "a"}, "read_file", id="c")], [("c", *READ)]),
    "number as id": ([piece('{"path": "a"}', "read_file", id=17)], [("17", *READ)]),
    "empty id": ([piece('{"path": "a"}', "read_file", id="")], [("call_1", *READ)]),
    "no id": ([piece('{"path": "a"}', "read_file")], [("call_1", *READ)]),
    "blank": ([piece(" ", "refresh", id="c")], [("c", "refresh", {})]),
    "null": ([piece(None, "refresh", id="c")], [("c", "refresh", {})]),
    "no function": ([{"id": "c", "name": "read_file", "arguments": {"path": "a"}}], [("c", *READ)]),
    "list": ([piece(["a"], "read_file", id="c")], [("c", "read_file", ["a"])]),
    "no name": ([piece("{}", id="c")], [("c", "", {})]),
    "one id": (
        [piece('{"path": "a"}', "read_file", id="c", index=0), piece('{"path": "b"}', "read_file", id="c", index=1)],
        [("c", *READ), ("call_2", "read_file", {"path": "b"})],
    ),
    "ids that are made up are new": (
        [piece("{}", "read_file", id="call_2", index=0), piece("{}", "refresh", index=1)],
        [("call_2", "read_file", {}), ("call_3", "refresh", {})],
    ),
    "one id for three": (
        [piece("{}", "refresh", id="c", index=index) for index in range(3)],
        [("c", "refresh", {}), ("call_2", "refresh", {}), ("call_3", "refresh", {})],
    ),
}


def show(reply):
    return [(call.id, call.name, call.arguments) for call in reply.tool_calls]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("said, expected", CALLS.values(), ids=CALLS)
def test_e84_calls_are_read_from_any_shape(server, source, llm, said, expected, streams):
    message = {"role": "assistant", "content": None, "tool_calls": said}
    server.script(stream(message, finish="tool_calls") if streams else whole(message, finish="tool_calls"))
    assert show(ask(source, llm, streams=streams)[0]) == expected


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_e84_half_characters_in_a_call_keep_nothing_from_being_sent_again(server, source, llm, streams):
    server.script(Answer(None, calls=[("call_\ud83d", "re\ud83dad", {"path": "a\ud83d"})]), Answer("Well."))

    async def run():
        conversation = (await source.prepare(llm, print)).open("You are a cook.", "Cook a steak.", TOOLS)
        first = await conversation.reply(print if streams else None)
        for call in first.tool_calls:
            conversation.add_tool_result(call, "found")
        return first, await conversation.reply()

    first, second = asyncio.run(run())
    assert [(each.id, each.name, each.arguments) for each in first.tool_calls] == [
        ("call_\ufffd", "re\ufffdad", {"path": "a\ufffd"})
    ]
    assert second.text == "Well."
    asked, answered = server.requests[-1].messages[-2:]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"] == "call_\ufffd"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "function_call": {"name": "read_file", "arguments": '{"path": "a"}'}},
        {"content": "", "tool_calls": {"id": None, "function": {"name": "read_file", "arguments": {"path": "a"}}}},
        {
            "tool_calls": [
                None,
                "soup",
                {"type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}},
            ]
        },
    ],
)
def test_calls_that_stand_elsewhere_are_found(server, source, llm, message, streams):
    server.script(stream(message) if streams else whole(message))
    assert show(ask(source, llm, streams=streams)[0]) == [("call_1", *READ)]


A, B = '{"path": "a"}', '{"path": "b"}'
BOTH = [("read_file", {"path": "a"}), ("read_file", {"path": "b"})]
STREAMS = {
    "name in each piece": (
        [
            piece('{"path"', "read_file", index=0, id="c"),
            *(piece(each, "read_file", index=0) for each in (': "', 'a"}')),
        ],
        BOTH[:1],
    ),
    "name and id in each piece, without index": (
        [piece(each, "read_file", id="c") for each in ('{"path"', ': "a"', "}", "")],
        BOTH[:1],
    ),
    "name in each piece, without id and index": (
        [piece(each, "read_file") for each in ('{"path": ', '"a"', "}")],
        BOTH[:1],
    ),
    "an id anew in each piece": (
        [
            piece(text, name, index=0, id=f"c{n}")
            for n, (text, name) in enumerate([('{"path": ', "read_file"), ('"a"}', None)])
        ],
        BOTH[:1],
    ),
    "an id and the name anew in each piece": (
        [piece(text, "read_file", index=0, id=f"c{n}") for n, text in enumerate(['{"path": ', '"a"', "}"])],
        BOTH[:1],
    ),
    "name in pieces": ([piece("", "read_", index=0, id="c"), piece("", "file", index=0), piece(A, index=0)], BOTH[:1]),
    "name in pieces that are tools in part": (
        [piece("", "read", index=0, id="c"), piece("", "_fi", index=0), piece("", "le", index=0), piece(A, index=0)],
        BOTH[:1],
    ),
    "name as far as it has come": (
        [piece("", "read_", index=0, id="c"), piece("", "read_fi", index=0), piece(A, "read_file", index=0)],
        BOTH[:1],
    ),
    "name after the id": ([piece("", index=0, id="c"), piece("", "read_file", index=0), piece(A, index=0)], BOTH[:1]),
    "name after the arguments": ([piece(A, index=0, id="c"), piece("", "read_file", index=0)], BOTH[:1]),
    "one index, no ids": ([piece(A, "read_file", index=0), piece(B, "read_file", index=0)], BOTH),
    "one index, empty ids": ([piece(each, "read_file", index=0, id="") for each in (A, B)], BOTH),
    "one index, the same id": ([piece(each, "read_file", index=0, id="c") for each in (A, B)], BOTH),
    "one index, other ids": ([piece(each, "read_file", index=0, id=each) for each in (A, B)], BOTH),
    "one index, no ids, in pieces": (
        [
            *(piece('{"path": ', "read_file", index=0), piece('"a"}', index=0)),
            *(piece("", "read_file", index=0), piece('{"path": ', index=0), piece('"b"}', index=0)),
        ],
        BOTH,
    ),
    "one index, no ids, name in each piece": (
        [piece(each, "read_file", index=0) for each in ('{"path": ', '"a"}', '{"path": ', '"b"', "}")],
        BOTH,
    ),
    "one index, other names": (
        [piece("", "refresh", index=0), piece("", "read_file", index=0), piece(A, index=0)],
        [("refresh", {}), *BOTH[:1]],
    ),
    "one index, a name that is the end of another": (
        [piece("", "read", index=0), piece("", "_file", index=0)],
        [("read", {}), ("_file", {})],
    ),
    "no index": ([piece(A, "read_file", id="a"), piece(B, "read_file", id="b")], BOTH),
    "no index and no id": ([piece(A, "read_file"), piece(B, "read_file")], BOTH),
    "an index anew in each piece": (
        [piece('{"path"', "read_file", index=0, id="c"), piece(': "a"}', index=1)],
        BOTH[:1],
    ),
    "index as text": (
        [piece('{"path": ', "read_file", index="0"), piece('"a"}', index="0"), piece(B, "read_file", index="1")],
        BOTH,
    ),
    "index in the first piece alone": ([piece('{"path": ', "read_file", index=0), piece('"a"}')], BOTH[:1]),
    "pieces in turns": (
        [
            *(piece("", "read_file", index=0, id="a"), piece("", "read_file", index=1, id="b")),
            *(piece('{"path": ', index=0), piece('{"path": ', index=1), piece('"a"}', index=0), piece('"b"}', index=1)),
        ],
        BOTH,
    ),
    "pieces in turns on one index": (
        [
            *(piece("", "read_file", index=0, id="a"), piece("", "read_file", index=0, id="b")),
            *(piece('{"path": ', index=0, id="a"), piece('{"path": ', index=0, id="b")),
            *(piece('"a"}', index=0, id="a"), piece('"b"}', index=0, id="b")),
        ],
        BOTH,
    ),
    "objects in objects": (
        [
            piece(each, "write_file", index=0)
            for each in ('{"a": ', '{"b": "}{\\"', '\\\\"}', ', "c": ', '{"d": 1}', "}")
        ],
        [("write_file", {"a": {"b": '}{"\\'}, "c": {"d": 1}})],
    ),
    "object in a piece": (
        [piece({"path": "a"}, "read_file", index=0), piece({"path": "b"}, "read_file", index=0)],
        BOTH,
    ),
    "residue is no call": (
        [piece(A, "read_file", index=0), piece("</tool_call>", index=0)],
        [("read_file", A + "</tool_call>")],
    ),
    "two objects of one call": ([piece(A, "read_file", index=0), piece(B, index=0)], [("read_file", A + B)]),
    "cut": (
        [piece(A, "read_file", index=0, id="a"), piece('{"path', "read_file", index=0, id="b")],
        [("read_file", {"path": "a"}), ("read_file", '{"path')],
    ),
}


@pytest.mark.parametrize("said, expected", STREAMS.values(), ids=STREAMS)
def test_calls_of_a_stream_are_told_apart(server, source, llm, said, expected):
    server.script(stream({"role": "assistant", "content": None}, *calls(*said), finish="tool_calls"))
    reply, _ = ask(source, llm, streams=True)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == expected
    assert len({call.id for call in reply.tool_calls}) == len(expected)


@pytest.mark.parametrize("said, expected", STREAMS.values(), ids=STREAMS)
def test_calls_of_other_providers_streams_are_told_apart(said, expected):
    """LangChain's own way joins by the index alone."""
    chunks = [AIMessageChunk(content="")]
    for each in said:
        function, index = each["function"], each.get("index")
        text = function["arguments"] if isinstance(function["arguments"], str) else json.dumps(function["arguments"])
        piece = {"name": function.get("name"), "args": text, "id": each.get("id"), "index": index}
        chunks.append(AIMessageChunk(content="", tool_call_chunks=[piece]))
    reply = to_model_reply(join_chunks(chunks, lambda: NAMES))
    assert [(call.name, call.arguments) for call in reply.tool_calls] == expected


def test_a_model_of_another_provider_gets_its_calls_told_apart(source):
    pieces = [{"name": "read_file", "args": each, "id": "c", "index": 0, "type": "tool_call_chunk"} for each in (A, B)]

    class Streaming(GenericFakeChatModel):
        def bind_tools(self, tools, **kwargs):
            return self.bind(tools=tools)

        async def _astream(self, *_, **__):
            from langchain_core.outputs import ChatGenerationChunk

            for each in pieces:
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[each]))

    reply, _ = ask(source, Streaming(messages=iter([])), streams=True)
    assert show(reply) == [("c", "read_file", {"path": "a"}), ("call_2", "read_file", {"path": "b"})]


def choices(*said):
    return [{"index": index, "finish_reason": finish} | each for index, (each, finish) in enumerate(said)]


CALL = piece(A, "read_file", id="c")
TWO = {
    "two texts": ([({"content": "Eat."}, "stop"), ({"content": "Wait."}, "stop")], ("Eat.", [])),
    "text and calls": ([({"content": "Eat."}, "stop"), ({"tool_calls": [CALL]}, "tool_calls")], ("Eat.", [READ])),
    "two calls": (
        [({"tool_calls": [CALL]}, "stop"), ({"tool_calls": [piece(B, "read_file", id="d")]}, "stop")],
        ("", [READ]),
    ),
    "calls that were cut": ([({"content": "Eat."}, "stop"), ({"tool_calls": [CALL]}, "length")], ("Eat.", [])),
}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("said, expected", TWO.values(), ids=TWO)
def test_the_first_of_several_choices_is_the_reply(server, source, llm, said, expected, streams):
    messages = choices(
        *(({"message" if not streams else "delta": {"role": "assistant"} | each}, finish) for each, finish in said)
    )
    if streams:
        server.script(events(*({"choices": [each]} for each in messages), {"choices": []}))
    else:
        server.script(Answer(raw=json.dumps({"choices": messages}).encode()))
    reply, pieces = ask(source, llm, streams=streams)
    assert (reply.text, [(call.name, call.arguments) for call in reply.tool_calls]) == expected
    assert pieces == (expected[0] if streams else "")


def test_choices_in_one_chunk_and_in_turns_are_told_apart(server, source, llm):
    chunks = [
        choices(*(({"delta": {"content": text}}, None) for text in pair)) for pair in (("Ea", "Wa"), ("t.", "it."))
    ]
    server.script(events(*({"choices": each} for each in chunks)))
    assert ask(source, llm, streams=True)[1] == "Eat."


@pytest.mark.parametrize("said", [{"delta": None}, {}, {"delta": "soup"}, {"delta": {"content": None}, "index": None}])
def test_chunks_without_a_piece_are_nothing(server, source, llm, said):
    text = {"choices": [{"index": 0, "delta": {"content": "Eat."}}]}
    server.script(
        events(text, {"choices": [said]}, {"choices": [None]}, {"choices": None}, {"choices": {"index": 0}}, text)
    )
    assert ask(source, llm, streams=True)[0].text == "Eat.Eat."


def test_a_whole_message_in_an_event_is_the_reply(server, source, llm):
    message = {"role": "assistant", "content": "Eat.", "tool_calls": [CALL]}
    server.script(events({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    reply, pieces = ask(source, llm, streams=True)
    assert (pieces, show(reply)) == ("Eat.", [("c", *READ)])


COUNTS = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
USAGES = {
    "OpenAI": {"prompt_tokens_details": {"cached_tokens": 900}},
    "DeepSeek": {"prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100},
    "Moonshot": {"cached_tokens": 900},
    "proxy of Anthropic": {"cache_read_input_tokens": 900},
    "both": {"prompt_tokens_details": {"cached_tokens": 900}, "cache_read_input_tokens": 900},
    "details without": {"prompt_tokens_details": {"audio_tokens": 0}, "cached_tokens": 900},
    "null in details": {"prompt_tokens_details": {"cached_tokens": None}, "prompt_cache_hit_tokens": 900},
    "zero in details": {"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 900},
    "null details": {"prompt_tokens_details": None, "prompt_cache_hit_tokens": 900},
    "beside the input": {"prompt_tokens": 100, "total_tokens": 1010, "cache_read_input_tokens": 900},
}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("said", USAGES.values(), ids=USAGES)
def test_what_was_read_from_a_cache_is_known(server, source, llm, said, streams):
    server.script(Answer("Eat.", odd_usage=json.dumps(COUNTS | said)))
    assert ask(source, llm, streams=streams)[0].usage == TokenUsage(
        input_tokens=1000, output_tokens=10, cache_read_tokens=900
    )


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_what_was_written_to_a_cache_is_known(server, source, llm, streams):
    said = {"cache_read_input_tokens": 600, "cache_creation_input_tokens": 300}
    server.script(Answer("Eat.", odd_usage=json.dumps(COUNTS | said)))
    server.script(Answer("Eat.", odd_usage=json.dumps(COUNTS | said | {"prompt_tokens": 100})))
    expected = TokenUsage(input_tokens=1000, output_tokens=10, cache_read_tokens=600, cache_write_tokens=300)
    for _ in range(2):
        assert ask(source, llm, streams=streams)[0].usage == expected


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("said", [{"cached_tokens": 1001}, {"prompt_cache_hit_tokens": -3}, {"cached_tokens": "many"}])
def test_what_can_not_have_been_read_from_a_cache_makes_usage_unknown(server, source, llm, said, streams):
    server.script(Answer("Eat.", odd_usage=json.dumps(COUNTS | said)))
    reply, _ = ask(source, llm, streams=streams)
    assert reply.usage == TokenUsage()
    assert json.loads(reply.refused_usage).items() >= (COUNTS | said).items()


@pytest.mark.parametrize("tier", ["flex", "priority", "default"])
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_service_tier_hides_no_part_of_a_usage(server, source, llm, tier, streams):
    details = {"prompt_tokens_details": {"cached_tokens": 900}, "completion_tokens_details": {"reasoning_tokens": 4}}
    chunk = {"service_tier": tier, "usage": COUNTS | details}
    if streams:
        chunks = [{"choices": [{"index": 0, "delta": {"content": "Eat."}}]}, {"choices": []} | chunk]
        server.script(Answer(raw=events(*chunks).raw, usage=None))
    else:
        server.script(whole({"content": "Eat."}, **chunk))
    usage = ask(source, llm, streams=streams)[0].usage
    assert (usage.cache_read_tokens, usage.reasoning_tokens) == (900, 4)


def test_usage_that_is_told_with_each_chunk_is_counted_once(server, source, llm):
    sums = [COUNTS | {"completion_tokens": count, "total_tokens": 1000 + count} for count in (1, 2, 10)]
    chunks = [{"choices": [{"index": 0, "delta": {"content": "Eat. "}}], "usage": usage} for usage in sums]
    server.script(Answer(raw=events(*chunks).raw, usage=None))
    assert ask(source, llm, streams=True)[0].usage == TokenUsage(input_tokens=1000, output_tokens=10)


def test_usage_in_the_choice_is_counted(server, source, llm):
    last = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": COUNTS | {"cached_tokens": 900}}
    chunks = [{"choices": [{"index": 0, "delta": {"content": "Eat."}}]}, {"choices": [last]}]
    server.script(Answer(raw=events(*chunks).raw, usage=None))
    assert ask(source, llm, streams=True)[0].usage.cache_read_tokens == 900


def test_marks_of_all_calls_are_read_in_time_that_grows_with_them():
    joiner = CallJoiner()
    for _ in range(20_000):
        joiner.add(ToolCallPiece(index=0, name="read_file", arguments='{"a": {}'))
    (call,) = joiner.finish()
    assert len(call.arguments) == 20_000 * 8


# --- Any shape --------------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab{}" ', max_size=4),
    lambda each: (
        st.lists(each, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "index", "signature"]), each, max_size=3)
    ),
    max_leaves=5,
)


def shapes(**fields):
    return st.fixed_dictionaries({}, optional=fields) | values


functions = shapes(
    name=st.sampled_from([*NAMES, None]) | values, arguments=st.sampled_from(["", A, '{"path"', " "]) | values
)
said_calls = shapes(
    index=st.integers(0, 1) | values,
    id=st.sampled_from(["a", "b", "", None]) | values,
    function=functions,
    extra_content=values,
)
deltas = shapes(
    role=values,
    content=st.text("ab ", max_size=3) | values,
    tool_calls=st.lists(said_calls, max_size=2) | values,
    function_call=values,
    reasoning_content=values,
    reasoning_details=st.lists(values, max_size=2) | values,
    refusal=values,
    id=values,
)
said_choices = shapes(
    index=st.integers(0, 1) | values, delta=deltas, message=deltas, finish_reason=values, usage=values
)
replies = st.fixed_dictionaries(
    {"choices": st.lists(said_choices, min_size=1, max_size=2)},
    optional={"usage": values, "model": values, "id": values, "created": values, "service_tier": values},
)


def read_port(source, llm, streams):
    async def run():
        port = await source.prepare(llm, print)
        conversation = port.open("You are a cook.", "Cook a steak.", TOOLS)
        try:
            reply = await conversation.reply((lambda text: None) if streams else None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must be told
            return port.classify(error).reason
        for call in reply.tool_calls:
            conversation.add_tool_result(call, "result")
        await conversation.reply()
        return reply

    return asyncio.run(run())


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_e84_no_shape_of_a_reply_is_an_internal_error(server, source, llm, data, streams):
    server.clear()
    said = data.draw(st.lists(replies, min_size=1, max_size=4) if streams else replies)
    server.script(events(*said) if streams else Answer(raw=json.dumps(said).encode()))
    reply = read_port(source, llm, streams)
    if isinstance(reply, str):
        told = any("error" in each for each in (said if streams else [said]))
        # A reason of another choice than the one that is read says nothing of that.
        assert told or reply in ("malformed reply", "connection")
        return
    assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)
    messages = server.requests[-1].messages
    if reply.tool_calls:
        (asked,) = [each for each in messages if each["role"] == "assistant"]
        assert [each["id"] for each in asked["tool_calls"]] == [
            each["tool_call_id"] for each in messages if each["role"] == "tool"
        ]


CUTS = st.lists(st.integers(0, 40), max_size=4)


@st.composite
def streamed_calls(draw):
    """Calls, and the pieces in which a server of some habits streams them."""
    made = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["read_file", "write_file"]),
                st.dictionaries(
                    st.text('pa{}"\\', max_size=3),
                    st.text('{}"\\ x', max_size=4) | st.just({"b": {}}),
                    min_size=1,
                    max_size=2,
                ),
            ),
            min_size=1,
            max_size=3,
        )
    )
    index, ids, names = (
        draw(st.sampled_from(["own", "one", "none"])),
        draw(st.sampled_from(["own", "each", "one", "empty", "none"])),
        draw(st.booleans()),
    )
    pieces = []
    for number, (name, arguments) in enumerate(made):
        text = json.dumps(arguments)
        cuts = sorted({0, *(cut for cut in draw(CUTS) if cut < len(text)), len(text)})
        for start, end in pairwise(cuts):
            said = piece(text[start:end], name if names or start == 0 else None)
            if index != "none":
                said["index"] = number if index == "own" else 0
            if ids in ("own", "one", "empty") and (start == 0 or ids == "each" or draw(st.booleans())):
                said["id"] = {"own": f"c{number}", "one": "c", "empty": ""}[ids]
            pieces.append(said)
    return made, pieces


@given(streamed_calls())
def test_no_habit_of_a_server_loses_a_call(calls_and_pieces):
    made, pieces = calls_and_pieces
    joiner = CallJoiner(lambda: NAMES)
    for each in pieces:
        joiner.add(ToolCallPiece.read(each))
    assert [(call.name, json.loads(call.arguments)) for call in joiner.finish()] == made
