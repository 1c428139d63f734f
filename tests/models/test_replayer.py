"""Recordings of a real server, played again when it is gone (E42)."""

import asyncio
import pickle
import random
import re
import time

import pytest

from ensemble_notebook import ReplayError, ScriptedChatModel, ValidationError
from ensemble_notebook.domain.outputs.task_output import NO_USAGE
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.models.recording import replayer as replay
from ensemble_notebook.models.recording.recording_file import HEADER, format_document
from ensemble_notebook.models.recording.replayer import ReplayedError, ReplaySource
from tests.support.conversation import KEY, SEARCH, answering, converse, failing, plain, record_to, streamed
from tests.support.openai_server import Answer, OpenAIServer

WHOLE = re.compile(r"(: 2(\n#.*)?(\n--?)?|max_tokens:( null)?|seconds: [\d.]+)\s*$")
MODEL = {
    "name": "m",
    "provider": None,
    "is_scripted": False,
    "calls_tools": True,
    "takes_schema": False,
    "max_tokens": None,
}
ODD_KEY = "no-shape-that-anybody-knows"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lesson.yaml"


@pytest.fixture
def record(path):
    """Records conversations with a server that answers by a script, and is gone afterwards; gives the model's spec."""

    def run(answers, *conversations, llm="openai:m", **default):
        with OpenAIServer(**default) as server:
            server.script(*answers)
            spec = f"openai:m@{server.url}"
            source = record_to(ModelSource(), path)
            for steps, opening in conversations:
                converse(source, spec, *steps, **opening)
        return spec

    return run


def refusal_of(path):
    """What is said against a file, or None."""
    try:
        ReplaySource(path)
    except ReplayError as error:
        return str(error)
    return None


def text_of_refusal(source, llm, *steps, **opening):
    with pytest.raises(ReplayError) as caught:
        converse(source, llm, *steps, **opening)
    return str(caught.value)


def test_recorded_conversation_is_answered_the_same(record, path):
    replies = []

    async def keep(conversation):
        replies.append(await conversation.reply())

    answers = [
        Answer("Let me look.", calls=[("search", {"q": "steak", "n": 1.5}), ("search", "{broken")], usage=(3, 2)),
        Answer("Rest it.\n\n  Slice it. ", usage=(20, 9), cached=4, reasoning=3, model="m-2026"),
    ]
    steps = [answering("found\n"), keep]
    llm = record(answers, (steps, {"tools": [SEARCH]}))
    converse(ReplaySource(path), llm, *steps, tools=[SEARCH])
    assert replies[0] == replies[1]
    assert replies[0].usage.reasoning_tokens == 3


def test_port_says_what_the_recorded_one_said(record, path):
    llm = record(["ok"], ([plain], {}))
    told = []
    source = ReplaySource(path)
    port = asyncio.run(source.prepare(llm, told.append))
    asyncio.run(source.prepare(llm, told.append))
    assert (port.name, port.provider, port.is_scripted, port.has_tool_support) == ("m", "127.0.0.1", False, True)
    assert (port.has_schema_support, port.max_tokens, port.warning) == (False, None, None)
    assert told == []


def test_script_stays_labelled(source, path):
    converse(record_to(source, path), ScriptedChatModel(replies=["Played."]), plain)
    other = ScriptedChatModel(replies=[])
    assert asyncio.run(ReplaySource(path).prepare(other, print)).is_scripted
    assert converse(ReplaySource(path), other, plain).usage.source == "scripted"


def test_streamed_reply_comes_in_the_same_pieces(record, path):
    first, second, third = [], [], []
    # Pieces that come in one read are one, so the server pauses between them.
    llm = record([Answer("Rest it\nfor five minutes.", pause=0.05)], ([streamed(first)], {}))
    assert converse(ReplaySource(path), llm, streamed(second)).text == "Rest it\nfor five minutes."
    assert first == second
    assert len(second) > 3
    path.write_text(path.read_text().replace("five minutes", "ten minutes"))
    assert converse(ReplaySource(path), llm, streamed(third)).text == "Rest it\nfor ten minutes."
    assert third == ["Rest it\nfor ten minutes."]


def test_unstreamed_reply_can_be_listened_to(record, path):
    pieces = []
    llm = record([Answer("Rest it.")], ([plain], {}))
    assert converse(ReplaySource(path), llm, streamed(pieces)).text == "Rest it."
    assert pieces == ["Rest it."]


def test_failure_comes_again_as_the_same_fault(record, path):
    steps = [failing(Exception), failing(Exception), plain]
    llm = record([Answer.status(429, retry_after=7), Answer.status(401), "Rest it."], (steps, {}))
    source = ReplaySource(path)
    faults = []

    async def run():
        port = await source.prepare(llm, print)
        conversation = port.open("You are a cook.", "Cook a steak.")
        for _ in range(2):
            with pytest.raises(ReplayedError) as caught:
                await conversation.reply()
            faults.append(port.classify(caught.value))
        return caught.value, await conversation.reply()

    error, reply = asyncio.run(run())
    assert [(fault.reason, fault.is_transient, fault.retry_after_s) for fault in faults] == [
        ("429", True, 7.0),
        ("401", False, None),
    ]
    assert faults[0].usage == NO_USAGE
    advice = "The server says: 'scripted fault'. The server limits the rate: wait, or lower max_concurrency."
    assert faults[0].advice == advice
    assert (type(error).__name__, str(error)) == ("AuthenticationError", "Error code: 401 - scripted fault")
    assert reply.text == "Rest it."
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy).__name__, str(copy), copy.fault) == ("AuthenticationError", str(error), faults[1])


def test_one_other_character_is_refused_and_shown(record, path):
    llm = record(["ok"], ([plain], {}))
    assert text_of_refusal(ReplaySource(path), llm, plain, user="Cook a steam.") == (
        f"The recording {path} has no answer to this request. The nearest is exchange 1; "
        f"the user message differs in line 1:\n"
        f"  recorded: 'Cook a steak.'\n"
        f"  now:      'Cook a steam.'\n"
        f"                        ^\n"
        f"Record anew: run(record='{path}')."
    )


@pytest.mark.parametrize(
    "change, part",
    [
        ({"system": "You are a cook. "}, "the system message differs in line 1"),
        ({"tools": []}, "where now is nothing more"),
        ({"tools": [SEARCH, SEARCH]}, "nothing more where now is the description of the tool search"),
    ],
)
def test_other_openings_are_refused(record, path, change, part):
    llm = record([Answer()], ([plain], {"tools": [SEARCH]}))
    converse(ReplaySource(path), llm, plain, tools=[SEARCH])
    assert part in text_of_refusal(ReplaySource(path), llm, plain, **{"tools": [SEARCH], **change})


def test_other_result_of_a_tool_is_refused(record, path):
    llm = record([Answer(calls=[("search", {"q": "x"})]), "ok"], ([answering("five"), plain], {"tools": [SEARCH]}))
    refusal = text_of_refusal(ReplaySource(path), llm, answering("six"), plain, tools=[SEARCH])
    assert "the result of the tool search (call_1) differs in line 1" in refusal
    assert "exchange 2" in refusal


def test_other_schema_is_refused(record, path):
    llm = record(["ok"], ([plain], {}))

    async def run(source):
        port = await source.prepare(llm, print)
        await port.open("You are a cook.", "Cook a steak.", (), {"title": "Dish", "type": "object"}).reply()

    with pytest.raises(ReplayError, match="nothing more where now is the schema of the reply"):
        asyncio.run(run(ReplaySource(path)))


def test_more_requests_than_recorded_are_refused(record, path):
    llm = record(["first", "second"], ([plain], {}), ([plain], {}))
    source = ReplaySource(path)
    assert [converse(source, llm, plain).text for _ in range(2)] == ["first", "second"]
    assert "answers this request 2 times (exchange 1), and now it was made once more" in text_of_refusal(
        source, llm, plain
    )


def test_other_model_is_refused(record, path):
    llm = record(["ok"], ([plain], {}))
    assert f"has no model openai:gpt-4o; it has: {llm}. Use the same model, or record anew" in text_of_refusal(
        ReplaySource(path), "openai:gpt-4o", plain
    )


def test_refusal_costs_nothing_and_is_not_tried_again(record, path):
    llm = record(["ok"], ([plain], {}))
    port = asyncio.run(ReplaySource(path).prepare(llm, print))
    fault = port.classify(ReplayError("no answer"))
    assert (fault.is_transient, fault.usage) == (False, NO_USAGE)
    assert not port.classify(RuntimeError("a bug")).is_transient


def test_requests_are_answered_in_whatever_order_they_come(record, path):
    users = [f"Cook dish {number}." for number in range(20)]
    texts = [f"Dish {number}." for number in range(20)]
    llm = record(texts, *(([plain], {"user": user}) for user in users))
    order = list(range(20))
    random.Random(7).shuffle(order)

    async def run():
        port = await ReplaySource(path).prepare(llm, print)
        conversations = [port.open("You are a cook.", users[number]) for number in order]
        return [reply.text for reply in await asyncio.gather(*(each.reply() for each in conversations))]

    assert asyncio.run(run()) == [texts[number] for number in order]


def test_neither_key_nor_server_nor_weights_are_needed(record, path, tmp_path):
    record(["ok"], ([plain], {}))
    source = ReplaySource(path)
    source.check("openai:gpt-4o")
    source.check({"model": "m", "api_key_env": "UNSET_KEY"})
    source.check(f"local:{tmp_path}/none.gguf")
    with pytest.raises(ValidationError, match="names no model"):
        source.check("opnai:gpt-4o")


def test_secrets_in_prompts_do_not_hinder(path, monkeypatch):
    monkeypatch.setenv("ODD_KEY", ODD_KEY)
    asked = {"system": f"Use {KEY}.", "user": f"Or {ODD_KEY}."}
    with OpenAIServer(default=Answer(f"Done with {KEY}.")) as server:
        llm = {"model": "m", "base_url": server.url, "api_key_env": "ODD_KEY"}
        converse(record_to(ModelSource(), path), llm, plain, **asked)
    assert converse(ReplaySource(path), llm, plain, **asked).text == "Done with ***."


def test_key_that_only_the_model_gave_away_is_masked_at_the_replay_too(path, monkeypatch):
    monkeypatch.setattr("ensemble_notebook.domain.outputs.secrets._protected", {})
    monkeypatch.setenv("ODD_KEY", ODD_KEY)
    llm = {"model": "m", "base_url": "http://localhost:9", "api_key_env": "ODD_KEY"}
    name = "openai:m@http://localhost:9"
    request = {"exchange": 1, "model": name, "system": "s", "user": "It is ***."}
    outcome = {"reply": {"text": "ok", "usage": {}}, "seconds": 0.1}
    path.write_text(HEADER + format_document({"llm": name, **MODEL}) + format_document(request | outcome))
    assert converse(ReplaySource(path), llm, plain, system="s", user=f"It is {ODD_KEY}.").text == "ok"


def test_answers_take_no_time_unless_they_are_asked_to(record, path):
    llm = record([Answer("one two three", delay=0.3)], ([plain], {}))
    began = time.perf_counter()
    converse(ReplaySource(path, pace=1.0), llm, streamed([]))
    assert time.perf_counter() - began >= 0.3

    def is_quick():
        began = time.perf_counter()
        converse(ReplaySource(path), llm, plain)
        return time.perf_counter() - began < 0.2

    assert any(is_quick() for _ in range(10))  # any one may be held up by the machine


def test_request_that_was_stopped_gets_no_answer_for_as_long_and_then_says_so(path, record, monkeypatch):
    monkeypatch.setattr(replay, "_PATIENCE_S", 0.0)

    async def stopped(conversation):
        asking = asyncio.ensure_future(conversation.reply())
        await asyncio.sleep(0.1)
        asking.cancel()
        await asyncio.wait([asking])

    llm = record([], ([stopped], {}), default=Answer(delay=30))
    began = time.perf_counter()
    refusal = text_of_refusal(ReplaySource(path), llm, plain)
    assert time.perf_counter() - began >= 0.1
    assert re.match(r"Exchange 1 of the recording .* has no reply: it was stopped after \d+\.\d+ s\. Record", refusal)


@pytest.mark.parametrize("tools", [[], [SEARCH]])
def test_bounds_of_prompts_are_the_recorded_ones(record, path, tools):
    bounds = []

    async def measure(conversation):
        bounds.append(conversation.input_bound())

    steps = [measure, answering("f\N{LATIN SMALL LETTER U WITH DIAERESIS}nf"), measure, plain, measure]
    opening = {"tools": tools, "user": "\N{FIRE}" * 1000}
    llm = record([Answer("Let me see.", calls=[("search", {"q": "steak"})]), "ok"], (steps, opening))
    converse(ReplaySource(path), llm, *steps, **opening)
    assert bounds[:3] == bounds[3:]
    assert bounds[0] > 4000


def test_file_cut_anywhere_is_refused_or_whole(record, path):
    steps = [answering("five\nminutes"), failing(Exception), plain]
    answers = [Answer(calls=[("search", {"q": "x"})]), Answer.status(500), "Rest it.\nSlice it."]
    record(answers, (steps, {"tools": [SEARCH]}))
    text = path.read_text()
    accepted = []
    for end in {*range(0, len(text), 7), *range(len(text) - 100, len(text)), text.index("max_tokens") + 14}:
        path.write_text(text[:end])
        refusal = refusal_of(path)
        if refusal is None:
            accepted.append(text[:end])
        else:
            assert re.match(rf"{re.escape(str(path))}, line \d+: .*Record anew", refusal)
    # Whole but for digits of the time of its last exchange, or for all that comes after its head.
    assert [each for each in accepted if not WHOLE.search(each)] == []


@pytest.mark.parametrize(
    "document, wrong",
    [
        ({"exchange": 1, "seconds": 1.0, "reply": {"text": "ok", "usage": {}}}, "'model' is missing"),
        ({"exchange": 1, "model": "m", "system": "s", "user": "u", "seconds": 1.0}, "'reply' is missing"),
        ({"exchange": 1, "continues": 7, "seconds": 1.0, "stopped": True}, "7 is missing"),
        ({"exchange": 1, "model": "m", "system": 7, "user": "u", "seconds": 1, "stopped": True}, "must be text"),
        ({"exchange": 1, "seconds": 1, "reply": {"text": "x", "usage": {"dollars": 1}}}, "dollars"),
        ({"exchange": 1, "seconds": "long"}, "could not convert"),
        ({"llm": "m"}, "'name' is missing"),
        ({"llm": "m", **MODEL, "max_tokens": "nul"}, "max_tokens can't be 'nul'"),
        ({"other": 1}, "'exchange' is missing"),
    ],
)
def test_mistake_of_an_editor_is_named_with_its_line(path, document, wrong):
    path.write_text(HEADER + format_document(document))
    with pytest.raises(ReplayError, match=rf"lesson\.yaml, line 4: here the recording is not whole: .*{wrong}"):
        ReplaySource(path)


def test_failure_that_is_continued_is_a_mistake(path):
    opening = {"exchange": 1, "model": "m", "system": "s", "user": "u", "stopped": True, "seconds": 1}
    path.write_text(
        HEADER
        + format_document(opening)
        + format_document({"exchange": 2, "continues": 1, "stopped": True, "seconds": 1})
    )
    with pytest.raises(ReplayError, match="exchange 1 has no reply that could be continued"):
        ReplaySource(path)
