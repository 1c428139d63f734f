"""Pictures and PDFs in what a model is told (E128): what is one, and how a text stands for it.

A text has a mark in its place, ``[picture sha256:...]`` or ``[PDF of 2 pages sha256:...]``, so that prompts, traces,
recordings and stored runs stay texts. A request has the file itself there (`split_text`). A mark counts only in the run
that was given what it stands for, and nobody can guess one: words of a model, of a tool or of a page name nothing.

Knows no library of images: their objects are recognised by their methods.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar
from weakref import WeakValueDictionary

from ensemble_notebook.domain.config import config
from ensemble_notebook.errors import EnsembleError, ValidationError, did_you_mean, make_readable, summarize_error

T = TypeVar("T")
FileKey = tuple[str, int, int]

PDF: Final = "application/pdf"
TOKENS_EACH: Final = 2_000
"""What a budget reserves for each picture and each page: more than models make of one, as far as they say."""

_STARTS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": PDF,
}
_OTHER_STARTS: Final = {
    "TIFF": re.compile(rb"II\*\0|MM\0\*"),
    "HEIC": re.compile(rb"....ftyp(?:hei[cmsx]|hev[cx]|mif1|msf1)", re.DOTALL),
    "AVIF": re.compile(rb"....ftypavi[fs]", re.DOTALL),
    "BMP": re.compile(rb"BM.{12}(?:\x0c|\x28|\x6c|\x7c)\0\0\0", re.DOTALL),
}
"""Pictures that no model takes."""
UNNAMED_PDF: Final = "document.pdf"
MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", PDF)
_ENDINGS: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"})
_START_SIZE: Final = 32
_MARK: Final = re.compile(r"\[(?:picture|PDF of (?P<pages>[0-9]{1,6}) pages?) sha256:(?P<digest>[0-9a-f]{64})\]")
_MARK_START: Final = " sha256:"
_CONVERT: Final = "Save it as PNG or JPEG first, as Pillow does: Image.open(PATH).convert('RGB')."


class UnwritableValueError(EnsembleError, TypeError):
    """A value has no text that a model could read."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Attachment:
    """A picture or PDF for a model, from bytes: ``run(photo=Attachment(data, "image/png"))`` fills ``{photo}``.

    Objects of Pillow and IPython, figures of matplotlib and a `Path` to a file need none of this.

    Args:
        data: the whole file.
        media_type: ``"image/png"``, ``"image/jpeg"``, ``"image/gif"``, ``"image/webp"`` or ``"application/pdf"``.
        name: that it is called by in views; of a PDF the model is told it.

    Attributes:
        digest: sha256 of `data`, in hexadecimal digits: two with the same are equal.
        page_count: the pages of a PDF, as far as they can be counted; None of a picture.

    Raises:
        ValidationError: the bytes are none of these, or others than it says, or more than ``config.max_attachment_mb``.
    """

    data: bytes
    media_type: str
    name: str = ""
    digest: str = field(init=False)
    page_count: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Check it against its first bytes, and count its digest."""
        if not isinstance(self.data, bytes | bytearray | memoryview):
            raise ValidationError(f"Attachment data must be bytes, got {type(self.data).__name__}.")
        if self.media_type not in MEDIA_TYPES:
            raise ValidationError(
                f"Attachment media_type can't be {self.media_type!r}.{did_you_mean(str(self.media_type), MEDIA_TYPES)}"
            )
        if not isinstance(self.name, str):
            raise ValidationError(f"Attachment name must be a text, got {type(self.name).__name__}.")
        object.__setattr__(self, "data", bytes(self.data))
        if fault := _find_size_fault(len(self.data)):
            raise ValidationError(f"The attachment {fault}")
        if (found := find_media_type(self.data)) != self.media_type:
            what = f"{found}." if found else "neither a picture nor a PDF that models take."
            raise ValidationError(f"An attachment is said to be {self.media_type}, and its first bytes are {what}")
        object.__setattr__(self, "digest", sha256(self.data).hexdigest())
        object.__setattr__(self, "page_count", _count_pages(self.data) if self.media_type == PDF else None)

    @property
    def mark(self) -> str:
        """What stands for it in a text."""
        return _write_mark(self.page_count, self.digest)

    @property
    def kind(self) -> str:
        """``"picture"`` or ``"PDF"``."""
        return "PDF" if self.media_type == PDF else "picture"

    @property
    def encoded(self) -> EncodedAttachment:
        """It in letters, made once for all requests that hold it at the same time."""
        made = _encoded.get(self.digest)
        if made is None:
            made = _encoded[self.digest] = EncodedAttachment(self)
        return made

    def __eq__(self, other: object) -> bool:
        """Equal by content, whatever it is called."""
        return isinstance(other, Attachment) and self.digest == other.digest

    def __hash__(self) -> int:
        """As equality."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """What it is, without its bytes."""
        name = make_readable(self.name)
        return f"<Attachment {name + ', ' if name else ''}{self.media_type}, {len(self.data):,} bytes>"


def _write_mark(page_count: int | None, digest: str) -> str:
    kind = "picture" if page_count is None else f"PDF of {page_count} {'page' if page_count == 1 else 'pages'}"
    return f"[{kind} sha256:{digest}]"


class EncodedAttachment:
    """An attachment in the letters that requests have it in."""

    def __init__(self, attachment: Attachment) -> None:
        self.attachment = attachment

    @cached_property
    def base64(self) -> str:
        """Its bytes."""
        return b64encode(self.attachment.data).decode("ascii")

    @cached_property
    def data_url(self) -> str:
        """Its type and bytes."""
        return f"data:{self.attachment.media_type};base64,{b64encode(self.attachment.data).decode('ascii')}"


# Rows and runs that are given the same share it, for as long as one of them has it.
_encoded: Final[WeakValueDictionary[str, EncodedAttachment]] = WeakValueDictionary()
_alive: Final[WeakValueDictionary[tuple[str, str], Attachment]] = WeakValueDictionary()
_read_files: Final[WeakValueDictionary[FileKey, Attachment]] = WeakValueDictionary()


# --- What is one ------------------------------------------------------------------------------------------------------


def find_media_type(data: bytes) -> str | None:
    """The type of a picture or PDF that models take, by its first bytes; None for all else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)


def read_attachment(value: Any) -> Attachment | None:
    """Read a value that is a picture or PDF: made of it once in a run, which holds it from then on.

    Returns:
        None for all that is none: also a `Path` to any other file, and to none that is called like a picture.

    Raises:
        UnwritableValueError: it is one that no model takes, that is too large, or that can't be read.
    """
    held = _held.get()
    if held is not None and (known := held.find_value(value)) is not None:
        return known
    if isinstance(value, Attachment):
        if fault := _find_size_fault(len(value.data)):
            raise UnwritableValueError(f"it is an attachment that {fault}")
        made: Attachment | None = value
    elif isinstance(value, Path):
        made = _read_path(value, lambda: read_file(value))
    else:
        made = _read_image(value) if is_image(value) else None
    if made is None:
        return None
    made = _alive.setdefault((made.digest, made.name), made)
    if held is not None:
        held.add(made, value)
    return made


def read_file(path: Path) -> Attachment | None:
    """Read a picture or PDF from a file; None where its first bytes are those of none.

    Raises:
        UnwritableValueError: a picture that no model takes, or a file that is too large.
        OSError: it can't be read.
    """

    def read(file: BinaryIO, media_type: str, facts: os.stat_result) -> Attachment:
        key = _make_key(path, facts)
        if (known := _read_files.get(key)) is None:
            made = Attachment(file.read(), media_type, path.name)
            known = _read_files[key] = _alive.setdefault((made.digest, made.name), made)
        return known

    return _open(path, read)


def find_file_fault(path: Path) -> str | None:
    """Find out why a path names no picture or PDF for a model, as the end of a sentence, without reading all of it."""
    try:
        is_one = _open(path, lambda *_: True)
    except OSError as error:
        return f"is {str(path)!r}, which can't be read: {error.strerror or summarize_error(error)}."
    except UnwritableValueError as error:
        return str(error).removeprefix("it ")
    if is_one is None:
        return f"is {str(path)!r}, and its first bytes are those of no picture (PNG, JPEG, GIF, WebP) and no PDF."
    return None


def read_start(path: Path) -> bytes:
    """The first bytes of a file; none where it is none, or can't be read."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(_START_SIZE)
    except OSError:
        pass
    return b""


def find_mark(value: Any) -> str | None:
    """The mark of a value that is a picture or PDF, of whose file no more is kept than its digest; None for others."""
    if not isinstance(value, Path):
        try:
            return None if (made := read_attachment(value)) is None else made.mark
        except UnwritableValueError:
            return None
    try:
        return _open(value, lambda _, media_type, facts: _read_mark(value, media_type, _make_key(value, facts)))
    except (OSError, UnwritableValueError):
        return None


def sketch_mark(value: Any) -> Any:
    """For an estimate: the path of a picture as a mark without digest, so that no file is read; all else as it is."""

    def sketch(_: BinaryIO, media_type: str, __: os.stat_result) -> str | None:
        return None if media_type == PDF else _write_mark(None, "0" * 64)

    if not isinstance(value, Path):
        return value
    try:
        return _open(value, sketch) or value
    except (OSError, UnwritableValueError):
        return value


@lru_cache(maxsize=20_000)
def _read_mark(path: Path, media_type: str, _key: FileKey) -> str:
    if media_type == PDF:
        return Attachment(path.read_bytes(), PDF).mark
    with path.open("rb") as file:
        return _write_mark(None, file_digest(file, "sha256").hexdigest())


def _open(path: Path, read: Callable[[BinaryIO, str, os.stat_result], T]) -> T | None:
    """Have the file of a path read, where its first bytes are those of a picture or PDF; else None.

    Raises:
        UnwritableValueError: a picture that no model takes, or a file that is too large.
        OSError: it can't be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for whoever writes to it
        return None
    with path.open("rb") as file:
        facts, start = os.fstat(file.fileno()), file.read(_START_SIZE)
        if (media_type := find_media_type(start)) is None:
            other = next((name for name, shape in _OTHER_STARTS.items() if shape.match(start)), None)
            if other is not None:
                raise UnwritableValueError(
                    f"it is a picture that models don't take: {path.name} is {other}. {_CONVERT}"
                )
            return None
        if fault := _find_size_fault(facts.st_size):
            raise UnwritableValueError(f"it is {path.name}, which {fault}")
        file.seek(0)
        return read(file, media_type, facts)


def _make_key(path: Path, facts: os.stat_result) -> FileKey:
    return str(path.absolute()), facts.st_mtime_ns, facts.st_size


def check_path(path: Path) -> bool:
    """Whether a path as an input is a picture or PDF, of which no more than the first bytes are read.

    Raises:
        UnwritableValueError: as `read_attachment`.
    """
    return _read_path(path, lambda: _open(path, lambda *_: True)) is not None


def ends_as_attachment(path: Path) -> bool:
    """Whether a path ends as those of pictures and PDFs do, whatever its file is."""
    return path.suffix.lower() in _ENDINGS


def _read_path(path: Path, read: Callable[[], T | None]) -> T | None:
    try:
        return read()
    except OSError as error:
        if not ends_as_attachment(path) or path.is_dir():
            return None
        why = error.strerror or summarize_error(error)
        raise UnwritableValueError(
            f"it is the path {str(path)!r}, which ends as a picture or PDF does and can't be read: {why}. Give the "
            f"path of a file, or str(path) for the path itself as text."
        ) from error


def mark_encoded(encoded: str, media_type: str | None) -> str | None:
    """The mark of a picture or PDF that came as base64, which this run holds from then on; None where it is none."""
    try:
        data = b64decode(encoded, validate=True)
    except ValueError:
        return None
    found = find_media_type(data)
    if found is None or _find_size_fault(len(data)) or (media_type or found) not in (found, "image/jpg"):
        return None
    attachment = read_attachment(Attachment(data, found))
    return None if attachment is None else attachment.mark


def is_image(value: Any) -> bool:
    """True for images of Pillow and IPython and figures of matplotlib and plotly."""
    if isinstance(value, str | int | float | Mapping | list | tuple):
        return False
    names = {each.__name__ for each in type(value).__mro__}
    if "Image" in names:
        return hasattr(value, "_repr_png_")
    return "Figure" in names and (hasattr(value, "savefig") or hasattr(value, "write_image"))


def _read_image(value: Any) -> Attachment:
    if hasattr(value, "write_image"):
        raise UnwritableValueError("it is a figure of plotly. Give Attachment(figure.to_image(), 'image/png').")
    try:
        if hasattr(value, "savefig"):
            file = io.BytesIO()
            value.savefig(file, format="png")
            data: Any = file.getvalue()
        elif hasattr(value, "getbands"):
            data = _save_pillow_image(value)
        else:
            data = getattr(value, "data", None)
    except Exception as error:
        raise UnwritableValueError(f"it is an image that can't be saved: {summarize_error(error)}") from error
    if not isinstance(data, bytes):
        raise UnwritableValueError(
            "it is an image without its bytes, at an address: nothing is fetched. Give its file."
        )
    media_type = find_media_type(data)
    if media_type is None:
        raise UnwritableValueError(f"it is an image that models don't take. {_CONVERT}")
    if fault := _find_size_fault(len(data)):
        raise UnwritableValueError(f"it is a picture that {fault}")
    name = getattr(value, "filename", None)
    return Attachment(data, media_type, Path(name).name if isinstance(name, str | Path) and name else "")


def _save_pillow_image(image: Any) -> bytes:
    """The file of an image of Pillow, upright: as JPEG where it was opened as one, else as PNG, without loss."""
    how: dict[str, Any] = {"format": "PNG"}
    if image.format in ("JPEG", "MPO"):
        how = {"format": "JPEG", "quality": "keep" if image.format == "JPEG" else 95}
        if image.getexif().get(_ORIENTATION, 1) != 1:
            from PIL import ImageOps

            image, how = ImageOps.exif_transpose(image), {"format": "JPEG", "quality": 95}
    elif image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, **how)
    return file.getvalue()


_ORIENTATION: Final = 0x0112


def _find_size_fault(size: int) -> str | None:
    limit = int(config.max_attachment_mb * 1_000_000)
    if size <= limit:
        return None
    return (
        f"has {size:,} bytes, and {limit:,} is the most. Make it smaller, or allow more: "
        f"ensemble_notebook.config.max_attachment_mb is {config.max_attachment_mb:g}."
    )


# --- Pages of a PDF ---------------------------------------------------------------------------------------------------


_PAGE: Final = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_OBJECTS: Final = re.compile(rb"/ObjStm\b[^>]*>>\s*stream\r?\n")
_MOST_INFLATED: Final = 10_000_000
_UNKNOWN_PAGES: Final = 100
"""Reserved for a PDF whose pages can't be counted: as many as most providers take."""


def _count_pages(data: bytes) -> int:
    """Count the pages of a PDF, also where their objects are packed; many where none is found, as in a locked one."""
    count = len(_PAGE.findall(data))
    for found in _OBJECTS.finditer(data):
        try:
            inflated = zlib.decompressobj().decompress(data[found.end() :], _MOST_INFLATED)
        except zlib.error:
            continue
        count += len(_PAGE.findall(inflated))
    return count or _UNKNOWN_PAGES


# --- What a run has ---------------------------------------------------------------------------------------------------


class HeldAttachments:
    """The attachments of one run, which it holds until it is over.

    Args:
        around: those of the run around it, and of the one that it goes on with, which its texts may name, too.
    """

    def __init__(self, *around: HeldAttachments | None) -> None:
        self._around = tuple(filter(None, around))
        self._by_digest: dict[str, Attachment] = {}
        self._by_value: dict[int, tuple[Any, Attachment]] = {}
        self._hear: Callable[[Attachment], object] | None = None

    def hear(self, hear: Callable[[Attachment], object]) -> None:
        """Tell of each, those that are here by now first."""
        self._hear = hear
        for each in list(self._by_digest.values()):
            hear(each)

    def add(self, attachment: Attachment, value: Any = None) -> None:
        """Hold one, and know it by the value that it was made of."""
        if value is not None:
            self._by_value[id(value)] = (value, attachment)
        if attachment.digest in self._by_digest:
            return
        self._by_digest[attachment.digest] = attachment
        if self._hear is not None:
            self._hear(attachment)

    def close(self, *, keeps: bool) -> None:
        """The run is over: nobody is told any more, and what it has is kept for runs that go on with it, or not."""
        self._hear = None
        self._by_value.clear()
        if not keeps:
            self._around = ()
            self._by_digest.clear()

    def find_value(self, value: Any) -> Attachment | None:
        """The one that was made of this value in this run."""
        known = self._by_value.get(id(value))
        return None if known is None else known[1]

    def find(self, digest: str) -> Attachment | None:
        """The one with this digest, here or in the run around it."""
        known = self._by_digest.get(digest)
        if known is None:
            known = next(filter(None, (each.find(digest) for each in self._around)), None)
            if known is not None:
                self.add(known)
        return known


_held: Final[ContextVar[HeldAttachments | None]] = ContextVar("ensemble_attachments", default=None)


def hold_here(attachments: HeldAttachments) -> None:
    """What is read from here on in this context is held by a run."""
    _held.set(attachments)


@contextmanager
def held_by_run(earlier: HeldAttachments | None = None) -> Iterator[HeldAttachments]:
    """Hold what is read inside the ``with`` block, for a run that is about to begin, and perhaps goes on with one."""
    made = HeldAttachments(_held.get(), earlier)
    token = _held.set(made)
    try:
        yield made
    finally:
        _held.reset(token)


# --- Marks in texts ---------------------------------------------------------------------------------------------------


def split_text(text: str) -> list[str | Attachment]:
    """A text in pieces: words, and what the marks between them stand for. Those of what is not held stay words."""
    held = _held.get()
    if held is None or _MARK_START not in text:
        return [text]
    parts: list[str | Attachment] = []
    start = 0
    for match in _MARK.finditer(text):
        if (found := held.find(match["digest"])) is not None:
            parts += [text[start : match.start()], found]
            start = match.end()
    parts.append(text[start:])
    return parts if len(parts) == 1 else [each for each in parts if not isinstance(each, str) or each.strip()]


def find_attachments(text: str) -> list[Attachment]:
    """What the marks of a text stand for, once each."""
    return list(dict.fromkeys(each for each in split_text(text) if isinstance(each, Attachment)))


def list_marks(text: str) -> dict[str, str]:
    """The marks in a text, of whatever, each with its kind, ``"picture"`` or ``"PDF"``."""
    if _MARK_START not in text:
        return {}
    return {match[0]: "PDF" if match["pages"] else "picture" for match in _MARK.finditer(text)}


def list_digests(text: str) -> list[str]:
    """The digests of the marks in a text, once each."""
    return list(dict.fromkeys(match["digest"] for match in _MARK.finditer(text))) if _MARK_START in text else []


def name_marks(text: str) -> str:
    """The text with the kind of each thing in place of its mark: ``Look at [picture]``."""
    return _MARK.sub(lambda match: f"[{'PDF' if match['pages'] else 'picture'}]", text) if _MARK_START in text else text


def has_mark(text: str) -> bool:
    """Whether a mark stands in a text, of anything at all."""
    return _MARK_START in text and _MARK.search(text) is not None


def find_lost_marks(text: str) -> list[str]:
    """The marks in a text of what this run does not have, once each."""
    if _MARK_START not in text:
        return []
    held = _held.get()
    lost = (match[0] for match in _MARK.finditer(text) if held is None or held.find(match["digest"]) is None)
    return list(dict.fromkeys(lost))


def count_marked_tokens(text: str) -> int:
    """The tokens that are reserved for what the marks of a text stand for."""
    if _MARK_START not in text:
        return 0
    return sum(TOKENS_EACH * int(match["pages"] or 1) for match in _MARK.finditer(text))
