"""Streams that end before the reply does, and errors under a good status: nothing of them passes for whole (E30)."""

import asyncio
import json

import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TokenUsage
from ensemble_notebook.models.langchain.error_classification import classify_error
from ensemble_notebook.models.openai.reply_body import BrokenStreamError, find_told_error
from tests.support.openai_server import MODEL, Answer

WORDS = ("Rest ", "it ", "well.")
UNKNOWN = TokenUsage()


def event(delta, reason=None, **facts):
    """One event of a stream."""
    chunk = {"id": "1", "object": "chat.completion.chunk", "model": MODEL, **facts}
    return b"data: " + json.dumps(chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}).encode()


def write_stream(*events):
    return b"".join(each + b"\n\n" for each in events)


PIECES = tuple(event({"content": word}) for word in WORDS)
END, DONE = event({}, "stop"), b"data: [DONE]"
WHOLE = write_stream(*PIECES, END, DONE)


@pytest.fixture(params=["spec", "object"])
def llm(request, server):
    if request.param == "spec":
        return f"openai:{MODEL}@{server.url}"
    return ChatOpenAI(model=MODEL, base_url=server.url, api_key="k", max_retries=0)


async def ask(source, llm, pieces, times=1):
    """Ask for a reply, and again in the same conversation after what can pass; the last reply, and what it said."""
    port = await source.prepare(llm, print)
    conversation, faults = port.open("You are a cook.", "Cook."), []
    for _ in range(times):
        pieces.clear()
        try:
            return await conversation.reply(pieces.append), faults
        except Exception as error:  # noqa: BLE001 - what it means is asked of the port
            faults.append(port.classify(error))
    return None, faults


def get_fault(source, llm):
    reply, (fault,) = asyncio.run(ask(source, llm, []))
    assert reply is None
    return fault


@pytest.mark.parametrize("size", range(7, len(WHOLE), 7))
def test_stream_that_is_cut_anywhere_before_its_reason_is_a_lost_connection(server, source, llm, size):
    has_reason = size >= WHOLE.index(END) + len(END)
    server.script(Answer(stream=WHOLE[:size]))
    if has_reason:
        reply, faults = asyncio.run(ask(source, llm, []))
        assert (reply.text, reply.finish_reason, faults) == ("".join(WORDS), "stop", [])
    else:
        fault = get_fault(source, llm)
        assert (fault.reason, fault.is_transient, fault.usage) == ("connection", True, UNKNOWN)
        assert "The connection was cut" in fault.advice


@pytest.mark.parametrize(
    "rest",
    [
        (),
        (event({}, "null"),),
        (event({}, ""),),
        (b": keep-alive",),
        (b"data: <html><body>502 Bad Gateway</body></html>",),
        (b"<html><body>502 Bad Gateway</body></html>",),
        (b"data: no JSON", DONE),
        (b"data: []", DONE),
        (b'data: "a text"', DONE),
        (b"data: null", DONE),
        (b'data: {"choices": [{"index": 0, "delta": {"content": "we',),
        (b'data: {"type": "ping"}',),
        (b"data:",),
    ],
)
def test_stream_without_a_reason_and_an_end_is_a_lost_connection(server, source, llm, rest):
    server.script(Answer(stream=write_stream(*PIECES[:2], *rest)))
    fault = get_fault(source, llm)
    assert (fault.reason, fault.is_transient, fault.usage) == ("connection", True, UNKNOWN)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "said, reason, is_transient, words",
    [
        (b'data: {"error": {"message": "Too busy.", "code": 503}}', "503", True, "Too busy."),
        (b'data: {"error": {"message": "Too busy.", "code": "429"}}', "429", True, "Too busy."),
        (b'data: {"error": "503"}', "503", True, "503"),
        (b'data: {"error": "Too busy."}', "connection", True, "Too busy."),
        (b'data: {"error": ["Too busy."]}', "connection", True, "Too busy."),
        (b'data: {"error": {"message": "It broke.", "type": "engine_died"}}', "engine_died", True, "It broke."),
        (b'data: {"error": {"message": "No.", "code": 400}}', "400", False, "No."),
        (
            b'data: {"error": {"message": "No.", "type": "invalid_request_error"}}',
            "invalid_request_error",
            False,
            "No.",
        ),
        (b'data: {"object": "error", "message": "It broke.", "code": 500}', "500", True, "It broke."),
        (b'data: {"object": "error", "message": "It broke.", "code": 50001}', "50001", True, "It broke."),
        (b'data: {"object": "error", "message": "It broke."}', "connection", True, "It broke."),
        (b'data: {"detail": "It broke."}', "connection", True, "It broke."),
        (b'data: {"detail": [{"msg": "It broke.", "loc": ["body"]}]}', "connection", True, "It broke."),
        (b'data: {"message": "It broke.", "code": 500}', "500", True, "It broke."),
        (b'data: {"message": "It broke."}', "connection", True, "It broke."),
        (b'data: {"errors": [{"message": "It broke."}], "success": false}', "connection", True, "It broke."),
        (b'data: {"type": "error", "error": {"type": "overloaded_error"}}', "overloaded_error", True, ""),
        (b'data: {"choices": [], "error": {"message": "It broke.", "code": 502}}', "502", True, "It broke."),
        (
            b'data: {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"code": 502, "message": "Gone."}}',
            *("502", True, "Gone."),
        ),
        (
            b'data: {"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "Gone."}}]}',
            *("502", True, "Gone."),
        ),
        (b'data: [{"error": {"code": 429, "message": "Later."}}]', "429", True, "Later."),
        (b'event: error\ndata: {"message": "It broke.", "code": 500}', "500", True, "It broke."),
        (b'event: error\ndata: {"error": {"message": "It broke.", "code": 500}}', "500", True, "It broke."),
    ],
)
def test_error_in_a_stream_is_told_in_any_form(server, source, llm, said, reason, is_transient, words, is_first):
    server.script(Answer(stream=write_stream(*(() if is_first else PIECES[:2]), said, DONE)))
    fault = get_fault(source, llm)
    assert (fault.reason, fault.is_transient) == (reason, is_transient)
    assert words in (fault.advice or "")


@pytest.mark.parametrize("status, is_transient", [(500, True), (400, False)])
def test_status_beside_a_text_counts_in_a_stream(server, source, status, is_transient):
    said = json.dumps({"status": status, "error": "It broke."}).encode()
    server.script(Answer(stream=write_stream(*PIECES[:2], b"data: " + said, DONE)))
    fault = get_fault(source, f"openai:{MODEL}@{server.url}")
    assert (fault.reason, fault.is_transient) == (str(status), is_transient)


@pytest.mark.parametrize("said", [b"event: error\ndata: Out of memory", b"error: Out of memory"])
def test_error_of_a_stream_may_be_a_plain_text(server, source, said):
    server.script(Answer(stream=write_stream(*PIECES[:2], said)))
    fault = get_fault(source, f"openai:{MODEL}@{server.url}")
    assert (fault.reason, fault.is_transient) == ("connection", True)
    assert "Out of memory" in fault.advice


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(
    "said, reason, is_transient",
    [
        (b'{"error": {"code": 429, "message": "Later."}}', "429", True),
        (b'{"error": {"code": "503", "message": "Later."}}', "503", True),
        (b'{"error": {"status": 502}}', "502", True),
        (b'{"error": {"status_code": 401, "message": "No."}}', "401", False),
        (b'{"error": "503"}', "503", True),
        (b'{"error": "503 Service Unavailable"}', "503", True),
        (b'{"error": {"message": "Error code: 429 - slow down", "code": null}}', "429", True),
        (b'{"error": {"message": "500 tokens are too few", "code": "odd"}}', "odd", False),
        (b'{"object": "error", "message": "Later.", "code": 503}', "503", True),
        (b'{"message": "Later.", "code": 500}', "500", True),
        (b'{"detail": "Later.", "status": 503}', "503", True),
        (b'{"timestamp": "12:00", "status": 500, "error": "Internal", "path": "/v1"}', "500", True),
        (b'{"error": "No.", "code": 401}', "401", False),
        (b'[{"error": {"code": 429, "message": "Later."}}]', "429", True),
        (b'{"choices": null, "error": {"code": 429}}', "429", True),
        (b'{"choices": [{"error": {"code": 502, "message": "Gone."}, "message": {}}]}', "502", True),
    ],
)
def test_error_under_a_good_status_is_the_status_that_it_names(
    server, source, llm, said, reason, is_transient, is_streamed
):
    server.script(Answer(raw=said, ignores_stream=True))

    async def get():
        port = await source.prepare(llm, print)
        with pytest.raises(Exception, match=r".") as caught:
            await port.open("You are a cook.", "Cook.").reply([].append if is_streamed else None)
        return port.classify(caught.value)

    fault = asyncio.run(get())
    assert (fault.reason, fault.is_transient) == (reason, is_transient)
    if fault.reason in ("429", "503"):
        assert fault.usage == NO_USAGE


@pytest.mark.parametrize(
    "said",
    [
        {"choices": [{"delta": {"content": "a"}}], "error": None},
        {"choices": [{"delta": {"content": "a"}}], "message": "Success", "code": 0},
        {"choices": [], "usage": {"prompt_tokens": 1}},
        {"choices": [], "message": "Success", "code": 0},
        {"usage": {"prompt_tokens": 1}},
        {"type": "ping"},
        {"message": {"role": "assistant", "content": "a"}, "done": True},
        {"choices": [], "prompt_filter_results": [{"content_filter_results": {}}]},
        {},
    ],
)
def test_chunk_that_tells_no_error_is_none(said):
    assert find_told_error(said, is_chunk=True) is None
    assert find_told_error(said, is_chunk=False) is None


def test_server_that_gives_no_reasons_is_asked_for_a_whole_reply_once(server, source, llm):
    cut, whole = Answer(stream=write_stream(*PIECES[:2], DONE)), Answer("Rest it well.", gives_reason=False)
    server.script(cut, whole, cut)
    pieces = []
    reply, (fault,) = asyncio.run(ask(source, llm, pieces, times=2))
    assert (fault.reason, fault.is_transient, fault.usage) == ("connection", True, UNKNOWN)
    assert (reply.text, pieces) == ("Rest it well.", ["Rest it well."])
    reply, faults = asyncio.run(ask(source, llm, pieces))  # from now on its streams end so
    assert (reply.text, faults) == ("Rest it ", [])
    assert [each.is_streamed for each in server.requests] == [True, False, True]
    server.script(Answer(stream=write_stream(*PIECES[:2])))  # this one does not
    assert get_fault(source, llm).reason == "connection"


def test_stream_of_a_server_that_gives_reasons_is_never_whole_without_one(server, source, llm):
    cut = Answer(stream=write_stream(*PIECES[:2], DONE))
    server.script(cut, "Rest it well.", cut, "Rest it well.")
    for _ in range(2):
        reply, faults = asyncio.run(ask(source, llm, [], times=2))
        assert (reply.text, len(faults)) == ("Rest it well.", 1)
    assert [each.is_streamed for each in server.requests] == [True, False, True, False]


def test_whole_reply_that_fails_is_asked_for_again(server, source, llm):
    server.script(Answer(stream=write_stream(*PIECES, DONE)), Answer.status(500), "Rest it well.", "And eat it.")
    reply, faults = asyncio.run(ask(source, llm, [], times=3))
    assert (reply.text, [each.reason for each in faults]) == ("Rest it well.", ["connection", "500"])
    assert [each.is_streamed for each in server.requests] == [True, False, False]


def test_model_object_that_always_streams_is_asked_for_a_whole_reply(server, source):
    llm = ChatOpenAI(model=MODEL, base_url=server.url, api_key="k", streaming=True)
    server.script(Answer(stream=write_stream(*PIECES[:2], DONE)), "Rest it well.")
    reply, _ = asyncio.run(ask(source, llm, [], times=2))
    assert reply.text == "Rest it well."
    assert [each.is_streamed for each in server.requests] == [True, False]


def test_event_that_is_a_page_ends_a_stream_without_causing_itself(server, source, llm):
    server.script(Answer(stream=b"data: <html>Busy</html>\n\n"))

    async def run():
        port = await source.prepare(llm, print)
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - of the package that reads it
            await port.open("s", "u").reply(print)
        return caught.value, port.classify(caught.value)

    error, fault = asyncio.run(run())
    assert error.__cause__ is not error
    assert not fault.is_transient


def test_broken_stream_is_known_as_a_connection_that_was_lost():
    fault = classify_error(BrokenStreamError("The connection was cut: odd."))
    assert (fault.reason, fault.is_transient, fault.usage, fault.advice) == (
        *("connection", True, UNKNOWN),
        "The connection was cut: odd.",
    )
