"""Events of what is only noted: pictures, progress, times that were moved. `domain.events` names them, too."""

from __future__ import annotations

from ensemble_notebook.domain.seams.event import Event, event


@event
class AttachmentAdded(Event):
    """The run has been given a picture or PDF, as an input, by a handler or by a tool; once for each.

    In texts stands ``[picture sha256:...]`` or ``[PDF of 2 pages sha256:...]`` in its place.

    Attributes:
        digest: sha256 of its bytes, in hexadecimal digits.
        media_type: such as ``"image/png"``.
        size_bytes: how many it has.
        file_name: that it came with; empty where it had none.
        page_count: of a PDF; None of a picture.
        thumbnail: a small WebP picture of it as base64, of at most 20,000 characters; None where there is none.
        thumbnail_fault: why there is none, in words; empty where there is one, and for a PDF.
    """

    digest: str
    media_type: str
    size_bytes: int
    file_name: str = ""
    page_count: int | None = None
    thumbnail: str | None = None
    thumbnail_fault: str = ""

    @property
    def kind(self) -> str:
        """``"picture"`` or ``"PDF"``."""
        return "picture" if self.page_count is None else "PDF"


@event
class TimesMoved(Event):
    """A time of this span, of another framework, was moved: it ran back, or left the span around it."""


@event
class ProgressReported(Event):
    """Code of the user says how far it is, by `RunContext.progress`. It belongs to the span that called it.

    Attributes:
        text: a few words.
        fraction: the share that is done, 0 to 1; None where it does not say.
    """

    text: str
    fraction: float | None = None
