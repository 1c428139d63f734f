"""Specs of models of other providers, ``anthropic:NAME``, which LangChain's `init_chat_model` makes.

Reading one imports nothing: the table below says which package each provider needs, so that a mistake can give the line
that installs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar, Final, NamedTuple, Self

from ensemble_notebook.domain.definitions.agent import MAX_RETRY_WAIT
from ensemble_notebook.domain.outputs.secrets import protect
from ensemble_notebook.errors import say_install
from ensemble_notebook.models.langchain.provider_clients import find_single_try
from ensemble_notebook.models.model_spec import (
    MadeModel,
    ModelIdentity,
    ModelParameters,
    ModelSpec,
    Notice,
    SpecForm,
    make_key_error,
    make_spec_error,
)


class Provider(NamedTuple):
    """What a provider needs.

    Attributes:
        package: of LangChain, as it is installed.
        key: the environment variable that its class reads; None where there are several ways to sign in.
    """

    package: str
    key: str | None = None


# `openai` and `ollama` are specs of ours (C4), so they are not among them.
PROVIDERS: Final[Mapping[str, Provider]] = {
    "anthropic": Provider("langchain-anthropic", "ANTHROPIC_API_KEY"),
    "anthropic_bedrock": Provider("langchain-aws"),
    "azure_ai": Provider("langchain-azure-ai"),
    "azure_openai": Provider("langchain-openai", "AZURE_OPENAI_API_KEY"),
    "baseten": Provider("langchain-baseten", "BASETEN_API_KEY"),
    "bedrock": Provider("langchain-aws"),
    "bedrock_converse": Provider("langchain-aws"),
    "bedrock_mantle_anthropic": Provider("langchain-aws"),
    "bedrock_mantle_openai": Provider("langchain-aws"),
    "cohere": Provider("langchain-cohere", "COHERE_API_KEY"),
    "deepseek": Provider("langchain-deepseek", "DEEPSEEK_API_KEY"),
    "fireworks": Provider("langchain-fireworks", "FIREWORKS_API_KEY"),
    "google_anthropic_vertex": Provider("langchain-google-vertexai"),
    "google_genai": Provider("langchain-google-genai", "GOOGLE_API_KEY"),
    "google_vertexai": Provider("langchain-google-vertexai"),
    "groq": Provider("langchain-groq", "GROQ_API_KEY"),
    "huggingface": Provider("langchain-huggingface"),
    "ibm": Provider("langchain-ibm"),
    "langsmith": Provider("langchain-openai", "LANGSMITH_API_KEY"),
    "litellm": Provider("langchain-litellm"),
    "meta": Provider("langchain-meta"),
    "mistralai": Provider("langchain-mistralai", "MISTRAL_API_KEY"),
    "nvidia": Provider("langchain-nvidia-ai-endpoints", "NVIDIA_API_KEY"),
    "openrouter": Provider("langchain-openrouter", "OPENROUTER_API_KEY"),
    "perplexity": Provider("langchain-perplexity", "PPLX_API_KEY"),
    "together": Provider("langchain-together", "TOGETHER_API_KEY"),
    "upstage": Provider("langchain-upstage", "UPSTAGE_API_KEY"),
    "xai": Provider("langchain-xai", "XAI_API_KEY"),
}
_EXAMPLE: Final = "anthropic:claude-sonnet-4-5"
_COMMON: Final = ("temperature", "max_tokens", "top_p", "stop", MAX_RETRY_WAIT)
# What people write for a provider, and what the names of its models begin with.
_MEANT: Final = {
    "azure": "azure_openai",
    "claude": "anthropic",
    "command": "cohere",
    "gemini": "google_genai",
    "google": "google_genai",
    "grok": "xai",
    "hugging_face": "huggingface",
    "mistral": "mistralai",
    "vertexai": "google_vertexai",
}


@dataclass(frozen=True, slots=True)
class ProviderSpec(ModelSpec):
    """A model of another provider, by its class in LangChain.

    Attributes:
        provider: its word in `PROVIDERS`.
        name: what the provider calls the model.
        api_key_env: the variable with the key; None for the provider's own.
    """

    words: ClassVar = tuple(PROVIDERS)
    forms: ClassVar = ("PROVIDER:NAME",)
    examples: ClassVar = (_EXAMPLE,)
    parameters: ClassVar = _COMMON

    provider: str
    name: str
    api_key_env: str | None = None

    @classmethod
    def read(cls, word: str, rest: str | None) -> Self | None:
        """Read ``anthropic:NAME``."""
        return cls(word, rest) if rest else None

    @classmethod
    def guess(cls, text: str) -> str | None:
        """Know providers by what people call them, and models by what their names begin with."""
        word, colon, rest = text.partition(":")
        spelled = re.sub(r"[-.\s]", "_", word.lower())
        if provider := spelled if spelled in PROVIDERS else _MEANT.get(spelled):
            if not rest.strip():
                return f"Did you mean '{provider}:NAME'? With what it calls the model, as '{_EXAMPLE}' has it."
            return f"Did you mean '{provider}:{rest}'?"
        family = None if colon else next((each for each in _MEANT if word.lower().startswith(f"{each}-")), None)
        return None if family is None else f"Did you mean '{_MEANT[family]}:{text}'?"

    @property
    def text(self) -> str:
        """As it is written; the variable of the key is no part of it."""
        return f"{self.provider}:{self.name}"

    @property
    def key_variable(self) -> str | None:
        """The variable that is looked at."""
        return self.api_key_env or PROVIDERS[self.provider].key

    def with_key_variable(self, variable: str) -> Self:
        """Copy it with another variable."""
        return replace(self, api_key_env=variable)

    def check(self) -> None:
        """Check whether the packages and the key are there."""
        package, variable = PROVIDERS[self.provider].package, self.key_variable
        if not _is_installed("langchain") or not _is_installed(package):
            raise make_spec_error(
                f"The model {self.text!r} needs langchain and {package}, which are not both installed here: "
                f"{say_install('providers', package)}"
            )
        if variable is not None and not os.environ.get(variable, "").strip():
            raise make_key_error(self.text, variable)

    def identify(self, parameters: ModelParameters) -> ModelIdentity:
        """Tell the provider, in the word that prices are looked up by."""
        server = f"{self.provider} with the key in {self.key_variable}" if self.key_variable else self.provider
        return ModelIdentity(self.name, self.provider, parameters.max_tokens, server)

    async def open(self, parameters: ModelParameters, notice: Notice) -> MadeModel:
        """Have LangChain make the model, without retries of its own, which nobody would see."""
        self.check()
        notice(f"Loading {PROVIDERS[self.provider].package} for {self.name} ...")
        key = os.environ.get(self.key_variable) if self.key_variable else None
        return MadeModel(
            key=(self, repr(sorted(parameters.settings.items())), key),
            make=lambda: self._make(parameters.settings),
            key_variable=self.key_variable,
            provider=self.provider,
        )

    def _make(self, settings: Mapping[str, Any]) -> Any:
        from langchain.chat_models import init_chat_model

        given = {"max_retries": find_single_try(PROVIDERS[self.provider].package), **settings}
        if self.api_key_env is not None:
            given["api_key"] = os.environ[self.api_key_env]
            protect(given["api_key"])
        return init_chat_model(self.name, model_provider=self.provider, **given)

    @classmethod
    def describe(cls) -> tuple[SpecForm, ...]:
        """Say which providers are installed here."""
        (form,) = cls.forms
        found = [word for word, each in PROVIDERS.items() if _is_installed(each.package)]
        is_ready = _is_installed("langchain") and bool(found)
        note = ", ".join(found) if is_ready else say_install("providers", "langchain-anthropic")
        return (SpecForm(spec=form, meaning="a model of another provider", is_ready=is_ready, note=note),)


def _is_installed(package: str) -> bool:
    return find_spec(package.replace("-", "_")) is not None
