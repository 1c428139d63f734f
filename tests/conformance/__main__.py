"""``python -m tests.conformance`` writes the document."""

from __future__ import annotations

from tests.conformance.document import DOCUMENT, document

DOCUMENT.write_text(document(), encoding="utf-8")
