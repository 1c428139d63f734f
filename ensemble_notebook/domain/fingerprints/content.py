"""Digests of objects by content: what each is by itself, and all the objects that it reaches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

SCALARS: Final = frozenset({str, int, float, bool, bytes, complex, type(None), type(...)})

# A label and the object. Labels say how a person would name the way there: ``clean`` for a name that code reaches,
# ``.limit`` for an attribute; empty for all else.
Child = tuple[str, Any]


class IncomparableError(Exception):
    """An object can't be compared: its state changes with every use, or is outside Python."""


@dataclass(slots=True)
class Content:
    """What one object consists of.

    Attributes:
        own: what it is by itself, in bytes that are the same in every process.
        children: what it holds, in an order that is part of it.
        is_unordered: whether the order of the children is no part of it.
        is_code: a function or class of the user's, whose children have names that mean something to a person.
        is_foreign: an object of an installed package; people know it by its class, not by what is in it.
    """

    own: bytes
    children: Sequence[Child] = ()
    is_unordered: bool = False
    is_code: bool = False
    is_foreign: bool = False


def digest(*pieces: bytes) -> bytes:
    """A digest of 16 bytes of these pieces."""
    return digest_framed(frame(*pieces))


def frame(*pieces: bytes) -> bytes:
    """Join pieces so that different pieces never give the same bytes."""
    framed = b""
    for piece in pieces:  # they are one or two: a list of them would take longer than all else
        framed += b"%d:%b" % (len(piece), piece)
    return framed


def digest_framed(framed: bytes) -> bytes:
    """The same digest for pieces that are framed already."""
    return blake2b(framed, digest_size=16).digest()


def encode_scalar(value: Any) -> bytes:
    """Encode a value whose type is one of `SCALARS`; different values never give the same bytes."""
    kind = type(value)
    if kind is str:
        data = value.encode("utf-8", "surrogatepass")
    elif kind is bytes:
        data = value
    else:
        data = repr(value).encode()
    return b"%s %d:%s" % (kind.__name__.encode(), len(data), data)


def encode_all(values: Iterable[Any], children: list[Child], label: str = "") -> bytes:
    """Encode values in order. A value that is no scalar leaves a gap, and becomes a child."""
    written = []
    for value in values:
        if type(value) in SCALARS:
            written.append(encode_scalar(value))
        else:
            written.append(b"*")
            children.append((label, value))
    return b"".join(written)


def encode_name(*words: object) -> bytes:
    """Encode the name of something."""
    return encode_scalar(" ".join(map(str, words)))


# An object and everything that it reaches is a graph. It has cycles where functions call each other or objects point
# back. A node that reaches no cycle gets a digest from those of its children. Nodes on cycles are distinguished step by
# step, by colour refinement, until nothing changes; those that can't be distinguished are the same. So a function and
# its copy from a cell that was executed again count as one.
#
# Why not `joblib.hash` or `dask.base.tokenize`: both hash functions by name or by pickled bytecode, so that a comment
# counts and a changed helper does not; and neither tells what it could not compare.


_MOST_NODES: Final = 500_000
_MOST_STEPS: Final = 50


class ContentNode:
    """An object in the graph. The object is kept alive, since its `id` stands for it."""

    __slots__ = ("children", "content", "digest", "obstacle", "own", "subject")

    def __init__(self, subject: Any) -> None:
        self.subject = subject
        self.content: Content | None = None
        self.own = b""
        self.children: list[tuple[str, ContentNode]] = []
        self.digest: bytes | None = None
        self.obstacle: str | None = None

    def join(self, marks: list[bytes]) -> bytes:
        """The digest that follows from those of the children."""
        is_unordered = self.content is not None and self.content.is_unordered
        return digest(self.own, *(sorted(marks) if is_unordered else marks))


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The content of one object.

    Attributes:
        digest: of all of it, as hex digits.
        obstacle: what in it can't be compared, in words that follow its name: ``reaches conn, a sqlite3.Connection``;
            None where all can.
        details: what the code in it reaches by name, with a digest or a short text of each; the code itself is the
            first. For people, to say what changed.
    """

    digest: str
    obstacle: str | None
    details: tuple[tuple[str, str], ...]


class ContentGraph:
    """All objects that a run has compared. Each is read once, when it is first met."""

    def __init__(
        self,
        describe: Callable[[Any], Content],
        write_details: Callable[[ContentNode], tuple[tuple[str, str], ...]],
    ) -> None:
        self._describe = describe
        self._write_details = write_details
        self._nodes: dict[int, ContentNode] = {}
        self._read: dict[int, Fingerprint] = {}

    def read(self, value: Any) -> Fingerprint:
        """Read the content of an object."""
        if (known := self._read.get(id(value))) is not None:
            return known
        root = self._grow(value)
        _settle(root)
        made = root.digest or _digest_ring(root)
        found = Fingerprint(made.hex(), _find_obstacle(root), self._write_details(root))
        self._read[id(value)] = found
        return found

    def _grow(self, value: Any) -> ContentNode:
        """Make the nodes of an object and of all that it reaches, but for those that are there."""
        root, fresh = self._get(value)
        waiting, count = [root] if fresh else [], 0
        while waiting:
            node = waiting.pop()
            count += 1
            try:
                if count > _MOST_NODES:
                    raise IncomparableError
                content = self._describe(node.subject)
            except IncomparableError as error:
                node.obstacle = str(error)
                continue
            node.content, node.own = content, digest(content.own)
            for label, child in content.children:
                each, fresh = self._get(child)
                node.children.append((label, each))
                if fresh:
                    waiting.append(each)
            content.own, content.children = b"", ()
        return root

    def _get(self, value: Any) -> tuple[ContentNode, bool]:
        node = self._nodes.get(id(value))
        if node is not None:
            return node, False
        node = self._nodes[id(value)] = ContentNode(value)
        return node, True


def _settle(root: ContentNode) -> None:
    """Compute the digests of all nodes that reach no cycle, children first."""
    entered = {id(root)}
    path = [(root, iter(root.children))]
    while path:
        node, children = path[-1]
        child = next((each for _, each in children if each.digest is None and id(each) not in entered), None)
        if child is not None:
            entered.add(id(child))
            path.append((child, iter(child.children)))
            continue
        path.pop()
        marks = [each.digest for _, each in node.children if each.digest is not None]
        if node.digest is None and len(marks) == len(node.children):
            node.digest = node.join(marks)


def _digest_ring(root: ContentNode) -> bytes:
    """The digest of a node that reaches a cycle.

    The nodes without digests are distinguished, and numbered from the root.
    """
    nodes = [node for node in walk(root) if node.digest is None]
    marks = _colour_nodes(nodes)
    numbers = {marks[id(root)]: 0}
    waiting, written = deque([root]), []
    while waiting:
        node = waiting.popleft()
        written.append(node.own)
        children = [(each.digest or marks[id(each)], each) for _, each in node.children]
        if node.content is not None and node.content.is_unordered:
            children.sort(key=lambda pair: pair[0])
        for mark, each in children:
            if each.digest is not None:
                written.append(mark)
                continue
            if mark not in numbers:
                numbers[mark] = len(numbers)
                waiting.append(each)
            written.append(b"#%d" % numbers[mark])
        written.append(b".")
    return digest(*written)


def _colour_nodes(nodes: list[ContentNode]) -> dict[int, bytes]:
    """A colour for each node, by its `id`: equal for nodes that can't be distinguished."""
    marks = {id(node): node.own for node in nodes}
    count = len(set(marks.values()))
    for _ in range(_MOST_STEPS):
        marks = {id(node): node.join([each.digest or marks[id(each)] for _, each in node.children]) for node in nodes}
        told = len(set(marks.values()))
        if told == count:
            return marks
        count = told
    # A very long ring, such as a chain of thousands that point both ways: no two of its nodes are taken for one.
    return {name: digest(mark, b"%d" % number) for number, (name, mark) in enumerate(marks.items())}


def walk(root: ContentNode) -> Iterator[ContentNode]:
    """Visit a node and everything that it reaches, nearest first."""
    seen, waiting = {id(root)}, deque([root])
    while waiting:
        node = waiting.popleft()
        yield node
        for _, each in node.children:
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)


def _find_obstacle(root: ContentNode) -> str | None:
    """The nearest node that can't be compared, with the names by which the code reaches it."""
    seen, waiting = {id(root)}, deque([(root, "", "")])
    while waiting:
        node, path, foreign = waiting.popleft()
        if node.obstacle is not None:
            what = foreign or node.obstacle
            return f"reaches {path}, {what}" if path else f"is {what}" if node is root else f"holds {what}"
        if node.content is not None and node.content.is_foreign and not foreign:
            foreign = describe_type(node.subject)
        for label, each in node.children:
            if id(each) not in seen:
                seen.add(id(each))
                further = path + label if label.startswith(".") and path else label.lstrip(".") or path
                waiting.append((each, path if foreign else further, foreign))
    return None


def describe_type(value: Any) -> str:
    """Say of what type an object is, as a person would: ``a sqlite3.Connection``."""
    kind = type(value)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
