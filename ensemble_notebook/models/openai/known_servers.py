"""What this process has learnt of the servers that it has asked, by the addresses of their completions."""

from __future__ import annotations

from typing import Final

_without_reasons: Final[set[str]] = set()


def note_lack_of_reasons(url: str) -> None:
    """Remember that a server has given a reply in one piece, whose end nobody can doubt, without a finish reason."""
    _without_reasons.add(url)


def gives_no_reasons(url: str) -> bool:
    """Whether a stream that this server has ended in good form may be whole without a finish reason."""
    return url in _without_reasons
