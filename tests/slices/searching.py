"""A search of arrays whose data and settings are told apart by name."""

from __future__ import annotations

from typing import Any

from scotoma.slices import SearchSettings, SliceReport
from scotoma.slices import find_slices as search

DATA = ("baseline", "labels", "ids", "clusters", "progress")


def find_slices(features: Any, outcome: Any, **options: Any) -> SliceReport:
    """Search as `scotoma.slices.find_slices`, its settings by their names."""
    data = {name: options.pop(name) for name in DATA if name in options}
    return search(features, outcome, SearchSettings.of(**options), **data)
