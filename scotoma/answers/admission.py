"""May these answers be judged? The rules of admission, and the notes that they leave."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["AdmissionNote"]


class AdmissionNote(BaseModel):
    """One thing that was folded, dropped, renamed, guessed or not read, told in the same words on
    the page, on the terminal and in audit.json.

    >>> note = AdmissionNote(rule="reading", subject="age", sentence="age: 3 cells are blank.")
    >>> note.variant, note.blocks_pass
    ('', False)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Literal["reading", "language", "chance", "unanswered", "same_examples"] = Field(
        description="The rule of admission: `reading`, what was folded, dropped, guessed or not "
        "read; `language`, labels and answers; `chance`, whether the baseline is better than "
        "guessing; `unanswered`, examples without an answer; `same_examples`, whether both sides "
        "were asked the same."
    )
    subject: str = Field(description="The column, file, group or variant that it is about.")
    sentence: str = Field(description="The note, as a sentence.")
    variant: str = Field("", description="The variant that it is about; empty where it is all.")
    blocks_pass: bool = Field(
        False, description="Whether it turns a PASS into UNSURE, with its sentence."
    )
