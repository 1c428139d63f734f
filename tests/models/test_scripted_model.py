"""Scripts: in order or by what is asked, with tools, failures and delays (E41)."""

import asyncio
import pickle
import re
import threading

import pytest
from langchain_core.tools import tool

from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TokenUsage
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.langchain.scripted_model import Fail, Reply, ScriptedChatModel, ToolUse, count_tokens

SEARCH = ToolSpec(name="search", description="Look it up.", parameters={"type": "object", "properties": {}})


def open_port(source, model, user="Cook a steak.", tools=()):
    return asyncio.run(source.prepare(model, print)).open("You are a cook.", user, tools)


def ask(conversation, *, pieces=None):
    return asyncio.run(conversation.reply(None if pieces is None else pieces.append))


def play(source, model, user="Cook a steak."):
    return ask(open_port(source, model, user)).text


def test_replies_come_in_order(source):
    model = ScriptedChatModel(replies=["one", Reply("two"), lambda messages: f"{len(messages)} messages"])
    assert [play(source, model) for _ in range(3)] == ["one", "two", "2 messages"]


def test_used_up_script_says_so(source):
    model = ScriptedChatModel(replies=["one"])
    play(source, model)
    with pytest.raises(LookupError, match=r"no answer left; it had 1 reply\."):
        play(source, model)


@pytest.mark.parametrize("pieces", [None, []])
def test_reply_that_was_stopped_is_still_to_come(source, pieces):
    script = [Reply("late", delay=0.3), "next"]
    for model in (ScriptedChatModel(replies=script), ScriptedChatModel.match({"steak": script})):
        stopped = open_port(source, model).reply(None if pieces is None else pieces.append)
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(stopped, 0.01))
        assert play(source, model) == "late"


def test_default_follows_the_replies(source):
    model = ScriptedChatModel(replies=["one"], default="more")
    assert [play(source, model) for _ in range(3)] == ["one", "more", "more"]


def test_first_rule_that_fits_answers(source):
    model = ScriptedChatModel.match(
        {
            "STEAK": "Medium rare.",
            re.compile(r"pasta|rice\b"): "Al dente.",
            lambda messages: messages[-1].text.isupper(): "Don't shout.",
        },
        default="Served.",
    )
    asked = ["Cook a steak.", "Boil rice.", "NOW", "Clean up."]
    assert [play(source, model, each) for each in asked] == ["Medium rare.", "Al dente.", "Don't shout.", "Served."]


def test_prompt_without_a_rule_is_named(source):
    with pytest.raises(LookupError, match=re.escape("no answer to 'Cook a steak.'")):
        play(source, ScriptedChatModel.match({"pasta": "Al dente."}))


def test_list_is_played_in_each_conversation_from_its_start(source):
    model = ScriptedChatModel.match({"steak": [ToolUse("search", {"q": "steak"}), "Medium rare."]})
    for _ in range(2):
        conversation = open_port(source, model, tools=[SEARCH])
        (call,) = ask(conversation).tool_calls
        conversation.add_tool_result(call, "54 degrees")
        assert ask(conversation).text == "Medium rare."
        with pytest.raises(LookupError, match="2 answers here, and the conversation went on"):
            ask(conversation)


def test_list_goes_on_where_a_conversation_is_taken_up_in_its_middle(source):
    model = ScriptedChatModel.match({"steak": [ToolUse("search", {"q": "steak"}), Fail(429), "Medium rare."]})
    first = open_port(source, model, tools=[SEARCH])
    reply = ask(first)
    first.add_tool_result(reply.tool_calls[0], "54 degrees")
    with pytest.raises(Exception, match="429"):
        ask(first)
    assert ask(first).text == "Medium rare."
    forked = open_port(source, model, tools=[SEARCH])
    forked.add_reply(reply)
    forked.add_tool_result(reply.tool_calls[0], "60 degrees")
    assert ask(forked).text == "Medium rare."


def test_next_entry_of_a_list_follows_a_failure(source):
    model = ScriptedChatModel.match({"steak": [Fail(500), Fail(429), "Medium rare."]})
    for _ in range(2):
        conversation = open_port(source, model)
        for status in ("500", "429"):
            with pytest.raises(Exception, match=status):
                ask(conversation)
        assert ask(conversation).text == "Medium rare."


def test_parallel_conversations_do_not_disturb_each_other(source):
    model = ScriptedChatModel.match({"steak": [ToolUse("a"), "first"], "pasta": [ToolUse("b"), "second"]})
    one, two = open_port(source, model, "steak"), open_port(source, model, "pasta")
    calls = [ask(one).tool_calls[0], ask(two).tool_calls[0]]
    two.add_tool_result(calls[1], "x")
    one.add_tool_result(calls[0], "x")
    assert [ask(two).text, ask(one).text] == ["second", "first"]


def test_tool_calls_may_be_several_and_odd(source):
    model = ScriptedChatModel(replies=[Reply("Wait.", calls=[ToolUse("a", {"n": 1}), ToolUse("b", "no json")])])
    reply = ask(open_port(source, model))
    assert reply.text == "Wait."
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("a", {"n": 1}), ("b", "no json")]
    assert len({call.id for call in reply.tool_calls}) == 2
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "line, kind, reason, is_transient",
    [
        (Fail(429, retry_after=2), Exception, "429", True),
        (Fail(401), Exception, "401", False),
        (Fail(TimeoutError), TimeoutError, "timeout", True),
        (Fail(ConnectionError("cut")), ConnectionError, "connection", True),
        (ValueError("odd"), ValueError, "ValueError", False),
    ],
)
@pytest.mark.parametrize("pieces", [None, []], ids=["plain", "streamed"])
def test_failure_is_raised_and_classified(source, line, kind, reason, is_transient, pieces):
    port = asyncio.run(source.prepare(ScriptedChatModel(replies=[line]), print))
    with pytest.raises(kind) as caught:
        ask(port.open("s", "u"), pieces=pieces)
    fault = port.classify(caught.value)
    assert (fault.reason, fault.is_transient) == (reason, is_transient)
    assert fault.retry_after_s == getattr(line, "retry_after", None)
    assert (fault.usage == NO_USAGE) is reason.isdigit()


def test_what_is_no_line_of_a_script_is_refused(source):
    with pytest.raises(TypeError, match="not dict"):
        play(source, ScriptedChatModel(replies=[{"text": "hi"}]))


@pytest.mark.parametrize("text", ["", "word", "  Rest it\n\nfor five   minutes. ", "\n"])
def test_stream_comes_word_by_word_and_joins_to_the_reply(source, text):
    pieces = []
    streamed = ask(open_port(source, ScriptedChatModel(replies=[text])), pieces=pieces)
    assert streamed == ask(open_port(source, ScriptedChatModel(replies=[text])))
    assert streamed.text == "".join(pieces) == text


def test_tool_calls_are_streamed_too(source):
    reply = Reply("Wait.", calls=[ToolUse("a", {"n": 1}), ToolUse("b")])
    pieces = []
    assert ask(open_port(source, ScriptedChatModel(replies=[reply])), pieces=pieces) == ask(
        open_port(source, ScriptedChatModel(replies=[reply]))
    )
    assert pieces == ["Wait."]


@pytest.mark.parametrize("pieces", [None, []], ids=["plain", "streamed"])
def test_delays_of_parallel_replies_overlap(source, pieces):
    async def run():
        port = await source.prepare(ScriptedChatModel(default=Reply("a b c", delay=0.2)), print)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        on_token = None if pieces is None else pieces.append
        await asyncio.gather(*(port.open("s", "u").reply(on_token) for _ in range(20)))
        return loop.time() - begun

    # One after the other, they take four seconds. Any one time, the machine may hold them up.
    assert any(0.19 < asyncio.run(run()) < 2 for _ in range(5))


def test_tokens_are_counted_the_same_every_time(source):
    model = ScriptedChatModel(default="Well done, chef!")
    usages = {ask(open_port(source, model)).usage for _ in range(3)}
    assert usages == {TokenUsage(input_tokens=9, output_tokens=5, source="scripted")}
    assert count_tokens("You are a cook. Cook a steak.") == 9


def test_requests_are_recorded(source):
    model = ScriptedChatModel(default="ok")
    ask(open_port(source, model, "Cook.", [SEARCH]))
    (call,) = model.calls
    assert (call.prompt, call.tools) == ("Cook.", ("search",))
    assert [message.type for message in call.messages] == ["system", "human"]


def test_script_in_order_serves_each_request_of_many_threads_once(source):
    model = ScriptedChatModel(replies=[str(number) for number in range(200)])
    got = []

    async def several():
        port = await source.prepare(model, print)
        got.extend([(await port.open("s", "u").reply()).text for _ in range(25)])

    threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got, key=int) == [str(number) for number in range(200)]


def test_script_works_as_any_langchain_model():
    @tool
    def search(q: str) -> str:
        """Look it up."""
        return q

    model = ScriptedChatModel(replies=["plain", ToolUse("search", {"q": "x"}), Fail(500)])
    assert model.invoke("hi").text == "plain"
    assert model.bind_tools([search]).invoke("hi").tool_calls[0]["args"] == {"q": "x"}
    assert model.calls[1].tools == ("search",)
    with pytest.raises(Exception, match="500"):
        model.invoke("hi")


def test_script_pickles():
    model = ScriptedChatModel.match({"steak": ["a", ToolUse("b")]}, default=Reply("c", delay=0.1))
    assert pickle.loads(pickle.dumps(model)).rules == model.rules


def test_models_do_not_share_their_records():
    one, two = ScriptedChatModel(default="a"), ScriptedChatModel(default="b")
    one.invoke("hi")
    assert (len(one.calls), len(two.calls)) == (1, 0)
