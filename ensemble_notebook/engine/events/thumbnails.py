"""Thumbnails of pictures for the trace, by Pillow (extra ``images``), which is loaded for the first of them."""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from typing import Final

from ensemble_notebook.domain.attachments import PDF, Attachment
from ensemble_notebook.errors import summarize_error

_SIZES: Final = (320, 240, 160, 96)
_MOST_BYTES: Final = 15_000
"""At most 20,000 characters of base64."""
_NO_PILLOW: Final = "there is no thumbnail, which needs Pillow: pip install pillow."


def make_thumbnail(attachment: Attachment) -> tuple[str | None, str]:
    """Make a small WebP picture.

    Returns:
        It as base64, and why there is none; both are empty for a PDF.
    """
    if attachment.media_type == PDF:
        return None, ""
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
                small.thumbnail((size, size))
                file = io.BytesIO()
                small.save(file, "WEBP", quality=75)
                if file.tell() <= _MOST_BYTES:
                    return b64encode(file.getvalue()).decode("ascii"), ""
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file, the model is sent it as it is
        return None, f"there is no thumbnail, since the picture can't be read: {summarize_error(error)}"
    return None, "there is no thumbnail, since none is small enough."
