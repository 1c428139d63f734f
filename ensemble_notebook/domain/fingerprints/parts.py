"""The parts of a key: the name and digest of each, and why one can't be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ensemble_notebook.domain.fingerprints.content import SCALARS, digest, digest_framed, encode_scalar, frame
from ensemble_notebook.domain.fingerprints.content_graph import ContentGraph
from ensemble_notebook.domain.fingerprints.details import shorten, show_value, write_details
from ensemble_notebook.domain.fingerprints.value_content import describe_value
from ensemble_notebook.domain.seams.run_memory import TaskKey


def make_content_graph() -> ContentGraph:
    """Make the graph of one run: what it has looked at once stays as it was then."""
    return ContentGraph(describe_value, write_details)


@dataclass(slots=True)
class Parts:
    """Parts of a key, by name.

    Attributes:
        graph: compares what is no text.
        shown: what is kept of each part, to say later what has changed. The first line stands for the part: a short
            text (``=0.2``) or a digest (``#9f3a...``). The others tell what is in it, a name and a value each.
        pieces: name and whole digest of each part, as they are hashed in the end: most parts are those of an agent, and
            a run has thousands of tasks of one agent. Names of tasks are in `shown` alone, since they do not count.
        obstacle: why the parts can't be compared, in words; None where they can.
    """

    graph: ContentGraph
    shown: dict[str, str] = field(default_factory=dict)
    pieces: dict[str, bytes] = field(default_factory=dict)
    obstacle: str | None = None

    def add_text(self, name: str, text: str, *details: tuple[str, str]) -> None:
        """Add a text; its digest is shown."""
        self._add(name, digest(text.encode("utf-8", "surrogatepass")), None, details)

    def add_value(self, name: str, value: Any, words: str = "", *, also: str = "") -> None:
        """Add any object, by its content.

        Args:
            name: of the part.
            value: what counts.
            words: what people call it, in an obstacle.
            also: more that counts, such as the name of a tool.
        """
        if type(value) in SCALARS:
            self._add(name, digest(encode_scalar(value), also.encode()), show_value(name, value))
            return
        found = self.graph.read(value)
        if found.obstacle is not None and self.obstacle is None:
            self.obstacle = f"{words or f'the {name}'} {found.obstacle}, which can't be compared by content"
        self._add(name, digest(bytes.fromhex(found.digest), also.encode()), None, found.details)

    def add_group(self, name: str, group: Parts) -> None:
        """Add all that another collection holds, as one part."""
        self.obstacle = self.obstacle or group.obstacle
        details = [(each, text.partition("\n")[0]) for each, text in group.shown.items()]
        self._add(name, group.digest(), None, details)

    def include(self, other: Parts) -> None:
        """Take over all parts of another collection."""
        self.shown.update(other.shown)
        self.pieces.update(other.pieces)
        self.obstacle = self.obstacle or other.obstacle

    def digest(self) -> bytes:
        """Make the digest of all parts, in whatever order they came."""
        return digest_framed(b"".join([piece for _, piece in sorted(self.pieces.items())]))

    def to_key(self) -> TaskKey:
        """Make the key of a task of the parts."""
        return TaskKey(key=self.digest().hex(), parts=self.shown, obstacle=self.obstacle)

    def _add(self, name: str, made: bytes, text: str | None, details: Sequence[tuple[str, str]] = ()) -> None:
        self.pieces[name] = frame(name.encode(), made)
        first = text or shorten(made)
        self.shown[name] = "\n".join([first, *(f"{each}\t{value}" for each, value in details)]) if details else first


def read_lines(shown: str) -> tuple[str, Mapping[str, str]]:
    """Read what is kept of a part: what stands for it, and what is in it by name."""
    first, *others = shown.split("\n")
    return first, dict(line.split("\t", 1) for line in others if "\t" in line)
