"""A text as words, the same for what is kept and for what is asked."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Scripts without spaces between words: each sign is a word.
_SIGN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_SIGN}]|[^\W_{_SIGN}]+")


def split_words(text: str) -> list[str]:
    """Split a text into its words in order, in lower case; none for punctuation and emoji."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
