"""The commands that write a study into files and take answers from them: export and import."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from scotoma.commands.slices.search import harmless
from scotoma.errors import ConfigError, DataError
from scotoma.run.records import write_json
from scotoma.storage.files import file_digest, written
from scotoma.study.bundles import bundles, read_answers
from scotoma.study.label_studio import events_of, interface, read_judgements, tasks
from scotoma.study.orders import MOST_ANNOTATORS
from scotoma.study.plan import StudyFolder, StudyPlan
from scotoma.study.store import AnswerStore, Event, back_up

__all__ = ["export_study", "import_answers"]


def export_study(
    root: Path,
    wanted: Mapping[str, bool],
    annotator: int | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Write the files that one option asks for, and say which images each holds.

    Args:
        root: Folder of the study.
        wanted: Whether each option was given; exactly one must be.
        annotator: Of `--single-file`.
        out: Folder of the files; None for `exports` of the study.
        as_json: Print names, hashes and items as JSON.

    Raises:
        ScotomaError: The options or the study cannot be used.
    """
    chosen = [name for name, given in wanted.items() if given]
    if len(chosen) != 1:
        raise ConfigError(f"give one of {', '.join(wanted)}, got {', '.join(chosen) or 'none'}")
    if (annotator is None) == (chosen[0] == "--single-file"):
        raise ConfigError("--single-file and --annotator go together; give both or neither")
    folder = StudyFolder(root)
    plan, to = folder.plan(), out or root / "exports"
    to.mkdir(parents=True, exist_ok=True)
    if chosen[0] == "--single-file":
        files = _single_files(folder, plan, annotator or 0, to)
    elif chosen[0] == "--label-studio":
        files = _label_studio(folder, plan, to)
    elif chosen[0] == "--answers":
        files = {_answers(folder, plan, to): []}
    else:
        back_up(folder.answers_file, to / "answers.sqlite")
        files = {to / "answers.sqlite": []}
    rows: list[dict[str, Any]] = [
        {
            "file": str(path),
            "bytes": path.stat().st_size,
            "sha256": file_digest(path),
            "items": items,
        }
        for path, items in files.items()
    ]
    if as_json:
        sys.stdout.write(json.dumps({"version": 1, "files": rows}, indent=1) + "\n")
        return
    for row in rows:
        held = f", {len(row['items']):,} images" if row["items"] else ""
        sys.stdout.write(f"{row['file']}: {row['bytes']:,} bytes{held}\n")
    if chosen[0] == "--single-file":
        sys.stderr.write(f"next: scotoma study import {root} FILE, once they send their answers\n")


def import_answers(root: Path, files: list[Path], *, label_studio: bool) -> None:
    """Take in files of answers, each whole or not at all.

    Raises:
        ScotomaError: A file cannot be read, or is not of this study, or was taken before.
    """
    folder = StudyFolder(root)
    plan = folder.plan()
    with AnswerStore.opened(folder.answers_file) as store:
        store.register(plan)
        for path in files:
            try:
                data = path.read_bytes()
            except OSError as error:
                raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
            read = _of_label_studio if label_studio else _of_pages
            events = read(folder, plan, store, data, str(path))
            if not (new := store.append(events)):
                raise DataError(f"{path} was imported before; nothing in it is new")
            sys.stdout.write(f"{path}: {new:,} answers taken\n")


def _single_files(
    folder: StudyFolder, plan: StudyPlan, annotator: int, to: Path
) -> dict[Path, list[str]]:
    orders = folder.orders(annotator)
    with AnswerStore.opened(folder.answers_file) as store:
        store.register(plan)
        store.expect(annotator)
    keys = folder.offline_keys()
    if annotator not in keys:
        keys[annotator] = secrets.token_bytes(32)
        folder.write_offline_keys(keys)
    images, labels = _items(folder)
    made = bundles(plan, orders, images, labels, annotator=annotator, key=keys[annotator])
    files = {}
    for number, (page, items) in enumerate(made):
        part = f"-part-{number + 1}-of-{len(made)}" if len(made) > 1 else ""
        path = to / f"annotator-{annotator}{part}.html"
        with written(path) as temporary:
            temporary.write_bytes(page)
        files[path] = items
    return files


def _label_studio(folder: StudyFolder, plan: StudyPlan, to: Path) -> dict[Path, list[str]]:
    with AnswerStore.opened(folder.answers_file) as store:
        store.register(plan)
    images, labels = _items(folder)
    items = sorted(set(folder.orders(1).main))  # by random ids: an order that tells nothing
    write_json(to / "label-studio.json", tasks(plan, items, images, labels), indent=None)
    with written(to / "label-studio.xml") as temporary:
        temporary.write_text(interface(plan), encoding="utf-8")
    return {to / "label-studio.json": items, to / "label-studio.xml": []}


def _answers(folder: StudyFolder, plan: StudyPlan, to: Path) -> Path:
    """Every event as it was given; a cell that a spreadsheet would calculate is text."""
    if not folder.answers_file.exists():
        raise DataError(
            f"{folder.root} has no answers yet; invite people with scotoma study invite"
        )
    with AnswerStore.opened(folder.answers_file) as store:
        store.register(plan)
        events = store.events()
    columns = [name for name in Event.__dataclass_fields__ if name != "key"]
    table = pl.DataFrame(
        [[getattr(event, name) for name in columns] for event in events],
        schema={
            name: pl.Int64 if name in ("annotator", "shown_ms") else pl.String for name in columns
        },
        orient="row",
    )
    with written(to / "answers.csv") as temporary:
        harmless(table).write_csv(temporary)
    os.chmod(to / "answers.csv", 0o600)
    return to / "answers.csv"


def _items(folder: StudyFolder) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Images and labels by item id."""
    items = pl.read_parquet(folder.items_file, glob=False)
    return dict(items.select("id", "image").iter_rows()), dict(
        items.select("id", "labels").iter_rows()
    )


def _of_pages(
    folder: StudyFolder, plan: StudyPlan, store: AnswerStore, data: bytes, name: str
) -> list[Event]:
    keys = folder.offline_keys()
    orders = {number: folder.orders(number) for number in keys}
    return read_answers(data, name, plan, orders, keys)


def _of_label_studio(
    folder: StudyFolder, plan: StudyPlan, store: AnswerStore, data: bytes, name: str
) -> list[Event]:
    judgements = read_judgements(data, name, plan, frozenset(folder.orders(1).main))
    people = sorted({one.person for one in judgements})
    numbers = store.outsiders(people, MOST_ANNOTATORS)
    orders = {number: folder.orders(number) for number in numbers.values()}
    return [
        event
        for one in judgements
        for event in events_of(one, numbers[one.person], orders[numbers[one.person]])
    ]
