"""Every rule is held by a test, and the document says by which."""

from __future__ import annotations

from tests.conformance.document import DOCUMENT, document, held_by
from tests.conformance.rule import RULES


def test_every_rule_has_a_test_and_every_test_a_rule() -> None:
    assert sorted(held_by()) == sorted(RULES)


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make conformance`"
