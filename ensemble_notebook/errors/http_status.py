"""The HTTP status with which a server refused a request, as the errors of its client tell of it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from ensemble_notebook.errors.origin import iterate_causes


def find_http_status(error: BaseException) -> int | None:
    """The HTTP status, 400 or more, with which a server refused what an error or one of its causes tells of.

    Returns:
        None where no server refused anything.
    """
    for each in iterate_causes(error):
        status = read_http_status(each)
        if status is not None and status >= 400:
            return status
    return None


def read_http_status(error: BaseException) -> int | None:
    """The HTTP status that one error has, wherever its package keeps it; None where it has none.

    Not by its class: that would import the client of each provider, and know no other.
    """
    with contextlib.suppress(Exception):  # whatever a property of a foreign error raises
        recorded = getattr(error, "http_status", None)
        if isinstance(recorded, int):
            return recorded
        if any(cls.__name__ == "HttpProcessingError" for cls in type(error).__mro__):
            return None  # aiohttp's own opinion of a reply that it can't read
        response = getattr(error, "response", None)
        for holder, name in ((error, "status_code"), (response, "status_code"), (error, "status"), (error, "code")):
            status = getattr(holder, name, None)
            if isinstance(status, int) and 100 <= status <= 599:
                return int(status)
        facts = response.get("ResponseMetadata") if isinstance(response, Mapping) else None  # botocore
        status = facts.get("HTTPStatusCode") if isinstance(facts, Mapping) else None
        return status if isinstance(status, int) else None
    return None
