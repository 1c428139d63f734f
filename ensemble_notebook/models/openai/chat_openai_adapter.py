"""The one module that uses names of langchain-openai and openai which are not public there.

Three things are done below a ``ChatOpenAI`` for which it has no public way: its requests go through completions of our
own (`chat_transport` and `tolerant_completions` say why), streams of our own models are read without its own
(`direct_stream` says why), and a user's model gets a copy of its client that does not retry in secret. Where a later
version has these names no more, a model stays plain: the openai package sends, and everything works, more slowly and
with less patience for odd servers. A test says so when the names move.

Knows names only: what is put in their place is given by the caller.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.models.openai.endpoint import find_base_url_of_environment

if TYPE_CHECKING:
    from httpx import Response
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_openai.chat_models.base import BaseChatOpenAI

# The `AsyncOpenAI` of a model, and its `chat.completions`, through which a model sends.
_CLIENT: Final = "root_async_client"
_COMPLETIONS: Final = "async_client"
# Whether a request would go to OpenAI's newer interface, which has its own names for everything.
_USES_RESPONSES_API: Final = "_use_responses_api"
# From messages to a request, and from a reply to its message.
_MAKES_PAYLOAD: Final = "_get_request_payload"
_MAKES_RESULT: Final = "_create_chat_result"
_METHODS: Final = (_USES_RESPONSES_API, _MAKES_PAYLOAD, _MAKES_RESULT)


def find_missing_names(model_class: type) -> tuple[str, ...]:
    """List the names that this module uses and a class of chat models has no more; empty for versions that we know."""
    fields = getattr(model_class, "model_fields", {})
    missing = [name for name in (_CLIENT, _COMPLETIONS) if name not in fields]
    missing += [name for name in _METHODS if not callable(getattr(model_class, name, None))]
    return tuple(missing)


def has_replaceable_completions(model: object) -> bool:
    """Whether a model is one of langchain-openai whose requests can be sent by other completions than its own.

    Imports nothing: where langchain-openai is not loaded, no object is a model of it.
    """
    fields = getattr(type(model), "model_fields", {})
    return is_openai_model(model) and find_client(model) is not None and _COMPLETIONS in fields


def is_openai_model(model: object) -> bool:
    """Whether a model is a ``ChatOpenAI`` or a relative of it. Imports nothing."""
    module = sys.modules.get("langchain_openai.chat_models.base")
    base = getattr(module, "BaseChatOpenAI", None)
    return base is not None and isinstance(model, base)


def find_client(model: Any) -> Any | None:
    """Find the ``openai.AsyncOpenAI`` of a model; None where it has none under the name that we know."""
    return getattr(model, _CLIENT, None)


def find_base_url(model: BaseChatOpenAI) -> str:
    """Find the address that a model sends to."""
    client = find_client(model)
    if client is not None:
        return str(client.base_url)
    return model.openai_api_base or find_base_url_of_environment() or "https://api.openai.com/v1"


def replace_client(model: BaseChatOpenAI, client: Any) -> None:
    """Give a model another ``openai.AsyncOpenAI``; for models whose completions can be replaced."""
    setattr(model, _CLIENT, client)


def find_completions(model: Any) -> Any | None:
    """Find what a model sends through; None where it has nothing under the name that we know."""
    return getattr(model, _COMPLETIONS, None)


def has_convertible_payload(model: Any) -> bool:
    """Whether `make_payload` and `make_message` can be used."""
    return callable(getattr(model, _MAKES_PAYLOAD, None)) and callable(getattr(model, _MAKES_RESULT, None))


def make_payload(model: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> dict[str, Any]:
    """Make the request that a model would send for these messages."""
    payload: dict[str, Any] = getattr(model, _MAKES_PAYLOAD)(messages, **options)
    return payload


def make_message(model: Any, completion: dict[str, Any]) -> AIMessage:
    """Make the message that a model would give for this reply."""
    result = getattr(model, _MAKES_RESULT)(completion)
    (generation,) = result.generations
    message: AIMessage = generation.message
    message.response_metadata = {**result.llm_output, **generation.generation_info}
    return message


def replace_completions(model: BaseChatOpenAI, completions: Any) -> None:
    """Have a model send through other completions; for models whose completions can be replaced."""
    setattr(model, _COMPLETIONS, completions)


def is_responses_api_used(model: BaseChatOpenAI, options: Mapping[str, Any]) -> bool:
    """Whether a request with these options would go to the Responses API rather than to chat completions."""
    decide = getattr(model, _USES_RESPONSES_API, None)
    return bool(model.use_responses_api if decide is None else decide({**options}))


def make_status_error(client: Any, response: Response) -> Exception:
    """Make the error that the openai package raises for a reply whose status is an error."""
    import openai

    make = getattr(client, "_make_status_error_from_response", None)
    if make is not None:
        error: Exception = make(response)
        return error
    try:
        body = response.json()
    except json.JSONDecodeError:
        body = response.text
    message = f"Error code: {response.status_code} - {body}"
    return openai.APIStatusError(message, response=response, body=body)  # type: ignore[arg-type]
