"""What stops an answer from being judged, and what is told of it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from scotoma.answers import AdmissionNote


def test_a_note_keeps_its_words() -> None:
    note = AdmissionNote(rule="language", subject="label", sentence="Case differs.", variant="int8")
    assert AdmissionNote.model_validate_json(note.model_dump_json()) == note
    with pytest.raises(ValidationError):
        note.sentence = "Something else."  # type: ignore[misc]


def test_a_note_names_one_of_the_rules() -> None:
    with pytest.raises(ValidationError):
        AdmissionNote(rule="hearsay", subject="label", sentence="x")  # type: ignore[arg-type]
