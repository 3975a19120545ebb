"""What does `scotoma compare` leave for an audit of logs: texts to show, and how they were read?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from scotoma.answers.note import AdmissionNote
from scotoma.run import Run, read_json, write_json
from scotoma.run.folder import INPUTS

__all__ = ["compared_notes", "compared_texts", "texts_file", "write_compared_notes"]

NOTES = "notes.json"
TITLES = {"prompt": "Question", "target": "Right answer", "before": "dense", "after": ""}


def texts_file(folder: Path) -> Path:
    """Name the file of texts among the inputs of an audit."""
    return folder / "texts.parquet"


def write_compared_notes(folder: Path, notes: Sequence[AdmissionNote]) -> None:
    """Leave the notes of compared logs among the inputs of an audit."""
    write_json(folder / NOTES, [note.as_dict() for note in notes])


def compared_notes(run: Run) -> tuple[AdmissionNote, ...]:
    """Read the notes of an audit of compared logs; there are none without that file."""
    path = run.path(INPUTS) / NOTES
    return tuple(map(AdmissionNote.model_validate, read_json(path))) if path.exists() else ()


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
