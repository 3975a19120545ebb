"""What is told of what was folded, dropped, guessed or not read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

METADATA = "scotoma.admission"  # key in the metadata of files


class AdmissionNote(BaseModel):
    """One thing that was folded, dropped, renamed, guessed or not read.

    It is told in the same words on the page, on the terminal and in audit.json.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Literal["reading", "language", "chance", "unanswered", "same_examples"] = Field(
        description="The rule of admission: `reading`, what was folded, dropped, guessed or not "
        "read; `language`, labels and answers; `chance`, whether the baseline is better than "
        "guessing; `unanswered`, examples without an answer; `same_examples`, whether both sides "
        "were asked the same."
    )
    subject: str = Field(description="The column, file, group or variant that it is about.")
    sentence: str = Field(description="The note, as a sentence without a full stop.")
    variant: str = Field("", description="The variant that it is about; empty where it is all.")
    blocks_pass: bool = Field(
        False, description="Whether it turns a PASS into UNSURE, with its sentence."
    )

    def as_dict(self) -> dict[str, str | bool]:
        """Give the fields for JSON."""
        return self.model_dump()


def reading_note(subject: str, sentence: str, variant: str = "") -> AdmissionNote:
    """Tell what was folded, dropped or guessed in reading."""
    return AdmissionNote(rule="reading", subject=subject, sentence=sentence, variant=variant)


def notes_metadata(notes: Iterable[AdmissionNote]) -> dict[str, str]:
    """Write notes as metadata of a file; a file without notes has none.

    >>> notes_metadata([])
    {}
    """
    texts = [note.as_dict() for note in notes]
    return {METADATA: json.dumps(texts)} if texts else {}


def read_notes(metadata: Mapping[str, str]) -> tuple[AdmissionNote, ...]:
    """Read what `notes_metadata` wrote.

    Raises:
        ValueError: It is something else.

    >>> note = AdmissionNote(rule="reading", subject="age", sentence="age: 3 cells are blank")
    >>> read_notes(notes_metadata([note])) == (note,)
    True
    """
    return tuple(map(AdmissionNote.model_validate, json.loads(metadata.get(METADATA, "[]"))))
