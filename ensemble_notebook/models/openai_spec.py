"""Specs of models behind the OpenAI protocol: ``openai:NAME``, ``openai:NAME@URL``, and mappings with an address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self
from urllib.parse import urlsplit

from ensemble_notebook.domain.definitions.agent import split_model_name
from ensemble_notebook.domain.outputs.secrets import mask, protect
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.model_spec import (
    ModelIdentity,
    ModelParameters,
    ModelSpec,
    Notice,
    ServedModel,
    SpecForm,
    make_key_error,
    make_spec_error,
)
from ensemble_notebook.models.openai.endpoint import (
    NO_KEY,
    Endpoint,
    find_url_variable,
    is_trusted_url,
)

_KEY_VARIABLE: Final = "OPENAI_API_KEY"
_OPENAI_NAME: Final = re.compile(r"(?:gpt|chatgpt|o\d)\b", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(?:[^@]*@)?(?:[\w-]+(?:\.[\w-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::\d+)?")
# Where well-known servers listen that speak the same protocol.
_KNOWN_SERVERS: Final = {
    "ollama": "http://localhost:11434/v1",
    "lmstudio": "http://localhost:1234/v1",
    "vllm": "http://localhost:8000/v1",
    "llamacpp": "http://localhost:8080/v1",
}


@dataclass(frozen=True, slots=True)
class OpenAISpec(ModelSpec):
    """A model behind the OpenAI protocol.

    Attributes:
        name: on the server.
        base_url: None for the address of the standard environment variables, else of OpenAI.
        api_key_env: the variable with the key; None for ``OPENAI_API_KEY`` at OpenAI's own address and at that of the
            standard variables, and for no key elsewhere.
    """

    words: ClassVar = ("openai",)
    forms: ClassVar = ("openai:NAME", "openai:NAME@URL")
    examples: ClassVar = ("openai:gpt-4o-mini",)

    name: str
    base_url: str | None = None
    api_key_env: str | None = None

    @classmethod
    def read(cls, word: str, rest: str | None) -> Self | None:
        """Read ``openai:NAME`` and ``openai:NAME@URL``."""
        if rest is None:
            return None
        name, url = split_model_name(rest)
        if not name.strip():
            raise make_spec_error(f"'{word}:' needs the name of a model after the colon, as in '{cls.examples[0]}'.")
        return cls(name.strip(), None if url is None else check_url(url.strip(), before=f"{word}:{name}@"))

    @classmethod
    def guess(cls, text: str) -> str | None:
        """Know OpenAI's models, and other servers that speak its protocol, by their names."""
        if text in cls.words:
            return f"Did you mean 'openai:NAME'? For instance '{cls.examples[0]}'."
        word, _, rest = text.partition(":")
        if server := _KNOWN_SERVERS.get(re.sub(r"[-._]", "", word.lower())):
            return f"For {word} write 'openai:{rest or 'NAME'}@{server}'."
        return f"Did you mean 'openai:{text}'?" if _OPENAI_NAME.match(text) else None

    @property
    def text(self) -> str:
        """As it is written; the variable of the key is no part of it."""
        return f"openai:{self.name}" if self.base_url is None else f"openai:{self.name}@{self.base_url}"

    @property
    def key_variable(self) -> str | None:
        """The variable that is looked at; None where no key is sent."""
        return self.api_key_env or (_KEY_VARIABLE if is_trusted_url(self.base_url) else None)

    def with_key_variable(self, variable: str) -> Self:
        """Copy it with another variable."""
        return replace(self, api_key_env=variable)

    def resolve(self) -> Endpoint:
        """Find address and key, from the spec and the standard environment variables.

        Raises:
            ValidationError: the key's variable is not set, or that of the address has none.
        """
        base_url, variable = self.base_url, self.key_variable
        if base_url is None and (named := find_url_variable()) is not None:
            base_url = check_url(os.environ[named], before=f"{named}=", place=f" in the environment variable {named}")
        if variable is not None and (key := os.environ.get(variable, "").strip()):
            protect(key)
            return Endpoint(self.name, base_url, variable, key)
        if base_url is not None and self.api_key_env is None:
            return Endpoint(self.name, base_url, None, NO_KEY)
        raise make_key_error(f"openai:{self.name}", variable)

    def check(self) -> None:
        """Check whether the key is there."""
        self.resolve()

    def identify(self, parameters: ModelParameters) -> ModelIdentity:
        """Tell OpenAI, or the host of another server, whose prices nobody knows."""
        endpoint = self.resolve()
        key = f"the key in {endpoint.key_variable}" if endpoint.key_variable else "no key"
        server = f"{endpoint.host} with {key}"
        return ModelIdentity(endpoint.name, endpoint.provider, parameters.max_tokens, server)

    async def open(self, parameters: ModelParameters, notice: Notice) -> ServedModel:  # noqa: ARG002
        """Find its address and key."""
        endpoint = self.resolve()
        advice = dict(self._list_advice(endpoint))
        return ServedModel(endpoint=endpoint, key_variable=self.key_variable, advice=advice)

    def _list_advice(self, endpoint: Endpoint) -> Iterator[tuple[int, str]]:
        url = mask(endpoint.url)
        if endpoint.key_variable is None:
            line = f"llm: {{model: {self.name}, base_url: {url}, api_key_env: NAME_OF_ITS_KEY}}"
            told = "The server did not accept a request without a key. Put its key into a variable, and name that one"
            yield 401, f"{told}: {line}."
            yield (
                403,
                f"The server does not serve this model without a key. If it takes one, name its variable: {line}.",
            )
        if not urlsplit(url).path:
            yield 404, f"The server does not know this address, which has no path: most servers are at {url}/v1."

    @classmethod
    def describe(cls) -> tuple[SpecForm, ...]:
        """Say which address and key there are."""
        plain, with_url = cls.forms
        try:
            endpoint = cls("NAME").resolve()
        except ValidationError as error:
            found = SpecForm(spec=plain, meaning="a model of OpenAI", is_ready=False, note=str(error))
        else:
            key = f"key in {endpoint.key_variable}" if endpoint.key_variable else "without a key"
            meaning = f"a model at {mask(endpoint.base_url or 'OpenAI')}"
            found = SpecForm(spec=plain, meaning=meaning, is_ready=True, note=key)
        servers = "Ollama, vLLM, LM Studio, llama.cpp, ..."
        other = SpecForm(spec=with_url, meaning="a model of any OpenAI-compatible server", is_ready=True, note=servers)
        return found, other


def check_url(url: str, *, before: str = "", place: str = "", item: str | None = None) -> str:
    """Give back an address without the slash at its end.

    Args:
        url: the address.
        before: what stands before it in a text, for the hint.
        place: where it stands, in words.
        item: the field of a mapping that it stands in.

    Raises:
        ValidationError: it is none.
    """
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
        parts = None
    # What is no plain host and port is read in different ways, so that programs find different hosts in it.
    is_plain = parts is not None and _AUTHORITY.fullmatch(parts.netloc) and not re.search(r"[\s\\]", url)
    if parts is None or parts.scheme not in ("http", "https") or not has_host or not is_plain:
        hint = f" Did you mean '{before}http://{url}'?" if re.match(r"[\w.-]+(:\d+)?(/|$)", url) else ""
        told = "it must begin with http:// or https:// and the name of a host, as in http://host:8000/v1."
        raise make_spec_error(f"{mask(url)!r}{place} is no address of a server: {told}{hint}", item)
    if "?" in url or "#" in url:
        told = "The address of a server ends with its path, as in http://host/v1"
        raise make_spec_error(f"{told}; got {mask(url)!r}{place}.", item)
    return url.rstrip("/")
