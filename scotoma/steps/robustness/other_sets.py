"""All members of an audit on pictures of another kind, from a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from scotoma import progress, storage
from scotoma.config.robustness import OtherTestSet
from scotoma.datasets import AuditedExamples
from scotoma.datasets.image_decoding import decode_rows, image_shape
from scotoma.datasets.image_files import SUFFIXES, read_images
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import DataError
from scotoma.numbers.inputs import Ints
from scotoma.printable import nearest, printable
from scotoma.processes.untrusted import table_apart
from scotoma.readers.tables import scan_table
from scotoma.run import Run
from scotoma.run.sources import Sources, examine
from scotoma.steps.robustness.bench import Bench, said_by, write
from scotoma.steps.robustness.files import set_file

__all__ = ["SetPictures", "predict_set", "set_pictures"]

AT_ONCE = 1_024  # pictures in memory
SHOWN = 5  # folders that a message lists


@dataclass(frozen=True, eq=False)
class SetPictures:
    """The pictures of a set.

    Attributes:
        names: Their files below the folder, sorted.
        labels: Their class ids, shape (n,); -1 of foreign pictures.
        present: Class ids that it has pictures of, ascending.
    """

    names: tuple[str, ...]
    labels: Ints
    present: Ints


def set_pictures(asked: OtherTestSet, classes: Sequence[str]) -> SetPictures:
    """List the pictures of a set; none is read.

    Args:
        asked: Its section of the configuration.
        classes: Class names by id, which models know.

    Raises:
        DataError: It is no folder or has no picture, or a folder in it is named as no class.
    """
    where = f"robustness.sets {asked.name!r}"
    if not storage.is_remote(asked.folder) and not os.path.isdir(asked.folder):
        raise DataError(f"{where}: {asked.folder} is not a folder; name one with a folder a class")
    names = sorted(
        name
        for name in storage.list_files(asked.folder)
        if name.lower().endswith(SUFFIXES) and (asked.foreign or "/" in name)
    )
    if not names:
        home = "" if asked.foreign else " in a folder for each class"
        raise DataError(
            f"{where}: {asked.folder} must hold images{home}, got none; correct the path"
        )
    if asked.foreign:
        return SetPictures(tuple(names), np.full(len(names), -1), np.zeros(0, np.int64))
    folders = [name.split("/", 1)[0] for name in names]
    known = dict.fromkeys(folders)
    called = {name: name for name in known} if asked.classes is None else _map(asked.classes)
    ids = {name: place for place, name in enumerate(classes)}
    if foreign := [name for name in known if called.get(name) not in ids]:
        first = foreign[0]
        wanted = called.get(first, first)
        more = f" and {len(foreign) - SHOWN:,} more" if len(foreign) > SHOWN else ""
        raise DataError(
            printable(
                f"{where}: folders must be named as classes, or be in the map `classes`, got "
                f"{', '.join(map(repr, foreign[:SHOWN]))}{more}{nearest(wanted, classes)}; rename "
                "them, or add them to the map"
            )
        )
    labels = np.array([ids[called[name]] for name in folders], np.int64)
    return SetPictures(tuple(names), labels, np.unique(labels))


def _map(place: str) -> dict[str, str]:
    """Read the map from a folder's name to a class's."""
    if not storage.is_remote(place) and not os.path.isfile(place):
        raise DataError(f"robustness.sets classes: {place} is not a file; correct the path")
    with storage.at_hand(place) as path:
        table = table_apart(scan_table, path, place, path=path, called=place)
    if missing := [name for name in ("folder", "class") if name not in table.columns]:
        raise DataError(
            f"{place} must have the columns folder and class, got "
            f"{printable(', '.join(table.columns))}; add {missing[0]}"
        )
    return dict(table.select("folder", "class").cast(pl.String).iter_rows())


def predict_set(
    bench: Bench, asked: OtherTestSet, examples: AuditedExamples, *, sure: bool
) -> Path:
    """Run every member on a set, some pictures at a time, and keep what they predict.

    Args:
        bench: The members.
        asked: The set.
        examples: The test examples, whose classes and size the models know.
        sure: Whether members also say how sure they are.

    Raises:
        DataError: As `set_pictures`, or an image cannot be decoded.
    """
    pictures = set_pictures(asked, examples.classes)
    files = storage.StampedFiles(asked.folder, pictures.names)
    digest = examine({"set": files}, Sources()).key("set")
    path = set_file(bench.run, asked)
    decides = digest, asked.mask, pictures.labels.tolist(), sure
    with bench.step(f"set-{asked.name}", path, *decides) as due:
        if due:
            size = _size(bench.run, examples)
            progress.start(f"predict {asked.name}", len(pictures.names))
            parts = []
            for start in range(0, len(pictures.names), AT_ONCE):
                names = list(pictures.names[start : start + AT_ONCE])
                pixels = decode_rows(pl.Series(names), read_images(asked.folder, names), size)
                among = pictures.present if asked.mask else None
                parts.append(said_by(bench.members, pixels, bench.network, sure=sure, among=among))
                progress.advance(f"predict {asked.name}", len(pixels))
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            write(path, pictures.names, {"label": pictures.labels} | columns)
    return path


def _size(run: Run, examples: AuditedExamples) -> ImageSize:
    """The size that models take, and how the test pictures were brought to it."""
    first = AuditedExamples.read(run.examples, only=examples.ids[:1])
    size = first.size or ImageSize()
    if size.height:
        return size
    shape = image_shape(first.table["example_id"], first.table["image"], size)
    return size._replace(height=shape[2], width=shape[3])
