"""Files of spans: documents of OTLP JSON, one or one a line, and what Phoenix, Langfuse and Logfire give (T106)."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.importers.foreign_span import ForeignSpan
from ensemble_notebook.importers.span_formats import (
    find_reader,
    get_field,
    read_attributes,
    read_otlp,
    settle_pending,
)

_HEAD_BYTES: Final = 65_536
_OURS: Final = re.compile(rb'\s*\{\s*"(schemaVersion|ensembleId)"')
_SIGNS: Final = re.compile(
    rb'"(resource_?[sS]pans|resource_?[mM]etrics|resource_?[lL]ogs|trace_?[iI]d|data|rows|columns|observations)"\s*:'
)
_BINARY: Final = re.compile(rb"(\x00[\s\S]{3})?\n[\s\S]{1,5}(\n|\x12)")
"""A message of OTLP, after its length where the Collector has written it: its first field is text of no other kind."""
_LISTS: Final = ("data", "rows", "observations")
_OTHERS: Final = ("resourceMetrics", "resourceLogs")
_SPACE: Final = re.compile(r"\s*")
_SIGNS_OF_DAMAGE: Final = (AttributeError, LookupError, TypeError)
_NAMED: Final = 3

_Item = tuple[Any, Callable[[Any], ForeignSpan]]
"""A span as it stands in a document, and who reads it."""


@dataclass(frozen=True, slots=True)
class FileOfSpans:
    """What was read of a file.

    Attributes:
        spans: all that could be read.
        remarks: what could not, in words that go on after "the file: ".
    """

    spans: Sequence[ForeignSpan]
    remarks: Sequence[str]


def has_spans(content: bytes) -> bool:
    """Whether a file seems to be one of these, by its first part; whoever reads it says what is wrong."""
    head = content[:_HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    return _OURS.match(head) is None and (_SIGNS.search(head) is not None or _is_binary(head))


def read_spans(content: bytes) -> FileOfSpans:
    """All spans of a file. What is wrong with one span is a remark, and so is a file that was cut off.

    Raises:
        ValueError: it is no JSON, or holds something else than documents of spans; says where.
    """
    if _is_binary(content):
        raise ValueError(
            "it is binary OTLP (protobuf), and only its JSON is read. The Collector's file exporter writes that "
            "with `format: json`, an SDK by an exporter of OTLP JSON"
        )
    documents, cut = _parse(content)
    read: list[ForeignSpan] = []
    wrong: list[str] = []
    for number, document in enumerate(documents, 1):
        items = [*_list_items(document, f"document {number}" if len(documents) > 1 else "", wrong)]
        for item, read_item in items[:-1] if document is cut else items:  # nobody knows whether the last one is whole
            found = _read(item, read_item)
            read += [found] if isinstance(found, ForeignSpan) else []
            wrong += [found] if isinstance(found, str) else []
    remarks = []
    if cut is not None:
        remarks.append(f"it is cut off, and the {pluralize(len(read), 'span')} before that are read")
    if wrong:
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        remarks.append(mask(f"left out: {mend_text(', '.join(wrong[:_NAMED]))}{more}"))
    if others := sum(map(_is_other, documents)):
        remarks.append(f"{pluralize(others, 'document')} of metrics or logs left out")
    return FileOfSpans([*settle_pending(read)], remarks)


def _read(item: Any, read_item: Callable[[Any], ForeignSpan]) -> ForeignSpan | str:
    """A span; else what is wrong with it."""
    try:
        return read_item(item)
    except ValueError as error:
        reason = str(error)
    except _SIGNS_OF_DAMAGE as error:
        reason = f"it is damaged: {type(error).__name__}: {error}"
    named = item.get("name") or item.get("span_name") if isinstance(item, Mapping) else None
    return f"span {str(named)[:60]!r} ({reason})" if named else f"a span without a name ({reason})"


def _is_other(document: Any) -> bool:
    return isinstance(document, Mapping) and any(get_field(document, each) is not None for each in _OTHERS)


def _is_binary(content: bytes) -> bool:
    return _BINARY.match(content) is not None and re.search(rb"[\x00-\x08\x0e-\x1f]", content[:400]) is not None


def _parse(content: bytes) -> tuple[list[Any], Any]:
    """The documents in a file, one after the other; and the last of them where it was cut off."""
    # What was cut off may end within a character.
    text = codecs.getincrementaldecoder("utf-8")().decode(content.removeprefix(codecs.BOM_UTF8))
    decoder, documents, at = json.JSONDecoder(), list[Any](), 0
    while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]  # it always matches
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            from jiter import from_json

            try:
                cut = from_json(text[at:].encode(), partial_mode=True)
            except ValueError:
                raise error from None
            return [*documents, cut], cut
        documents.append(document)
    return documents, None


def _list_items(document: Any, place: str, wrong: list[str]) -> Iterator[_Item]:
    """The spans of a document. What is no list or object where one belongs is told by its place."""
    if isinstance(document, Mapping) and get_field(document, "resourceSpans") is not None:
        for at, resource in _list_objects(get_field(document, "resourceSpans"), f"{place}.resourceSpans", wrong):
            told = _read_resource(resource, at, wrong)
            # Until 2022 scopes were called libraries.
            groups = get_field(resource, "scopeSpans") or get_field(resource, "instrumentationLibrarySpans")
            for group_at, group in _list_objects(groups, f"{at}.scopeSpans", wrong):
                library = group.get("scope") or get_field(group, "instrumentationLibrary")
                scope = library.get("name") if isinstance(library, Mapping) else ""
                read = partial(read_otlp, scope=str(scope or ""), resource=told)
                for _, span in _list_objects(group.get("spans"), f"{group_at}.spans", wrong):
                    yield span, read
        return
    listed, name = document, ""
    if isinstance(document, Mapping):
        name = next((each for each in _LISTS if isinstance(document.get(each), list)), "")
        if name:
            listed = document[name]
        elif isinstance(document.get("columns"), list):
            listed = _join_columns(document["columns"], f"{place}.columns", wrong)
        else:
            listed = [document] if find_reader(document) is not None else []
    for at, item in _list_objects(listed, f"{place}.{name}", wrong):
        if get_field(item, "resourceSpans") is not None:
            yield from _list_items(item, at, wrong)
        else:
            yield item, _read_item


def _list_objects(given: Any, place: str, wrong: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects in a list, each with its place."""
    place = place.strip(".") or "document"
    if not isinstance(given, list | None):
        wrong.append(f"{place} (it is no list)")
        return
    for number, each in enumerate(given or ()):
        if isinstance(each, Mapping):
            yield f"{place}[{number}]", each
        else:
            wrong.append(f"{place}[{number}] (it is no object)")


def _read_resource(given: Mapping[str, Any], place: str, wrong: list[str]) -> dict[str, Any]:
    """What the spans of a resource have in common; where it is damaged, they are read without."""
    try:
        return read_attributes((given.get("resource") or {}).get("attributes"))
    except (*_SIGNS_OF_DAMAGE, ValueError):
        wrong.append(f"{place}.resource (its attributes are damaged)")
        return {}


def _join_columns(columns: list[Any], place: str, wrong: list[str]) -> list[dict[str, Any]]:
    """The rows of a table that Logfire gives column by column.

    Raises:
        ValueError: its columns have not as many values each, so that nobody knows which stand in a row.
    """
    named = {}
    for at, column in _list_objects(columns, place, wrong):
        if isinstance(column.get("values"), list) and "name" in column:
            named[str(column["name"])] = column["values"]
        elif "values" in column:  # beside rows, a column says its name and type only
            wrong.append(f"{at} (it has no name, or no list of values)")
    if len(counts := {len(values) for values in named.values()}) > 1:
        raise ValueError(f"its columns have {min(counts)} to {max(counts)} values each, and a row needs one of each")
    return [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)]


def _read_item(item: Any) -> ForeignSpan:
    read = find_reader(item) if isinstance(item, Mapping) else None
    if read is None:
        raise ValueError("it has the names of no format that is known")
    return read(item)
