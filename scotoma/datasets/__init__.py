"""Which examples does an audit have, and which images?"""

from __future__ import annotations

from scotoma.datasets.examples import AuditedExamples
from scotoma.datasets.image_decoding import (
    checked_parts,
    decode_images,
    decode_images_to,
)
from scotoma.datasets.image_store import IndexedImages, StoredImages, looking_ahead, store_images

__all__ = [
    "AuditedExamples",
    "IndexedImages",
    "StoredImages",
    "checked_parts",
    "decode_images",
    "decode_images_to",
    "looking_ahead",
    "store_images",
]
