"""How many tokens a request can have at most, told from its bytes: no tokenizer is asked or fetched (E36).

A token stands for at least one byte of text. What a provider adds by itself is bounded by what the templates of known
models add. Knows LangChain's messages by their fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

# The marks around a message, its role, and those that open the reply.
_MESSAGE: Final = 16
_REQUEST: Final = 64
# Providers explain to a model how tools are called: in up to 530 tokens, as far as they say.
_TOOLS: Final = 768


def message_bound(message: Any) -> int:
    """Of a message in a request."""
    parts = [message.content, message.additional_kwargs]
    parts += [getattr(message, name, None) for name in ("name", "tool_calls", "invalid_tool_calls", "tool_call_id")]
    return _MESSAGE + sum(_size(part) for part in parts if part)


def request_bound(options: Iterable[Mapping[str, Any]]) -> int:
    """Of what goes with the messages: tools, the format of the reply, and whatever else a model was bound to."""
    given = list(options)
    has_tools = any(each.get("tools") or each.get("functions") for each in given)
    return _REQUEST + (_TOOLS if has_tools else 0) + sum(_size(each) for each in given if each)


def _size(value: Any) -> int:
    """Bytes, of a text as it is, of anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return len(text.encode(errors="surrogatepass"))
