"""How many tokens a request can have at most, told from its bytes: no tokenizer is asked or fetched (E36).

A token stands for at least one byte of text. What a provider adds by itself is bounded by what the templates of known
models add. Knows LangChain's messages by their fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

# The marks around a message, its role, and those that open the reply.
_MESSAGE_OVERHEAD: Final = 16
_REQUEST_OVERHEAD: Final = 64
# Providers explain to a model how tools are called: in up to 530 tokens, as far as they say.
_TOOLS_OVERHEAD: Final = 768


def bound_message_tokens(message: Any) -> int:
    """Bound the tokens of a message in a request."""
    parts = [message.content, message.additional_kwargs]
    parts += [getattr(message, name, None) for name in ("name", "tool_calls", "invalid_tool_calls", "tool_call_id")]
    return _MESSAGE_OVERHEAD + sum(_count_bytes(part) for part in parts if part)


def bound_option_tokens(options: Iterable[Mapping[str, Any]]) -> int:
    """Bound the tokens of what goes with the messages: tools, the format of the reply, and what else is bound."""
    given = list(options)
    has_tools = any(each.get("tools") or each.get("functions") for each in given)
    return _REQUEST_OVERHEAD + (_TOOLS_OVERHEAD if has_tools else 0) + sum(_count_bytes(each) for each in given if each)


def _count_bytes(value: Any) -> int:
    """Count the bytes, of a text as it is, of anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return len(text.encode(errors="surrogatepass"))
