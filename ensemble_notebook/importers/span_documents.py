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
    for document in documents:
        items = [*_list_items(document)]
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


def _list_items(document: Any) -> Iterator[tuple[Any, Callable[[Any], ForeignSpan]]]:
    """The spans of a document, as they stand there, each with who reads it."""
    if isinstance(document, Mapping) and get_field(document, "resourceSpans") is not None:
        for resource in get_field(document, "resourceSpans"):
            told = read_attributes((resource.get("resource") or {}).get("attributes"))
            # Until 2022 scopes were called libraries.
            for group in get_field(resource, "scopeSpans") or get_field(resource, "instrumentationLibrarySpans") or ():
                scope = (group.get("scope") or get_field(group, "instrumentationLibrary") or {}).get("name")
                read = partial(read_otlp, scope=str(scope or ""), resource=told)
                yield from ((span, read) for span in group.get("spans") or ())
        return
    listed = document
    if isinstance(document, Mapping):
        listed = next((document[name] for name in _LISTS if isinstance(document.get(name), list)), None)
        if listed is None and isinstance(columns := document.get("columns"), list):  # Logfire's, column by column
            names = [each["name"] for each in columns if "values" in each]
            listed = [
                dict(zip(names, row, strict=True)) for row in zip(*(each["values"] for each in columns), strict=True)
            ]
        if listed is None:
            listed = [document] if find_reader(document) is not None else []
    if not isinstance(listed, list):
        raise TypeError("it holds no documents of spans")
    for item in listed:
        if isinstance(item, Mapping) and get_field(item, "resourceSpans") is not None:
            yield from _list_items(item)
        else:
            yield item, _read_item


def _read_item(item: Any) -> ForeignSpan:
    read = find_reader(item) if isinstance(item, Mapping) else None
    if read is None:
        raise ValueError("it has the names of no format that is known")
    return read(item)
