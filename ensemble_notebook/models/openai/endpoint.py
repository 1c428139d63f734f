"""Where a model behind the OpenAI protocol is, and with which key. Knows addresses and variables; opens nothing."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from ensemble_notebook.domain.outputs.secrets import protect

# Servers without keys still want the header.
NO_KEY: Final = "none"

_OPENAI_URL: Final = "https://api.openai.com/v1"
# As the openai package reads them; the last one is langchain-openai's.
_ACCOUNT_VARIABLES: Final = {
    "OpenAI-Organization": ("OPENAI_ORG_ID", "OPENAI_ORGANIZATION"),
    "OpenAI-Project": ("OPENAI_PROJECT_ID",),
}
_URL_VARIABLES: Final = ("OPENAI_API_BASE", "OPENAI_BASE_URL")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model on a server.

    Attributes:
        name: of the model.
        base_url: None for OpenAI's own.
        key_variable: where the key came from; None where there was none.
        api_key: never shown.
    """

    name: str
    base_url: str | None
    key_variable: str | None
    api_key: str = field(repr=False)

    @property
    def url(self) -> str:
        """The address, OpenAI's own included."""
        return self.base_url or _OPENAI_URL

    @property
    def host(self) -> str:
        """The server as an address names it, with its port, without user and password."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def provider(self) -> str:
        """Who serves the model."""
        return name_provider(self.url)


def find_url_variable() -> str | None:
    """Find the standard variable that names an address; None where none does, which means OpenAI's own."""
    return next(filter(os.environ.get, _URL_VARIABLES), None)


def find_base_url_of_environment() -> str | None:
    """Find the address that the standard variables name; None where they name none."""
    variable = find_url_variable()
    return None if variable is None else os.environ[variable]


def is_trusted_url(url: str | None) -> bool:
    """Whether the key of the standard variables may go to an address: OpenAI's own, or the host that they name.

    Any other address stands in a cell, which is shared; its server gets a key only where the cell names one for it.
    """
    if url is None:
        return True
    named = find_base_url_of_environment()
    return (is_openai_url(url) and url.startswith("https:")) or (
        named is not None and _find_origin(named) == _find_origin(url)
    )


def _find_origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port of an address; None of what is none, as a variable may have it."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


def read_account_headers() -> dict[str, str]:
    """Read what tells of an account at OpenAI or a gateway because a variable says so; for trusted addresses alone."""
    headers = {
        name: value
        for name, variables in _ACCOUNT_VARIABLES.items()
        if (value := next(filter(None, map(os.environ.get, variables)), None))
    }
    lines = [line.partition(":") for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()]
    return headers | {name.strip(): value.strip() for name, colon, value in lines if colon}


def split_credentials(url: str) -> tuple[str, str | None]:
    """The address without user and password, and the ``Authorization`` that they stand for; None where there are none.

    No client takes an address with credentials beside a header with a key.
    """
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    name, password = unquote(parts.username), unquote(parts.password or "")
    basic = b64encode(f"{name}:{password}".encode()).decode()
    for secret in (password, basic):
        protect(secret)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl(), f"Basic {basic}"


def find_completions_url(base_url: str) -> tuple[str, str | None]:
    """Find where the completions of a server are, and the ``Authorization`` that its address says, if it does.

    Joined by the path, since an address without one would make the host another: ``http://gpuchat``.
    """
    url, basic = split_credentials(base_url)
    return f"{url.rstrip('/')}/chat/completions", basic


def name_provider(url: str) -> str:
    """Name who serves models at an address: OpenAI, or the host of another server, whose prices nobody knows."""
    return "openai" if is_openai_url(url) else urlsplit(url).hostname or ""


def is_openai_url(url: str) -> bool:
    """Whether OpenAI itself is at an address, in any of its regions."""
    return f".{urlsplit(url).hostname}".endswith(".openai.com")
