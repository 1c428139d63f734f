"""What errors mean (E30): from real replies of a real server, and by the shapes that other packages give them."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TokenUsage
from ensemble_notebook.errors import DeadlineExceededError
from ensemble_notebook.models.langchain.error_classification import classify_error
from ensemble_notebook.models.langchain.scripted_model import ScriptedError
from tests.support.openai_server import Answer

UNKNOWN = TokenUsage()
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "answer, reason, is_transient, usage, advice",
    [
        (Answer.status(400), "400", False, NO_USAGE, "did not accept the request"),
        (Answer.status(400, code="context_length_exceeded"), "400", False, NO_USAGE, "too long"),
        (Answer.status(401), "401", False, NO_USAGE, "OPENAI_API_KEY"),
        (Answer.status(403), "403", False, NO_USAGE, "not for this model"),
        (Answer.status(404), "404", False, NO_USAGE, "name of the model"),
        (Answer.status(408), "408", True, UNKNOWN, "did not accept"),
        (Answer.status(409), "409", True, NO_USAGE, "did not accept"),
        (Answer.status(429), "429", True, NO_USAGE, "limits the rate"),
        (Answer.status(429, code="insufficient_quota"), "429", False, NO_USAGE, "no credit left"),
        (Answer.status(500), "500", True, NO_USAGE, "problem of its own"),
        (Answer.status(503), "503", True, NO_USAGE, "problem of its own"),
        (Answer.status(504), "504", True, UNKNOWN, "problem of its own"),
        (Answer(cut="before"), "connection", True, UNKNOWN, "was cut"),
        (Answer("one two three four", cut="middle"), "connection", True, UNKNOWN, "was cut"),
        (Answer(raw=b'{"choices": ['), "malformed reply", False, UNKNOWN, "which is no reply of a model"),
        (Answer(raw=b"<html>hello</html>"), "malformed reply", False, UNKNOWN, "which is no reply of a model"),
    ],
)
def test_fault_of_a_server(server, source, monkeypatch, answer, streamed, reason, is_transient, usage, advice):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.script(answer)

    async def ask():
        port = await source.prepare(f"openai:m@{server.url}", print)
        with pytest.raises(Exception, match=r".") as caught:
            await port.open("You are X.", "Do it.").reply((lambda text: None) if streamed else None)
        return port.classify(caught.value)

    fault = asyncio.run(ask())
    assert (fault.reason, fault.is_transient, fault.usage) == (reason, is_transient, usage)
    assert advice in fault.advice
    assert "a-key-that-is-secret" not in fault.advice
    assert len(server.requests) == 1


def test_server_that_is_not_there_was_sent_nothing(source, unused_url):
    async def ask():
        port = await source.prepare(f"openai:m@{unused_url}", print)
        with pytest.raises(Exception, match="Connection") as caught:
            await port.open("You are X.", "Do it.").reply()
        return port.classify(caught.value)

    fault = asyncio.run(ask())
    assert (fault.reason, fault.is_transient, fault.usage) == ("connection", True, NO_USAGE)
    assert "server running" in fault.advice


def http_error(status, **headers):
    """An error as the packages of several providers shape them."""
    response = type("Response", (), {"status_code": status, "headers": headers})()
    return type("APIStatusError", (Exception,), {"response": response})("said no")


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:20 GMT"}, 20.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"Retry-After": "3s"}, 3.0),
        ({"retry-after": "1m2.5s"}, 62.5),
        ({"retry-after": "12ms"}, 0.012),
        ({"retry-after": "1 hour, 2 minutes and 3 seconds"}, 3723.0),
        ({"retry-after": "2026-11-21T12:00:20Z"}, 20.0),
        ({"retry-after": "86400"}, 86_400.0),
        ({"retry-after": f"{NOW.timestamp() + 20:.0f}"}, 20.0),
        ({"retry-after": "3 apples"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon", "x-ratelimit-reset-requests": "7s"}, 7.0),
        ({"retry-after": "1", "x-ratelimit-reset-tokens": "6m0s"}, 1.0),
        ({"x-ratelimit-reset-requests": "2m59.56s"}, 179.56),
        ({"x-ratelimit-reset-requests": "12ms", "x-ratelimit-reset-tokens": "1m2.5s"}, 62.5),
        (
            {
                "x-ratelimit-reset-requests": "12ms",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "149984",
            },
            0.012,
        ),
        ({"X-RateLimit-Reset": f"{(NOW.timestamp() + 20) * 1000:.0f}", "X-RateLimit-Remaining": "0"}, 20.0),
        ({"x-ratelimit-reset": f"{NOW.timestamp() + 20:.0f}"}, 20.0),
        ({"x-ratelimit-reset": f"{NOW.timestamp() - 20:.0f}"}, 0.0),
        ({"anthropic-ratelimit-requests-reset": "2026-11-21T12:00:09Z"}, 9.0),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_server_may_say_how_long_to_wait(headers, seconds):
    assert classify_error(http_error(429, **headers), now=NOW).retry_after_s == seconds


def test_what_is_left_of_a_limit_says_nothing_of_another_fault():
    assert classify_error(http_error(503, **{"x-ratelimit-reset-requests": "7s"}), now=NOW).retry_after_s is None


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "33s"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "body, seconds",
    [
        ({"error": {"code": 429, "message": QUOTA, "details": [{"@type": "Help"}, RETRY_INFO]}}, 33.0),
        ([{"error": {"code": 429, "message": QUOTA, "details": [RETRY_INFO]}}], 33.0),
        ({"error": {"message": f"{QUOTA} Please retry in 33.123s.", "details": [RETRY_INFO]}}, 33.123),
        ({"error": {"message": QUOTA, "details": [{"retry_delay": {"seconds": 33}}]}}, 33.0),
        ({"error": {"message": "Rate limit reached for m. Please try again in 3s. Visit a page."}}, 3.0),
        ({"error": {"message": "Please try again in 1m12.5s."}}, 72.5),
        ({"error": {"message": "Please try again in 6ms."}}, 0.006),
        ({"detail": "Please retry after 26 seconds."}, 26.0),
        ({"message": "Too many requests, wait for 2 minutes"}, 120.0),
        ({"error": {"message": "no", "retry_after": 4}}, 4.0),
        ({"error": {"message": "no", "metadata": {"retry_after_seconds": 4}}}, 4.0),
        ({"error": {"message": "no", "metadata": {"headers": {"Retry-After": "7"}}}}, 7.0),
        ({"error": {"message": "no", "metadata": {"headers": {"X-RateLimit-Reset": "1m"}}}}, 60.0),
        ({"error": "Model m is currently loading", "estimated_time": 20.0}, 20.0),
        ({"error": {"message": "Please try again in a moment, or in 3 apples."}}, None),
        ({"error": {"message": "Try again later."}}, None),
    ],
)
def test_server_may_say_in_its_body_how_long_to_wait(server, source, body, streamed, seconds):
    server.script(Answer.status(429, raw=json.dumps(body).encode()))

    async def ask():
        port = await source.prepare(f"openai:m@{server.url}", print)
        with pytest.raises(Exception, match=r".") as caught:
            await port.open("You are X.", "Do it.").reply((lambda text: None) if streamed else None)
        return port.classify(caught.value)

    fault = asyncio.run(ask())
    assert fault.is_transient
    assert fault.retry_after_s == seconds
    assert ("will serve again" in fault.advice) is (seconds is not None and seconds >= 60)


def test_a_map_on_a_free_tier_has_all_of_its_rows(server):
    """Three requests are served, then none until the window is over, which ``RetryInfo`` tells."""
    window = {"ends": 0.0, "left": 0}

    def serve(_):
        if (now := time.monotonic()) >= window["ends"]:
            window.update(ends=now + 0.8, left=3)
        if window["left"]:
            window["left"] -= 1
            return Answer("ok")
        told = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{window['ends'] - now:.3f}s"}
        error = {"code": 429, "message": QUOTA, "status": "RESOURCE_EXHAUSTED", "details": [told]}
        return Answer.status(429, raw=json.dumps([{"error": error}]).encode())

    server.choose = serve
    result = Ensemble(tasks=[Task.of("Say {n}", name="say")], llm=f"openai:m@{server.url}").map(
        [{"n": n} for n in range(6)]
    )
    assert result.frame["raw"].tolist() == ["ok"] * 6


def test_a_day_s_wait_is_told_as_the_time_when_it_is_over():
    fault = classify_error(http_error(429, **{"retry-after": "86400"}), now=NOW)
    assert fault.advice.endswith("The server will serve again at 2026-11-22 12:00 UTC.")


def test_wait_that_is_a_date_counts_from_now():
    later = datetime.now(UTC) + timedelta(seconds=100)
    error = http_error(503, **{"retry-after": later.strftime("%a, %d %b %Y %H:%M:%S GMT")})
    assert 90 < classify_error(error).retry_after_s <= 100


def test_wait_after_a_final_refusal_says_nothing():
    assert classify_error(http_error(401, **{"retry-after": "3"})).retry_after_s is None


def named(name, module="foreign", base=Exception, **facts):
    return type(name, (base,), {"__module__": module, **facts})("something happened")


@pytest.mark.parametrize(
    "error, reason, is_transient",
    [
        (TimeoutError(), "timeout", True),
        (ConnectionResetError(), "connection", True),
        (ConnectionRefusedError(), "connection", True),
        (named("APITimeoutError"), "timeout", True),
        (named("ReadTimeout"), "timeout", True),
        (named("StreamChunkTimeoutError"), "timeout", True),
        (named("APIConnectionError"), "connection", True),
        (named("RemoteProtocolError"), "connection", True),
        (named("OverloadedError", status_code=529), "529", True),
        (named("ClientError", code=429), "429", True),
        (named("APIError", body={"error": {"code": "rate_limit_exceeded"}}), "rate_limit_exceeded", True),
        (ValueError({"message": "The server is overloaded", "type": "server_error"}), "server_error", True),
        (ValueError({"message": "no such thing", "code": 17}), "17", False),
        (named("ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 403}}), "403", False),
        (named("Status", status=500), "500", True),
        (json.JSONDecodeError("Expecting value", "", 0), "malformed reply", False),
        (ScriptedError(429), "429", True),
        (ValueError("a bug"), "ValueError", False),
        (named("Odd", status_code="many", response=3, body=[]), "Odd", False),
    ],
)
def test_errors_are_known_by_their_shape(error, reason, is_transient):
    fault = classify_error(error)
    assert (fault.reason, fault.is_transient) == (reason, is_transient)


def test_cause_tells_what_a_wrapper_does_not():
    wrapper = RuntimeError("it did not work")
    wrapper.__cause__ = http_error(503)
    assert classify_error(wrapper).reason == "503"


def test_an_error_that_is_its_own_cause_is_looked_at_once():
    error = OSError("away")
    error.__cause__ = error
    assert classify_error(error).reason == "OSError"


def test_what_was_only_being_handled_meanwhile_is_no_cause():
    error = ValueError("a bug")
    error.__context__ = TimeoutError()
    assert classify_error(error).reason == "ValueError"


def test_errors_of_our_own_are_never_tried_again():
    error = DeadlineExceededError("model request", 60.0, "a request", "Wait longer.")
    assert classify_error(error).is_transient is False
    assert classify_error(error).usage == UNKNOWN


def test_advice_says_which_key_was_refused():
    assert "MY_KEY" in classify_error(http_error(401), key_variable="MY_KEY").advice
    assert "model object" in classify_error(http_error(401)).advice


def test_an_error_of_ours_inside_a_foreign_one_is_no_fault_of_a_server_e30() -> None:
    ours = DeadlineExceededError("model request", 1.0, "a request", "Raise it.")
    wrapped = RuntimeError("the chain broke")
    wrapped.__cause__ = ours
    assert not classify_error(ours).is_transient
    assert not classify_error(wrapped).is_transient
    wrapped.__cause__ = TimeoutError()
    assert classify_error(wrapped).is_transient


@pytest.mark.parametrize("status, is_transient", [(503, True), (429, True), (401, False), (404, False)])
def test_refusal_that_is_told_in_words_alone_has_its_status(status, is_transient):
    """As the package of NVIDIA's models raises all of them."""
    fault = classify_error(Exception(f"[{status}] scripted\n{{'status': {status}}}"))
    assert (fault.reason, fault.is_transient) == (str(status), is_transient)


@pytest.mark.parametrize(
    "error", [Exception("[503]"), Exception("no [503] "), ValueError("[503] x"), Exception("[200] x")]
)
def test_words_that_begin_otherwise_have_no_status(error):
    assert classify_error(error).reason == type(error).__name__
