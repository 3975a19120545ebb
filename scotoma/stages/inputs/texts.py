"""Texts of compared evaluation logs: what `scotoma compare` leaves for the page to show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from scotoma.run import Run
from scotoma.run.folder import INPUTS

__all__ = ["compared_texts", "texts_file"]

TITLES = {"prompt": "Question", "target": "Right answer", "before": "dense", "after": ""}


def texts_file(folder: Path) -> Path:
    """Name the file of texts among the inputs of an audit."""
    return folder / "texts.parquet"


def compared_texts(run: Run) -> Mapping[tuple[str, str], tuple[tuple[str, str], ...]]:
    """Read the texts of an audit of compared logs, with titles, by variant and example.

    Args:
        run: Its folder; without texts there are none.
    """
    path = texts_file(run.path(INPUTS))
    if not path.exists():
        return {}
    rows = pl.read_parquet(path, glob=False).select("variant", "example_id", *TITLES).iter_rows()
    return {
        (variant, example_id): tuple(
            (title or str(variant), text or "")
            for title, text in zip(TITLES.values(), texts, strict=True)
        )
        for variant, example_id, *texts in rows
    }
