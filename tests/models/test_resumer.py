"""A source that answers as an earlier run was answered, and asks a real server where that was not."""

import asyncio
import json
from functools import partial

import pytest

from ensemble_notebook import ReviewDecision
from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.review import ON_TIMEOUT, ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.seams.chat_port import ToolAnswer
from ensemble_notebook.models.recording.recorder import ExchangeJournal, ExchangeLog, RecordingSource
from ensemble_notebook.models.recording.resumer import KeptAnswers, ResumingSource
from tests.support.conversation import KEY, SEARCH, converse, failing, plain, streamed
from tests.support.openai_server import Answer

QUESTION = ReviewRequest(subject="output", text="Rest it.", task="cook")


@pytest.fixture
def llm(server):
    return f"openai:m@{server.url}"


@pytest.fixture
def journal():
    """What is kept of a run, as lines of JSON."""
    return []


def keep(line):
    return lambda make_document: line.append(json.dumps(make_document(True)))


@pytest.fixture
def first(source, journal):
    """The source of the run that is resumed later."""
    return RecordingSource(source, ExchangeLog(ExchangeJournal(keep(journal))))


def resume(source, journal):
    """The source of the run that goes on, which adds to the same journal."""
    answers = KeptAnswers(map(json.loads, list(journal)))
    log = ExchangeLog(ExchangeJournal(keep(journal)), last_number=answers.last_number, models=answers.models)
    return ResumingSource(RecordingSource(source, log), answers)


async def kept(conversation):
    """The next reply, which must cost nothing."""
    reply = conversation.take_kept_reply()
    assert reply is not None
    return reply


async def asked(conversation):
    """The next reply, which must be asked for."""
    assert conversation.take_kept_reply() is None
    return await conversation.reply()


def calling(reply, answers):
    """Answer the tool calls of a reply, each by its own function in `answers`, which notes that it was called."""

    async def step(conversation):
        for call in (await reply(conversation)).tool_calls:
            answer = await conversation.run_tool(call, partial(answer_with, answers, call))
            conversation.add_tool_result(call, answer.text)

    return step


async def answer_with(answers, call):
    answers.append(call.arguments)
    if call.arguments == {"q": "stop"} and len(answers) == 1:
        raise asyncio.CancelledError
    return ToolAnswer(f"found {call.arguments['q']}", ToolOutcome.SUCCESS)


def saying(text):
    async def step(conversation):
        conversation.add_user_message(text)

    return step


def test_what_was_answered_is_not_asked_again(server, source, first, journal, llm):
    server.script("Rest it.", "Slice it.")
    converse(first, llm, streamed([]), saying("And then?"), plain)
    assert all("pieces" not in json.loads(line).get("reply", {}) for line in journal)
    again = resume(source, journal)
    assert converse(again, llm, kept, saying("And then?"), kept).text == "Slice it."
    assert len(server.requests) == 2


def test_conversation_goes_on_where_it_stopped_with_the_same_messages(server, source, first, journal, llm):
    server.script(Answer(None, calls=[("search", {"q": "steak"}), ("search", "{broken")]), "Rest it.", "Slice it.")

    async def ignored(conversation):
        for call in (await kept_or_asked(conversation)).tool_calls:
            conversation.add_tool_result(call, "five minutes")

    async def kept_or_asked(conversation):
        return conversation.take_kept_reply() or await conversation.reply()

    converse(first, llm, ignored, plain, tools=[SEARCH])
    cut = [line for line in journal if json.loads(line).get("exchange") != 2]
    assert converse(resume(source, cut), llm, ignored, asked, tools=[SEARCH]).text == "Slice it."
    assert server.requests[2].body["messages"] == server.requests[1].body["messages"]


def test_equal_requests_are_answered_in_order_and_once_each(server, source, first, journal, llm):
    server.script("One.", "Two.", "Three.")
    converse(first, llm, plain)
    converse(first, llm, plain)
    again = resume(source, journal)
    assert [converse(again, llm, step).text for step in (kept, kept, asked)] == ["One.", "Two.", "Three."]


def test_request_that_differs_in_a_character_is_asked(server, source, first, journal, llm):
    server.script("Rest it.", "Fry it.")
    converse(first, llm, plain)
    assert converse(resume(source, journal), llm, asked, user="Cook a steak!").text == "Fry it."


def test_failed_request_is_asked_again(server, source, first, journal, llm):
    server.script(Answer.status(500), "Rest it.")
    converse(first, llm, failing(Exception))
    assert converse(resume(source, journal), llm, asked).text == "Rest it."


def test_reply_in_which_a_secret_was_masked_is_asked_again(server, source, first, journal, llm):
    server.script(f"The key is {KEY}.", "No key.")
    converse(first, llm, plain)
    assert KEY not in "".join(journal)
    assert converse(resume(source, journal), llm, asked).text == "No key."


def test_resumed_run_can_be_resumed_itself(server, source, first, journal, llm):
    server.script("Rest it.", "Slice it.", "Serve it.")
    converse(first, llm, plain)
    more, most = saying("And then?"), saying("And at last?")
    converse(resume(source, journal), llm, kept, more, asked)
    assert converse(resume(source, journal), llm, kept, more, kept, most, asked).text == "Serve it."
    assert converse(resume(source, journal), llm, kept, more, kept, most, kept).text == "Serve it."
    assert len(server.requests) == 3


def test_what_a_tool_did_to_its_arguments_afterwards_is_not_kept(server, source, llm):
    class RefusalError(Exception):
        pass

    pending, value, error = [], {"minutes": [5]}, RefusalError("five")
    source = RecordingSource(source, ExchangeLog(ExchangeJournal(pending.append)))
    server.script(Answer(None, calls=[("search", {"q": ["steak"]})]))

    async def answer(call):
        call.arguments["q"].append("chicken")
        return ToolAnswer("five minutes", ToolOutcome.FAILURE, error, value=value)

    async def step(conversation):
        reply = await conversation.reply()
        (call,) = reply.tool_calls
        await conversation.run_tool(call, partial(answer, call))
        call.arguments["q"].append("fish")
        value["minutes"].append(6)
        error.args = ("six",)
        return reply

    converse(source, llm, step, tools=[SEARCH])
    for is_masking in (False, True):  # they are made by the thread that writes, later
        _, asked, begun, used = (make(is_masking) for make in pending)
        assert (begun["begins"], begun["arguments"]) == (True, {"q": ["steak"]})
        assert asked["reply"]["tool_calls"][0]["arguments"] == {"q": ["steak"]}
        assert used["arguments"] == {"q": ["steak", "chicken"]}
        assert (used["value"], used["error"], used["message"]) == ({"minutes": [5]}, "RefusalError", "five")


def test_tool_that_has_answered_is_not_called_again_and_one_that_was_stopped_is(server, source, first, journal, llm):
    called = []
    server.script(Answer(None, calls=[("search", {"q": "steak"}), ("search", {"q": "stop"})]), "Rest it.")

    async def stopped(conversation):
        calls = (await conversation.reply()).tool_calls
        await conversation.run_tool(calls[0], lambda: answer_with(["once before"], calls[0]))
        with pytest.raises(asyncio.CancelledError):
            await conversation.run_tool(calls[1], lambda: answer_with([], calls[1]))

    converse(first, llm, stopped, tools=[SEARCH])
    called.append("the second time")
    converse(resume(source, journal), llm, calling(kept, called), asked, tools=[SEARCH])
    assert called == ["the second time", {"q": "stop"}]
    told = [each["content"] for each in server.requests[1].body["messages"] if each["role"] == "tool"]
    assert told == ["found steak", "found stop"]
    converse(resume(source, journal), llm, calling(kept, called), kept, tools=[SEARCH])
    assert len(server.requests) == 2
    assert len(called) == 2


def review(source, decision, asked, request=QUESTION):
    async def ask():
        asked.append(request.text)
        return decision if isinstance(decision, ReviewAnswer) else ReviewAnswer(decision)

    return asyncio.run(source.review(request, ask))


def test_review_that_was_given_is_not_asked_again(source, first, journal):
    asked = []
    review(first, ReviewDecision.retry("shorter"), asked)
    again = resume(source, journal)
    assert again.has_reviews
    answer = review(again, ReviewDecision.approve(), asked)
    assert (answer.decision, answer.is_kept) == (ReviewDecision.retry("shorter"), True)
    assert review(again, ReviewDecision.approve(), asked) == ReviewAnswer(ReviewDecision.approve())
    assert len(asked) == 2


@pytest.mark.parametrize(
    "decision",
    [
        ReviewDecision.reject("no"),
        ReviewDecision.exit_early(),
        ReviewAnswer(ReviewDecision.approve(), ON_TIMEOUT),
        ReviewDecision.edit(f"use {KEY}"),
    ],
)
def test_who_rejected_left_was_late_or_told_a_secret_is_asked_again(source, first, journal, decision):
    review(first, decision, [])
    assert review(resume(source, journal), ReviewDecision.approve(), asked := []).decision.verdict == "approve"
    assert asked


def test_documents_that_are_not_whole_are_asked_again(server, source, first, journal, llm):
    server.script("Rest it.", "Slice it.", "Rest it longer.", "Slice it thinner.")
    more = saying("And then?")
    converse(first, llm, plain, more, plain)
    for broken in ({"exchange": 1}, {"exchange": "one", "reply": 3}, {"exchange": 1, "continues": 7}, {"tool": 4}, {}):
        kept_lines = [journal[0], json.dumps(broken), *journal[2:]]
        answers = KeptAnswers(map(json.loads, kept_lines))
        assert answers.last_number == 2
        assert not answers.has_reviews
    assert converse(resume(source, kept_lines), llm, asked, more, asked).text == "Slice it thinner."
