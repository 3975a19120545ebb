"""Where do examples come from? One module for each kind of source."""

from __future__ import annotations

from scotoma.datasets.examples import AuditedExamples
from scotoma.datasets.image_decoding import (
    checked_parts,
    decode_images,
    decode_images_to,
)
from scotoma.datasets.image_store import IndexedImages, StoredImages, looking_ahead, store_images
from scotoma.datasets.sources import Survey, load_examples, open_examples, survey_examples

__all__ = [
    "AuditedExamples",
    "IndexedImages",
    "StoredImages",
    "Survey",
    "checked_parts",
    "decode_images",
    "decode_images_to",
    "load_examples",
    "looking_ahead",
    "open_examples",
    "store_images",
    "survey_examples",
]
