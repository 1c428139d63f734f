"""Thumbnails of pictures for traces and views, by Pillow (extra ``images``), which is loaded for the first of them."""

from __future__ import annotations

import io
import warnings
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Any, Final

from ensemble_notebook.domain.attachments import PDF, Attachment
from ensemble_notebook.errors import summarize_error

_SIZES: Final = (320, 240, 160, 96)
_MOST_BYTES: Final = 15_000
"""At most 20,000 characters of base64."""
_NO_PILLOW: Final = "there is no thumbnail, which needs Pillow: pip install pillow."

_made: Final[dict[str, tuple[str | None, str]]] = {}
_MOST_MADE: Final = 64


def make_thumbnail(attachment: Attachment) -> tuple[str | None, str]:
    """Make a small WebP picture, at most 320 points wide and high; of the same bytes once for the rows of a map.

    One at a time, since the pixels of a picture take far more than its file: who calls this from threads holds a lock.

    Returns:
        It as base64, of at most 20,000 characters, and why there is none; both are empty for a PDF.
    """
    if attachment.media_type == PDF:
        return None, ""
    if attachment.digest not in _made:
        while len(_made) >= _MOST_MADE:
            del _made[next(iter(_made))]
        _made[attachment.digest] = _make(attachment)
    return _made[attachment.digest]


def _make(attachment: Attachment) -> tuple[str | None, str]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return None, _NO_PILLOW
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(attachment.data))
            image.draft("RGB", (_SIZES[0], _SIZES[0]))  # a JPEG is read in its small form
            image.thumbnail((_SIZES[0], _SIZES[0]))
            upright = ImageOps.exif_transpose(image)
            small = upright if upright.mode in ("RGB", "RGBA") else upright.convert("RGBA")
            for size in _SIZES:
                data = _save(small, size)
                if len(data) <= _MOST_BYTES:
                    return b64encode(data).decode("ascii"), ""
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file, the model is sent it as it is
        return None, f"there is no thumbnail, since the picture can't be read: {summarize_error(error)}"
    return None, "there is no thumbnail, since none is small enough."


@lru_cache(maxsize=256)
def shrink_thumbnail(encoded: str, size: int) -> str | None:
    """A thumbnail of a trace, made still smaller: as base64; None where it can't be."""
    try:
        from PIL import Image

        return b64encode(_save(Image.open(io.BytesIO(b64decode(encoded))), size)).decode("ascii")
    except Exception:  # noqa: BLE001 - without Pillow, and from a file that somebody else wrote
        return None


def _save(image: Any, size: int) -> bytes:
    image.thumbnail((size, size))
    file = io.BytesIO()
    image.save(file, "WEBP", quality=75)
    return file.getvalue()
