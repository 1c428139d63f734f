"""Which fields of a request a server takes, of those that nobody has asked for: learned from what it refuses.

What is learned is remembered for the address as long as the process lives. Knows the JSON of requests and refusals;
nothing of HTTP.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ensemble_notebook.models.openai.endpoint import is_openai_url

_LIMIT: Final = "max_completion_tokens"
_OLD_LIMIT: Final = "max_tokens"
_OTHER: Final = {_LIMIT: _OLD_LIMIT, _OLD_LIMIT: _LIMIT}
_NAMED: Final = re.compile(r"(?<!\w)(stream_options|include_usage|max_completion_tokens|max_tokens)(?!\w)")
# Said of a field that the server knows, with another value.
_OF_VALUE: Final = re.compile(
    r"too (?:large|big|high|long|small|low)|exceed|at (?:most|least)|(?:less|greater|more|larger|smaller|higher) than"
    r"|maximum|minimum|between|above|below|range|invalid value|positive|must be|should be|<=|>=|context",
    re.IGNORECASE,
)
# Said of one that it does not know, also where it lists what it does know ("must be one of ...").
_OF_NAME: Final = re.compile(
    r"(?:unknown|unrecogni[sz]ed|unexpected|unsupported) (?:\w+ )?(?:field|parameter|argument|property|key)(?! value)"
    r"|is (?:unsupported|unknown)|extra (?:inputs|fields)",
    re.IGNORECASE,
)
_REFUSALS: Final = (400, 422)
_CHANGED: Final = "has_changed_request"
# Where a refusal has the request, or a part of it, in it.
_ECHOES: Final = frozenset({"input", "ctx", "body", "request"})


@functools.cache
def find_sent_fields(base_url: str) -> SentFields:
    """Find what is known of an address."""
    return SentFields(base_url)


def has_changed_request(error: BaseException) -> bool:
    """Whether the next request will be another one than that which this error refuses."""
    return getattr(error, _CHANGED, False) is True


class SentFields:
    """The fields that one address is sent.

    Servers know the limit of a reply by its newer or by its older name, and many pass over what they don't know: so
    each is sent both, but for OpenAI's own and Azure's, which refuse that and know the newer one.

    Args:
        base_url: the address.
    """

    def __init__(self, base_url: str) -> None:
        host = f".{urlsplit(base_url).hostname}"
        self._has_one_limit = is_openai_url(base_url) or host.endswith(".azure.com")
        self._refused: set[str] = set()

    def fit(self, body: dict[str, Any]) -> None:
        """Change a request to what the address is known to take."""
        if not self._has_one_limit and (limit := body.get(_LIMIT)) is not None:
            body.setdefault(_OLD_LIMIT, limit)
        for name in self._refused & body.keys():
            value = body.pop(name)
            if name in _OTHER:
                body.setdefault(_OTHER[name], value)

    def learn(self, error: Any, sent: Mapping[str, Any]) -> None:
        """Learn from a refusal which field of the request was too much, and mark the error where there is one.

        A limit is left out under one name only: a reply without any may take all that there is.

        Args:
            error: an ``openai.APIStatusError``.
            sent: the request.
        """
        if error.status_code not in _REFUSALS:
            return
        words = " ".join(_iterate_words(error.body)) or str(error)
        is_of_value = _OF_VALUE.search(words) is not None and _OF_NAME.search(words) is None
        for name in _NAMED.findall(words):
            field = "stream_options" if name == "include_usage" else name
            if field not in sent or (field in _OTHER and (is_of_value or _OTHER[field] in self._refused)):
                continue
            self._refused.add(field)
            setattr(error, _CHANGED, True)
            return


def _iterate_words(said: Any) -> Iterator[str]:
    """Iterate over the texts of a refusal, without the request that it may repeat."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, list):
        for each in said:
            yield from _iterate_words(each)
    elif isinstance(said, Mapping):
        for name, each in said.items():
            if name not in _ECHOES:
                yield from _iterate_words(each)
