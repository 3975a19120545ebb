"""All members of an audit on pictures of another kind, from a folder for each class."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma import progress, storage
from scotoma.config.robustness import OtherTestSet
from scotoma.datasets import AuditedExamples
from scotoma.datasets.folder import SUFFIXES, read_images
from scotoma.datasets.image_decoding import decode_rows, image_shape
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import DataError
from scotoma.inference.engines import Network
from scotoma.inference.population import predict_members
from scotoma.machine import versions
from scotoma.predictions import smallest_type
from scotoma.printable import nearest, printable
from scotoma.readers.tables import scan_table
from scotoma.robustness.confidence import energy
from scotoma.run import Run
from scotoma.run.sources import Sources, examine
from scotoma.stages.robustness.files import set_file
from scotoma.storage.files import written
from scotoma.untrusted import table_apart

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
    labels: NDArray[np.int64]
    present: NDArray[np.int64]


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
    run: Run, asked: OtherTestSet, members: list[Path], network: Network, examples: AuditedExamples
) -> None:
    """Run every member on a set, some pictures at a time, and keep what they predict.

    Args:
        run: The run.
        asked: The set.
        members: Files of the members of all variants.
        network: What they have in common.
        examples: The test examples, whose classes and size the models know.

    Raises:
        DataError: As `set_pictures`, or an image cannot be decoded.
    """
    pictures = set_pictures(asked, examples.classes)
    files = storage.StampedFiles(asked.folder, pictures.names)
    digest = examine({"set": files}, Sources()).key("set")
    graphs = [] if network.graph is None else [network.graph]
    sure = run.config.robustness is not None and run.config.robustness.confidence
    shared = [versions(), digest, asked.mask, pictures.labels.tolist(), *(["sureness"] * sure)]
    shared += run.mirror.digests([*members, *graphs]).values()
    made_with = hashlib.sha256(json.dumps(shared, default=str).encode()).hexdigest()
    path = set_file(run, asked)
    opens = [run.examples, *members, *graphs]
    name = f"robustness-set-{asked.name}"
    with run.step(name, [path], made_with=made_with, opens=opens, measures=False) as due:
        if not due:
            return
        size = _size(run, examples)
        progress.start(f"predict {asked.name}", len(pictures.names))
        parts = []
        for pixels in _decoded(asked, pictures, size):
            kept = pictures if asked.mask else None
            parts.append(_predicted(pixels, members, network, kept, sure=sure))
            progress.advance(f"predict {asked.name}", len(pixels))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        frame = {"example_id": pictures.names, "label": pictures.labels} | columns
        with written(path) as temporary:
            pl.DataFrame(frame).write_parquet(temporary)


def _size(run: Run, examples: AuditedExamples) -> ImageSize:
    """The size that models take, and how the test pictures were brought to it."""
    first = AuditedExamples.read(run.examples, only=examples.ids[:1])
    size = first.size or ImageSize()
    if size.height:
        return size
    shape = image_shape(first.table["example_id"], first.table["image"], size)
    return size._replace(height=shape[2], width=shape[3])


def _decoded(
    asked: OtherTestSet, pictures: SetPictures, size: ImageSize
) -> Iterator[NDArray[np.uint8]]:
    """Pixels of some pictures at a time, brought to the size that models take."""
    for start in range(0, len(pictures.names), AT_ONCE):
        names = list(pictures.names[start : start + AT_ONCE])
        yield decode_rows(pl.Series(names), read_images(asked.folder, names), size)


def _predicted(
    pixels: NDArray[np.uint8],
    members: list[Path],
    network: Network,
    kept: SetPictures | None,
    *,
    sure: bool,
) -> dict[str, NDArray[Any]]:
    """Class ids, shape (n, M); the best of the classes of the set where it is a mask.

    Where asked, also how sure members are: `score` and `energy`, over all classes.
    """
    asked = network if kept is None else replace(network, best=network.classes)
    shape = len(pixels), len(members)
    columns: dict[str, NDArray[Any]] = {
        "predicted": np.empty(shape, smallest_type(network.classes))
    }
    if sure:
        columns |= {name: np.empty(shape, np.float32) for name in ("score", "energy")}
    for answers in predict_members(members, pixels, asked, keep_scores="full" if sure else False):
        cell = answers.rows, answers.member
        if answers.every_score is not None:
            columns["score"][cell] = answers.scores
            columns["energy"][cell] = energy(answers.every_score)
        best = answers.best
        if kept is not None:
            allowed = np.isin(best, kept.present)
            best = np.take_along_axis(best, allowed.argmax(axis=1)[:, None], axis=1)
        columns["predicted"][cell] = best[:, 0]
    return columns
