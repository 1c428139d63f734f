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
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TokenUsage
from ensemble_notebook.domain.seams.chat_port import Fault
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.errors import EnsembleError, read_http_status
from ensemble_notebook.models.openai.reply_body import MalformedReplyError

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
_NO_CREDIT: Final = re.compile(r"insufficient_quota|billing|credit balance|payment required", re.IGNORECASE)
# Google's words for a limit that is over soon send to the billing page, too.
_OVER_SOON: Final = re.compile(r"RetryInfo|retryDelay|retry in \d")
_NO_CREDIT_ADVICE: Final = "The account has no credit left: see the provider's billing page."
_BUSY: Final = re.compile(r"rate.?limit|overloaded|server_error|unavailable|timed? ?out", re.IGNORECASE)
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
        now: what an HTTP date in ``Retry-After`` counts from; the present, when left out.
    """
    if isinstance(error, EnsembleError):
        return Fault(reason=type(error).__name__, is_transient=False)
    status = _find_status(error)
    if status is not None and status >= 400:
        return _classify_refusal(error, status, key_variable, advice.get(status), now or datetime.now(UTC))
    names = [cls.__name__ for each in _iterate_causes(error) for cls in type(each).__mro__]
    usage = NO_USAGE if any(map(_NEVER_SENT.search, names)) else _UNKNOWN
    if any(map(_TIMEOUT.search, names)):
        return Fault(reason="timeout", is_transient=True, usage=usage, advice="The server did not answer in time.")
    if any(map(_CONNECTION.search, names)):
        sent = "Is the server running, and its address right?" if usage is NO_USAGE else "The connection was cut."
        return Fault(reason="connection", is_transient=True, usage=usage, advice=sent)
    if (said := _find_malformed_reply(error)) is not None:
        return Fault(reason="malformed reply", is_transient=False, advice=_describe_malformed_reply(said))
    if body := _find_body(error):
        is_busy = _BUSY.search(str(body)) is not None
        return Fault(reason=_find_code(body) or "error", is_transient=is_busy, advice=_quote_server("", error) or None)
    return Fault(reason=type(error).__name__, is_transient=False)


def _classify_refusal(
    error: BaseException, status: int, key_variable: str | None, known: str | None, now: datetime
) -> Fault:
    """Classify the answer of a server whose status is an error."""
    said = f"{_find_code(_find_body(error))} {error}"
    has_no_credit = status in (402, 429) and _NO_CREDIT.search(said) is not None and not _OVER_SOON.search(said)
    advice = _NO_CREDIT_ADVICE if has_no_credit else known or _find_advice(status, said, key_variable)
    is_transient = (status in _TRANSIENT or status >= 500) and not has_no_credit
    return Fault(
        reason=str(status),
        is_transient=is_transient,
        retry_after_s=_find_retry_after(error, now) if is_transient else None,
        usage=_UNKNOWN if status in _MAYBE_PAID else NO_USAGE,
        advice=_quote_server(advice, error),
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
    each: BaseException | None = error
    while each is not None and not isinstance(each, EnsembleError):
        yield each
        each = each.__cause__


def _find_status(error: BaseException) -> int | None:
    """Find the HTTP status behind an error."""
    return next((status for each in _iterate_causes(error) if (status := read_http_status(each)) is not None), None)


def _find_body(error: BaseException) -> Mapping[str, Any]:
    """Find what the server said about the error, in its JSON."""
    for said in (getattr(error, "body", None), *error.args[:1]):
        if isinstance(said, Mapping):
            return _to_mapping(said.get("error")) or said
    return {}


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
    said = [getattr(error, "body", None)]
    with suppress(Exception):  # a response that nobody has read, or somebody's property
        said.append(getattr(getattr(error, "response", None), "text", None))
    said += [each for each in error.args[:1] if isinstance(each, Mapping)]
    words = mask(next((words for each in said if (words := _find_words(each))), ""))
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}..."


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


def _find_retry_after(error: BaseException, now: datetime) -> float | None:
    """Find the seconds to wait, as the server asked: milliseconds, seconds or an HTTP date."""
    for each in _iterate_causes(error):
        if (wait := _to_seconds(getattr(each, "retry_after", None))) is not None:
            return wait
        headers = getattr(getattr(each, "response", None), "headers", None)
        if headers is None:
            continue
        if (wait := _to_seconds(headers.get("retry-after-ms"))) is not None:
            return wait / 1000
        said = headers.get("retry-after")
        if (wait := _to_seconds(said)) is not None:
            return wait
        if said:
            try:
                return max(0.0, (parsedate_to_datetime(said) - now).total_seconds())
            except (TypeError, ValueError):
                return None
    return None


def _to_seconds(text: object) -> float | None:
    """Convert a text to a finite number >= 0; None where it is none."""
    try:
        number = float(str(text))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
