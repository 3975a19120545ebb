"""The command that analyses the answers to a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from scotoma.document import Document, Table
from scotoma.errors import DataError
from scotoma.storage.files import write_json, written
from scotoma.study.analysis import study_result
from scotoma.study.answers import Event, read_submissions
from scotoma.study.plan import StudyFolder, owner_only
from scotoma.study.section import result_document

BLINDING = "their blinding is up to that project, and no image was shown twice or guessed about"


def analyse_study(root: Path, files: list[Path]) -> tuple[Document, Any, list[str]]:
    """Analyse all answers to a study and write what they say beside the plan.

    Args:
        root: Folder of the study.
        files: What came back.

    Returns:
        The document, result.json, and notes.

    Raises:
        ScotomaError: A file is not of this study, the plan was edited or the key is missing.
    """
    folder = StudyFolder(root)
    plan, key = folder.plan(), folder.key()
    given = read_submissions(files, plan, key)
    if not any(event.place[0] == "m" for event in given.events):
        raise DataError(
            f"{files[0]} holds practice alone, no answer that counts; ask for a file that does"
        )
    count = len(given.outside)
    people = f"{count} annotator{'s' * (count != 1)}"
    deviations = [f"{people} answered in Label Studio: {BLINDING}."] if count else []
    found = study_result(plan, key.items, given.orders, given.events, deviations=deviations)
    write_json(folder.result_file, found.model_dump(mode="json"))
    _write_answers(root / "answers.csv", given.events)
    studies = folder.result_file.absolute().parents[1]
    shown = f"; scotoma show {studies.parent} shows it" if studies.name == "studies" else ""
    content = json.loads(folder.result_file.read_text(encoding="utf-8"))
    notes = [f"written to {folder.result_file}{shown}"]
    return result_document(root.name, found), content, notes


def _write_answers(path: Path, events: tuple[Event, ...]) -> None:
    """Every answer and comment, without arms; what a spreadsheet would calculate is text."""
    columns = list(Event.__dataclass_fields__)
    numbers = ("annotator", "shown_ms")
    table = pl.DataFrame(
        [[getattr(event, name) for name in columns] for event in events],
        schema={name: pl.Int64 if name in numbers else pl.String for name in columns},
        orient="row",
    )
    with owner_only(), written(path) as temporary:
        temporary.write_text(Table.of_frame(table).csv(), encoding="utf-8")
