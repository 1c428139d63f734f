"""What an exception of a model request means: worth another try, paid for, and what a person can do (E30).

The one place where foreign errors are interpreted. Why not by their classes: that would import the client of each
provider, and know no other. An error is known by the status of its response and by the names of its classes and causes,
which the openai, anthropic, httpx and google packages share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urljoin

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TokenUsage
from ensemble_notebook.domain.seams.chat_port import Fault
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.errors import EnsembleError, read_http_status
from ensemble_notebook.errors.origin import iterate_causes
from ensemble_notebook.models.openai.reply_body import BrokenStreamError, MalformedReplyError
from ensemble_notebook.models.openai.request_fields import has_changed_request

_UNKNOWN: Final = TokenUsage()
_LONGEST_QUOTE: Final = 120
_LONGEST_WORDS: Final = 300
_TRANSIENT: Final = frozenset({408, 409, 429})
# A server that gave up waiting for the reply may have made it, and charged for it.
_MAYBE_PAID: Final = frozenset({408, 504, 524})
_TIMEOUT: Final = re.compile(r"Time(?:d)?[oO]ut")
_CONNECTION: Final = re.compile(
    r"Connect|Network|ProtocolError|ReadError|WriteError|IncompleteRead|gaierror|ServerDisconnected"
)
_NEVER_SENT: Final = re.compile(
    r"ConnectError|ConnectTimeout|PoolTimeout|ConnectionRefused|gaierror|ClientConnectorError"
)
# All that the package of NVIDIA's models tells of a refusal.
_BARE_STATUS: Final = re.compile(r"\[([45]\d\d)\] ")
_NO_CREDIT: Final = re.compile(r"insufficient_quota|billing|credit balance|payment required", re.IGNORECASE)
_NO_CREDIT_ADVICE: Final = "The account has no credit left: see the provider's billing page."
_BUSY: Final = re.compile(r"rate.?limit|overloaded|server_error|unavailable|timed? ?out", re.IGNORECASE)
_STATUS_NAMES: Final = ("code", "status_code", "statusCode", "status", "http_code", "error_code", "type")
_NAMED_STATUS: Final = re.compile(r"\W*(?:(?i:HTTP|error|code|status)\W*)*([45]\d\d)(?=\s*$|\s*[-:,({]|\s+[A-Z])")
# What an error in the middle of a stream says where the same request would have it again.
_FINAL: Final = re.compile(
    r"invalid|unsupported|not.?(?:found|allowed)|permission|forbidden|unauthor|context.?(?:length|window)"
    r"|too many tokens|content.?(?:filter|policy)|moderation|quota|billing|credit",
    re.IGNORECASE,
)
_TOO_LONG: Final = re.compile(r"context.?(?:length|size|window)|too many tokens|prompt is too long", re.IGNORECASE)


def classify_error(
    error: BaseException,
    *,
    key_variable: str | None = None,
    advice: Mapping[int, str] = MappingProxyType({}),
    now: datetime | None = None,
) -> Fault:
    """Decide what `error`, raised by a model, means: whether it is worth another try, and was paid for. Never raises.

    Args:
        error: with its causes.
        key_variable: the environment variable that the key came from, for the advice.
        advice: what to do about a status, where the spec of the model knows better.
        now: what a date at which the server will serve again counts from; the present, when left out.
    """
    if isinstance(error, EnsembleError):
        return Fault(reason=type(error).__name__, is_transient=False)
    status = _find_status(error)
    if status is not None and status >= 300:
        return _classify_refusal(error, status, key_variable, advice.get(status), now or datetime.now(UTC))
    broken = next((each for each in _iterate_causes(error) if isinstance(each, BrokenStreamError)), None)
    if body := _find_body(error):
        code, is_busy = _find_code(body), _BUSY.search(str(body)) is not None
        is_passing = is_busy or (broken is not None and not _FINAL.search(f"{code} {_find_server_words(error)}"))
        reason = code or ("error" if broken is None else "connection")
        now = now or datetime.now(UTC)
        wait_s = _find_said_wait(error, now) if is_passing else None
        told = _add_time(_quote_server("", error), wait_s, now)
        return Fault(reason=reason, is_transient=is_passing, retry_after_s=wait_s, advice=told or None)
    names = [cls.__name__ for each in _iterate_causes(error) for cls in type(each).__mro__]
    usage = NO_USAGE if any(map(_NEVER_SENT.search, names)) else _UNKNOWN
    if any(map(_TIMEOUT.search, names)):
        return Fault(reason="timeout", is_transient=True, usage=usage, advice="The server did not answer in time.")
    if any(map(_CONNECTION.search, names)):
        cut = "The connection was cut." if broken is None else str(broken)
        sent = "Is the server running, and its address right?" if usage is NO_USAGE else cut
        return Fault(reason="connection", is_transient=True, usage=usage, advice=_quote_server(sent, error))
    if (said := _find_malformed_reply(error)) is not None:
        return Fault(reason="malformed reply", is_transient=False, advice=_describe_malformed_reply(said))
    return Fault(reason=type(error).__name__, is_transient=False)


def _classify_refusal(
    error: BaseException, status: int, key_variable: str | None, known: str | None, now: datetime
) -> Fault:
    """Classify the answer of a server whose status is an error."""
    code = _find_code(_find_body(error))
    said = f"{code} {error}"
    has_no_credit = status in (402, 429) and _NO_CREDIT.search(said) is not None
    # Google's words for a limit that is over soon send to the billing page, too.
    has_no_credit = has_no_credit and (code == "insufficient_quota" or _find_said_wait(error, now) is None)
    advice = _NO_CREDIT_ADVICE if has_no_credit else known or _find_advice(status, said, key_variable)
    if status < 400:
        advice = _describe_redirect(error)
    is_transient = (status in _TRANSIENT or status >= 500) and not has_no_credit
    wait_s = _find_wait(error, status, now) if is_transient else None
    return Fault(
        reason=str(status),
        is_transient=is_transient,
        retry_after_s=wait_s,
        has_changed_request=any(map(has_changed_request, _iterate_causes(error))),
        usage=_UNKNOWN if status in _MAYBE_PAID else NO_USAGE,
        advice=_add_time(_quote_server(advice, error), wait_s, now),
    )


def _describe_redirect(error: BaseException) -> str:
    """Say where a server sends the request, which is not followed: prompt and key are for the named address alone."""
    response = next(filter(None, (getattr(each, "response", None) for each in _iterate_causes(error))), None)
    said = _read_headers(error).get("location") or next(
        (where for each in _iterate_causes(error) if (where := _read_headers(each).get("location"))), None
    )
    told = "The server answers with a redirect"
    if not said:
        return f"{told}, and does not say where to: check the base URL."
    asked = str(getattr(getattr(response, "request", None), "url", "") or "")
    try:
        where = mask(urljoin(asked, str(said)))
    except ValueError:
        where = mask(str(said))
    base = where.partition("?")[0].removesuffix("/").removesuffix("/chat/completions")
    return (
        f"{told} to {where}, which is not followed, since prompt and key are for the named address alone. If that is "
        f"the right one, write it in place of the base URL: {base}"
    )


def _find_advice(status: int, said: str, key_variable: str | None) -> str:
    key = f"the key in {key_variable}" if key_variable else "the key that the model object was made with"
    match status:
        case 401:
            return f"The server did not accept {key}. Set a valid one."
        case 403:
            return f"The server accepts {key}, but not for this model."
        case 404:
            return "The server does not know this model or address: check the name of the model and the base URL."
        case 429:
            return "The server limits the rate: wait, or lower max_concurrency."
        case _ if status >= 500:
            return "The server has a problem of its own: try later."
        case _ if _TOO_LONG.search(said):
            return "The prompt is too long for this model: shorten the context, or use a model with a larger window."
    return "The server did not accept the request."


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Iterate over the error and its foreign causes.

    What was merely being handled meanwhile (``__context__``) says nothing about it. Our own errors are not looked
    into: one that ran out of its time inside a user's model is no server that did.
    """
    return takewhile(lambda each: not isinstance(each, EnsembleError), iterate_causes(error))


def _find_status(error: BaseException) -> int | None:
    """Find the HTTP status behind an error; under a good one, that which the server names in what it said."""
    status = next((each for cause in _iterate_causes(error) if (each := read_http_status(cause)) is not None), None)
    if status is None and type(error) is Exception and (said := _BARE_STATUS.match(str(error))):
        return int(said[1])
    return _find_named_status(_find_body(error)) or status if status is None or status < 400 else status


def _find_named_status(body: Mapping[str, Any]) -> int | None:
    """Find the status of an error that came under a good one: a number or a text in one of its fields, or its words."""
    for name in _STATUS_NAMES:
        said = str(body.get(name)).strip()
        if re.fullmatch(r"[45]\d\d", said):
            return int(said)
    words = body.get("message")
    named = _NAMED_STATUS.match(words) if isinstance(words, str) else None
    return int(named[1]) if named else None


def _find_body(error: BaseException) -> Mapping[str, Any]:
    """Find what the server said about the error, in its JSON."""
    for said in (getattr(error, "body", None), *error.args[:1]):
        if isinstance(said, Mapping):
            return _to_mapping(said.get("error")) or said
    body = getattr(error, "body", None)
    return {"message": body} if isinstance(body, str) and body else {}


# --- What a server said beside its status, whatever form it gave that -------------------------------------------------


_WORDS: Final = ("message", "msg", "error", "detail", "details", "errors", "error_description", "title", "reason")
_MARKUP: Final = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*+>", re.DOTALL | re.IGNORECASE)
_LONGEST_BODY: Final = 10_000
_DEEPEST: Final = 10
_MOST_ITEMS: Final = 3


def tell_server_words(error: Exception) -> None:
    """Have an error say what the server said, where its client has left that out, as for all forms but OpenAI's own."""
    words, told = _find_server_words(error), str(error)
    if words and error.args == (told,) and words.removesuffix("...") not in mask(" ".join(told.split())):
        error.args = (f"{told} - {words}",)


def _quote_server(advice: str, error: BaseException) -> str:
    """What the server said, which may be the only thing that explains it, and behind it the advice, where one acts."""
    words = next((words for each in _iterate_causes(error) if (words := _find_server_words(each))), None)
    return f"The server says: {words!r}. {advice}".strip() if words else advice


def _find_server_words(error: BaseException) -> str:
    """Find what a server said by an error, on one line, masked and cut; empty where it said nothing."""
    words = mask(next((words for each in _list_bodies(error) if (words := _find_words(each))), ""))
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}..."


def _list_bodies(error: BaseException) -> list[Any]:
    """List what may be the body of a reply, wherever its client has put it."""
    said = [getattr(error, "body", None)]
    with suppress(Exception):  # a response that nobody has read, or somebody's property
        said.append(getattr(getattr(error, "response", None), "text", None))
    return [*said, *(each for each in (*error.args[:1], getattr(error, "details", None)) if isinstance(each, Mapping))]


def _find_words(said: Any, depth: int = 0) -> str | None:
    """Find the words in what a server said: a text, JSON of any form, a page, or a list of such."""
    if depth > _DEEPEST:
        return None
    if isinstance(said, str):
        return _read_words(said[:_LONGEST_BODY].strip(), depth)
    if isinstance(said, list):
        return "; ".join(words for each in said[:_MOST_ITEMS] if (words := _find_words(each, depth + 1))) or None
    if not isinstance(said, Mapping):
        return None
    inner = (_to_mapping(said.get("metadata")).get("raw"), *(said.get(name) for name in _WORDS))
    words = next((words for each in inner if (words := _find_words(each, depth + 1))), None)
    place = said.get("loc")
    return f"{'.'.join(map(str, place))}: {words}" if words and isinstance(place, list) and place else words


def _read_words(text: str, depth: int) -> str | None:
    if text[:1] in ("{", "["):
        with suppress(ValueError):
            return _find_words(read_json(text), depth + 1) or " ".join(text.split())
    return " ".join(_MARKUP.sub(" ", text).split() if text.startswith("<") else text.split()) or None


def _find_malformed_reply(error: BaseException) -> str | None:
    """Find what a server said that is no reply of a model; None where that is not the fault."""
    for each in _iterate_causes(error):
        if isinstance(each, MalformedReplyError):
            return each.said
        if isinstance(each, json.JSONDecodeError):
            return each.doc
    return None


def _describe_malformed_reply(said: str) -> str:
    start = " ".join(said[: 2 * _LONGEST_QUOTE].split())
    if not start:
        return "The server answered nothing; is the address right?"
    quote = start if len(start) <= _LONGEST_QUOTE else f"{start[:_LONGEST_QUOTE]}..."
    return f"The server answered {mask(quote)!r}, which is no reply of a model; is the address right?"


def _find_code(body: Mapping[str, Any]) -> str | None:
    code = body.get("code") or body.get("type")
    return None if code is None else str(code)


def _to_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# --- When a server will serve again, wherever and in whatever form it says so -----------------------------------------
#
# The header that is for it comes first, in milliseconds, in seconds or as a date, then what the body says, as a field
# or in words. The headers that tell of a limit in general come last, since some servers tell by them when all of a
# limit is free again, which is later. Sources: RFC 9110, 10.2.3; google.rpc.RetryInfo; what OpenAI, Azure, Groq,
# OpenRouter and Hugging Face document of their own.


_UNITS_S: Final = {
    **dict.fromkeys(("ns", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "\u00b5s", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_AMOUNT: Final = re.compile(r"(\d{1,15}(?:\.\d{1,20})?)\s?([a-z\u00b5]{1,12})(?:,?\s?(?:and\s)?(?=\d))?", re.IGNORECASE)
_WAIT_IN_WORDS: Final = re.compile(
    r"(?:try|retry|retrying|wait)(?: again| your request| the request)?(?: in| after| for)?:? (?:about |~)?(?=\d)"
    r"|retry_?delay\W{1,6}(?:seconds\W{1,3})?(?=\d)",
    re.IGNORECASE,
)
_WAIT_FIELD: Final = re.compile(r"retry_?(?:delay|after)(?:_?(ms|s|sec|seconds))?|estimated_time", re.IGNORECASE)
# No wait has so many seconds: it is a time since 1970, in seconds or milliseconds.
_LEAST_TIMESTAMP: Final = 1e9
_LEAST_TIMESTAMP_MS: Final = 1e12
# Below this, nobody needs to be told the time of day.
_LONG_S: Final = 60.0


def _add_time(advice: str, wait_s: float | None, now: datetime) -> str:
    """Add at what time the server will serve again, where that is not soon."""
    if wait_s is None or wait_s < _LONG_S:
        return advice
    try:
        again = now + timedelta(seconds=wait_s)
    except OverflowError:
        return advice
    return f"{advice} The server will serve again at {again:%Y-%m-%d %H:%M} UTC.".lstrip()


def _find_wait(error: BaseException, status: int, now: datetime) -> float | None:
    """Find the seconds to wait, as the server asks; None where it does not say."""
    headers = [_read_headers(each) for each in _iterate_causes(error)]
    own = [_read_wait(getattr(each, "retry_after", None), now) for each in _iterate_causes(error)]
    asked = [*own, *(_read_retry_after(each, now) for each in headers)]
    if (wait := next((each for each in asked if each is not None), None)) is not None:
        return wait
    if (wait := _find_said_wait(error, now)) is not None or status != 429:
        return wait
    return next((wait for each in headers if (wait := _find_reset(each, now)) is not None), None)


def _find_said_wait(error: BaseException, now: datetime) -> float | None:
    """Find the wait in what a server says beside its status: a field of its JSON, or its words; the longer of both."""
    causes = list(_iterate_causes(error))
    waits = [_find_wait_field(body, now) for each in causes for body in _list_bodies(each)]
    texts = [str(each)[:_LONGEST_BODY] for each in causes]
    texts += [_find_words(body) or "" for each in causes for body in _list_bodies(each)]
    for text in texts:
        waits += [_sum_amounts(text[said.end() :]) for said in _WAIT_IN_WORDS.finditer(text)]
    return max((wait for wait in waits if wait is not None), default=None)


def _find_wait_field(said: Any, now: datetime, depth: int = 0) -> float | None:
    if isinstance(said, str) and said.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            said = read_json(said[:_LONGEST_BODY])
    if depth > _DEEPEST or not isinstance(said, Mapping | list):
        return None
    if isinstance(said, list):
        waits = (_find_wait_field(each, now, depth + 1) for each in said)
        return next((wait for wait in waits if wait is not None), None)
    for name, value in said.items():
        if (field := _WAIT_FIELD.fullmatch(str(name))) and (wait := _read_wait(value, now)) is not None:
            return wait / 1000 if field[1] == "ms" else wait
    if isinstance(headers := said.get("headers"), Mapping):  # those of an upstream server
        lower = {str(name).lower(): value for name, value in headers.items()}
        if (wait := _read_retry_after(lower, now)) is not None or (wait := _find_reset(lower, now)) is not None:
            return wait
    return _find_wait_field(list(said.values()), now, depth + 1)


def _read_headers(error: BaseException) -> dict[str, Any]:
    """Read the headers of the reply that an error stands for, names in lower case."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # botocore
        headers = _to_mapping(response.get("ResponseMetadata")).get("HTTPHeaders")
    else:
        headers = getattr(response, "headers", None)
    with suppress(Exception):  # whatever a foreign error has there
        return {str(name).lower(): value for name, value in headers.items()}  # type: ignore[union-attr]
    return {}


def _read_retry_after(headers: Mapping[str, Any], now: datetime) -> float | None:
    wait_ms = _read_wait(headers.get("retry-after-ms"), now)
    return _read_wait(headers.get("retry-after"), now) if wait_ms is None else wait_ms / 1000


def _find_reset(headers: Mapping[str, Any], now: datetime) -> float | None:
    """Find when the limits of which nothing is left are free again; without word of what is left, when all are."""
    names = [name for name in headers if "ratelimit" in name and "reset" in name]
    waits = {name: wait for name in names if (wait := _read_wait(headers[name], now)) is not None}
    used_up = [wait for name, wait in waits.items() if str(headers.get(name.replace("reset", "remaining"))) == "0"]
    return max(used_up or waits.values(), default=None)


def _read_wait(said: Any, now: datetime) -> float | None:
    """Read a finite number of seconds >= 0, a duration such as ``1m2.5s``, or a time; None where it is neither."""
    if isinstance(said, Mapping):  # protobuf's, as JSON of its fields
        said = said.get("seconds")
    text = str(said).strip()
    with suppress(ValueError):
        number = float(text)
        if number >= _LEAST_TIMESTAMP:
            number = max(0.0, number / (1000 if number >= _LEAST_TIMESTAMP_MS else 1) - now.timestamp())
        return number if 0 <= number < float("inf") else None
    if (seconds := _sum_amounts(text, is_all=True)) is not None:
        return seconds
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(TypeError, ValueError):
            time = read(text)
            return max(0.0, (time.replace(tzinfo=time.tzinfo or UTC) - now).total_seconds())
    return None


def _sum_amounts(text: str, *, is_all: bool = False) -> float | None:
    """Add up the amounts of time at the beginning of a text, or in all of it: ``1m2.5s``, ``2 minutes and 5 s``."""
    seconds, end = None, 0
    while (amount := _AMOUNT.match(text, end)) and (unit_s := _UNITS_S.get(amount[2].lower())):
        seconds = (seconds or 0.0) + float(amount[1]) * unit_s
        end = amount.end()
    return None if is_all and end < len(text) else seconds
