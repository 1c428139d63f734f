"""Every rule that has a source is held by a test through the public interface, and the document says by which."""

from __future__ import annotations

from tests.conformance.document import DOCUMENT, document, held_by
from tests.conformance.rule import SOURCES


def test_every_rule_with_a_source_has_a_test_and_every_test_a_rule() -> None:
    assert sorted(held_by()) == sorted(SOURCES)


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make conformance`"
