"""Values as texts for prompts (E47): tables as CSV, data as JSON, pictures as marks, all else by `str()`.

Knows no library of tables, arrays or images: they are recognised by their methods, since importing one takes longer
than most runs. Only tables are limited, at whole rows; a model reads half a JSON value as a broken one.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, Self

from ensemble_notebook.domain.attachments import Attachment, is_image, read_attachment
from ensemble_notebook.domain.attachments import UnwritableValueError as UnwritableValueError  # noqa: PLC0414
from ensemble_notebook.domain.config import config
from ensemble_notebook.errors import summarize_error

_AS_FILE: Final = "Give it by itself as an input: a Path, an image of Pillow, or Attachment(data, 'image/png')."
_BASE64: Final = ";base64,"
_DATA_URL: Final = re.compile(
    r"data:(?P<kind>[\w.+-]{1,50}/[\w.+-]{1,80})(?:;[\w=.-]{1,80}){0,5};base64,[\w+/=-]{200,}"
)
_KEYS: Final = (str, int, float, bool, type(None))
_MISSING_TYPES: Final = frozenset({"NaTType", "NAType"})


class JudgedText(str):
    """A text that a model is to judge: a prompt has it between marks (V7), code as it is."""

    __slots__ = ()

    mark = "output"


class FirstText(JudgedText):
    """The one that is told first of two that a model is to compare (V65)."""

    __slots__ = ()

    mark = "first"


class SecondText(JudgedText):
    """The other one."""

    __slots__ = ()

    mark = "second"


def mark_text(text: str, mark: str = JudgedText.mark) -> str:
    """A text between marks that it can't close: their name is longer than any in it, ``<output->``, ``</output->``.

    The same text has the same marks, so that prompts can be recorded and compared.
    """
    known = re.findall(rf"<\s*+/?+\s*+{mark}(-*+)", text, re.IGNORECASE)
    name = mark + "-" * max((len(each) + 1 for each in known), default=0)
    space = "\n" if "\n" in text else ""
    return f"<{name}>{space}{text}{space}</{name}>"


def mend_text(text: str) -> str:
    """The text with U+FFFD for each half of a character that stands alone, which no file and no request can hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def mend_value(value: Any) -> Any:
    """The same for a value as JSON has it, with all texts in it."""
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, dict):
        return {mend_value(name): mend_value(each) for name, each in value.items()}
    return [mend_value(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class ValueText:
    """A value as a text.

    Attributes:
        text: for a prompt.
        shown: how much of a table it has, such as ``120 of 200 rows``; empty where nothing was left out.
    """

    text: str
    shown: str = ""


def find_value_fault(value: Any) -> str | None:
    """Find out why a value can't stand in a prompt, as a sentence without its subject; None where it can."""
    if isinstance(value, bytes | bytearray | memoryview):
        size = value.nbytes if isinstance(value, memoryview) else len(value)
        return (
            f"is {type(value).__name__} ({size:,} bytes), which no prompt can hold. Decode it to a text first; for a "
            f"picture or PDF write Attachment(data, 'image/png')."
        )
    parts = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(each, Mapping) and isinstance(each.get("image_url"), Mapping) for each in parts):
        return f"is a message part with an image (image_url), which no prompt can hold. {_AS_FILE}"
    return None


def find_data_url_fault(text: str) -> str | None:
    """Find out whether a text holds a file as a data URL, as a sentence without its subject; None where it does not.

    Short ones, such as the icons of a page, stay: a model reads them as the letters that they are.
    """
    found = _DATA_URL.search(text) if _BASE64 in text else None
    if found is None:
        return None
    size = f"{len(found[0]):,} characters"
    return f"holds a data URL ({found['kind']}, {size}), which a model reads as letters. {_AS_FILE}"


def find_text_fault(value: Any) -> str | None:
    """Find out why a value can't stand in a prompt, whatever is in it; None where it can."""
    if isinstance(value, str):
        return f"it {fault}" if (fault := find_data_url_fault(value)) else None
    try:
        write_value(value, config.max_table_chars)
    except Exception as error:  # noqa: BLE001 - what a user's class raises when it is asked for its text
        return explain_unwritable(error)
    return None


def explain_unwritable(error: Exception) -> str:
    """Why `write_value` could not write a value, of what it raised."""
    return str(error) if isinstance(error, UnwritableValueError) else summarize_error(error)


def is_table(value: Any) -> bool:
    """True for a DataFrame or Series of pandas or of a library that is like it, and for a polars DataFrame."""
    if isinstance(value, type) or not callable(getattr(value, "head", None)) or hasattr(value, "npartitions"):
        return False
    if callable(getattr(value, "to_csv", None)):
        return hasattr(value, "columns") or (hasattr(value, "index") and hasattr(value, "name"))
    return callable(getattr(value, "write_csv", None)) and hasattr(value, "columns")


def is_missing(value: Any) -> bool:
    """Whether a table has no value there: None, NaN, NA or NaT."""
    if value is None:
        return True
    if isinstance(value, float):
        return value != value
    return type(value).__name__ in _MISSING_TYPES


def is_equal(value: Any, other: Any) -> bool:
    """Whether two values are known to be equal."""
    try:
        return bool(value == other)
    except Exception:  # noqa: BLE001 - tables and arrays give no plain answer, and objects are anybody's
        return False


def write_value(value: Any, max_table_chars: int | None = None) -> ValueText:
    """Write a value for a prompt.

    Args:
        value: of any type; None is an empty text.
        max_table_chars: limits a table; None for no limit.

    Raises:
        UnwritableValueError: bytes, data that holds bytes or a picture, or a picture that no model takes.
    """
    if isinstance(value, JudgedText):
        return ValueText(mend_text(mark_text(value, value.mark)))
    if isinstance(value, str):
        return ValueText(mend_text(str.__str__(value)))  # no class of its own, such as numpy's
    if value is None or type(value) in (int, float, bool):
        return ValueText("" if value is None else str(value))
    if fault := find_value_fault(value):
        raise UnwritableValueError(f"it {fault}")
    if attachments := _read_attachments(value):
        return ValueText("\n".join(each.mark for each in attachments))
    if is_table(value):
        return _write_table(value, max_table_chars)
    if isinstance(value, timedelta):
        return ValueText(str(timedelta(microseconds=value // _MICROSECOND)))  # pandas has other words for it
    if is_array(value) and value.shape == ():
        return write_value(read_array(value))
    if isinstance(value, Mapping | list | tuple | set | frozenset) or is_record(value) or is_array(value):
        return _write_json(value)
    return ValueText(mend_text(str(value)))


def _read_attachments(value: Any) -> list[Attachment]:
    """The picture or PDF that a value is, or all of a list of nothing else; empty where it is other data."""
    if not isinstance(value, list | tuple):
        return [] if (one := read_attachment(value)) is None else [one]
    if not value or not all(isinstance(each, Attachment | Path) or is_image(each) for each in value):
        return []
    read = [each for each in map(read_attachment, value) if each is not None]
    return read if len(read) == len(value) else []


def write_whole(value: Any) -> str:
    """Write a value for programs and people: nothing is left out, and nothing refused."""
    try:
        return write_value(value).text
    except UnwritableValueError:
        return str(value)


def describe_limited_table(what: str, written: ValueText) -> str:
    """Describe, for a warning, what a prompt has of a table."""
    return f"{what} goes into a prompt with {written.shown}: config.max_table_chars is {config.max_table_chars:,}."


def _write_json(value: Any) -> ValueText:
    text = mend_text(json.dumps(_to_json(value, "", ()), ensure_ascii=False))
    if fault := find_data_url_fault(text):
        raise UnwritableValueError(f"it {fault}")
    return ValueText(text)


def _to_json(value: Any, place: str, above: tuple[Any, ...]) -> Any:
    """A value as JSON has it: times as ISO 8601 writes them, what is missing as null.

    Raises:
        UnwritableValueError: JSON has no form for a part of it; says where.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if is_missing(value):
        return None
    if isinstance(value, str | int | float):
        return value
    if fault := _find_json_fault(value, place, above):
        raise UnwritableValueError(f"it {fault}")
    inside = (*above, value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json(each, f"{place}[{number}]", inside) for number, each in enumerate(value)]
    if isinstance(value, Mapping):
        return {name: _to_json(each, f"{place}.{name}".lstrip("."), inside) for name, each in value.items()}
    if is_record(value):
        fields = value.model_dump() if hasattr(value, "model_dump") else _read_fields(value)
        return _to_json(fields, place, inside)
    if is_array(value):
        return _to_json(read_array(value), place, inside)
    if isinstance(value, timedelta):
        return write_duration(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _find_json_fault(value: Any, place: str, above: tuple[Any, ...]) -> str | None:
    """Find out why JSON has no form for a value, as a sentence without its subject; None where it has one."""
    where = f" at {place}" if place else ""
    if isinstance(value, Attachment) or is_image(value):
        return f"has a picture or PDF{where}, and data is text. {_AS_FILE}"
    if fault := find_value_fault(value):
        return f"has, at {place}, {fault.removeprefix('is ')}" if place else fault
    if any(each is value for each in above):
        return f"holds itself{where}, without an end."
    if is_table(value):
        return f"has a table{where}. Give the table by itself, or its records: df.to_dict('records')."
    keys = value if isinstance(value, Mapping) else ()
    for key in keys:
        if not isinstance(key, _KEYS):
            return f"has the key {key!r}{where}, and keys in JSON are texts. Make it one: str(key)."
    return None


_MICROSECOND: Final = timedelta(microseconds=1)


def write_duration(duration: timedelta) -> str:
    """Write a duration as ISO 8601 has it, ``PT1H2M3.4S``: hours as many as it takes, no parts that are zero."""
    microseconds = duration // _MICROSECOND
    sign, microseconds = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    minutes, microseconds = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if seconds or fraction or not text:
        text += f"{seconds}.{fraction:06}".rstrip("0").rstrip(".") + "S"
    return f"{sign}PT{text}"


def format_instant(moment: datetime) -> str:
    """``2026-01-02T03:04:05.678Z``, in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """The moment that a text names; digits beyond microseconds are cut.

    Raises:
        ValueError: it is none.
    """
    shortened = re.sub(r"(\.\d{6})\d+", r"\1", text)
    moment = datetime.fromisoformat(shortened)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return moment.astimezone(UTC)


def _read_fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _write_table(table: Any, max_chars: int | None) -> ValueText:
    count = len(table)
    if max_chars is None:
        return ValueText(_to_csv(table, count))
    fitting, too_many = 0, count + 1
    step = 1
    while fitting + 1 < too_many:  # doubles while all fits, then halves: never writes much more than is shown
        tried = min(step, count) if too_many > count else (fitting + too_many) // 2
        if len(_to_csv(table, tried)) <= max_chars:
            fitting, step = tried, step * 2
        else:
            too_many = tried
    text = _to_csv(table, fitting)
    if fitting == count:
        return ValueText(text)
    shown = f"{fitting} of {count} rows"
    return ValueText(f"{text}\n({shown}; the others are left out)", shown)


def _to_csv(table: Any, count: int) -> str:
    """Write the first rows; an index only where it says more than the number of the row."""
    rows = table.head(count)
    if not hasattr(rows, "to_csv"):
        return str(rows.write_csv()).rstrip("\n")
    is_numbering = type(table.index).__name__ == "RangeIndex" and table.index.name is None
    has_header = hasattr(table, "columns") or table.name is not None
    return mend_text(str(rows.to_csv(index=not is_numbering, header=has_header, lineterminator="\n")).rstrip("\n"))


def is_record(value: Any) -> bool:
    """True for an object of a dataclass or of a pydantic model."""
    if isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or (hasattr(value, "model_dump") and hasattr(value, "model_fields_set"))


def to_plain(value: Any) -> Any:
    """Numpy's numbers, truths and arrays as Python's own, also inside dicts, lists and tuples; all else as it is."""
    try:
        return _to_plain(value)
    except RecursionError:  # it holds itself
        return value


def _to_plain(value: Any) -> Any:
    if is_array(value):
        return read_array(value)
    if type(value) is dict:
        return {_to_plain(key): _to_plain(each) for key, each in value.items()}
    return type(value)(map(_to_plain, value)) if type(value) in (list, tuple) else value


_FINE_TIME: Final = re.compile(r"[mM]8\[\d*[npfa]s\]$")


def read_array(value: Any) -> Any:
    """Read the values of an array, or of a number of numpy's, as Python's own."""
    if _FINE_TIME.search(getattr(value.dtype, "str", "")):
        value = value.astype(f"{value.dtype.kind}8[us]")  # numpy makes whole numbers of what is finer
    return value.tolist()


def is_array(value: Any) -> bool:
    """True for what numpy and its like have, numbers that are not Python's included where they stand in other data."""
    return hasattr(value, "dtype") and hasattr(value, "shape") and callable(getattr(value, "tolist", None))


# Decoders go one call deeper with each level. Where the stack is nearly used up by then, what they raise can come up in
# places in which Python can only print it; so the levels are counted before.

DEEPEST: Final = 400
"""So many levels are read; what is written for people or programs has a dozen."""

# A text, also one without an end, in which brackets mean nothing; or a bracket.
_PART: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[\[\]{}]', re.DOTALL)


def read_json(text: str | bytes, **how: Any) -> Any:
    """Read a JSON value, in which escapes make no half characters (`mend_text`); `how` is as of `json.loads`.

    Raises:
        ValueError: it is none, or one that is nested deeper than `DEEPEST`.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    if _is_too_deep(text):
        raise ValueError("it is nested too deeply")
    value = json.loads(text, **how)
    return mend_value(value) if "\\ud" in text or "\\uD" in text else value


class WrittenFloat(float):
    """A number that was written with more digits than a float has; as a text, and as a Decimal, it has all of them.

    Args:
        text: as it was written.
    """

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override] # a float is made of a text, too
        return (self.text,)


def read_float(text: str) -> float:
    """Read a number of a JSON text that may become a Decimal; a `WrittenFloat` where a float is another number."""
    number = float(text)
    try:
        is_same = Decimal(text) == Decimal(repr(number))
    except InvalidOperation:  # an exponent beyond those of decimals
        is_same = True
    return number if is_same else WrittenFloat(text)


def _is_too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    depth = 0
    for part in _PART.finditer(text):
        mark = part[0]
        if mark in "[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif mark in "]}":
            depth -= 1
    return False


# --- Reads a text as the value that YAML 1.2 (its core schema) takes it for -------------------------------------------
#
# Texts in, values out; cells and the types that Python code writes as texts share it.


_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULLS: Final = ("", "~", "null", "Null", "NULL")
_TRUE: Final = ("true", "True", "TRUE")
_FALSE: Final = ("false", "False", "FALSE")
_LONGEST_NUMBER: Final = 40

FLAGS: Final = (*_TRUE, *_FALSE)
OLD_FLAGS: Final = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
"""What YAML 1.1 took for true and false, and YAML 1.2 takes for texts."""


class PlainValueError(ValueError):
    """A number that is written in a way that tools read differently: what is wrong, and in `hint` what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def read_plain_value(text: str) -> Any:
    """Read a text without quotes as a text, int, float, bool or None.

    Raises:
        PlainValueError: the number is written in a way that tools read differently.
    """
    if text in _NULLS:
        return None
    if text in FLAGS:
        return text in _TRUE
    if text[0] not in "+-.0123456789":
        return text
    if text.lower() in (".nan", ".inf", "+.inf", "-.inf"):
        return float(text.lower().replace(".", ""))
    if not (_INTEGER.fullmatch(text) or _FLOAT.fullmatch(text) or _BASED.fullmatch(text)):
        return text
    if len(text) > _LONGEST_NUMBER:
        raise PlainValueError(f"a number with {len(text)} characters is too long.", "Put it in quotes if it is a text.")
    if re.match(r"[-+]?0[0-9]", text):
        message = f"{text} starts with a zero: some read it as octal, some as decimal."
        raise PlainValueError(message, f'Write "{text}" for the text, or {text.lstrip("+-0") or "0"} for the number.')
    if _INTEGER.fullmatch(text):
        return int(text)
    return int(text, 0) if _BASED.fullmatch(text) else float(text)
