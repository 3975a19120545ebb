"""Read the examples of a configuration, whatever its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from scotoma.datasets.examples import AuditedExamples
from scotoma.datasets.image_files import read_images
from scotoma.datasets.label_pairs import label_pairs, labels_note, refuse_unlearnable
from scotoma.datasets.select_examples import examples_from_source
from scotoma.errors import DataError
from scotoma.readers.tables import encoding_notes

if TYPE_CHECKING:
    from scotoma.config.model import Config
    from scotoma.datasets.image_files import Join
    from scotoma.sources.contract import SourceTable


PART = 128  # rows whose images are read at a time


class Survey(NamedTuple):
    """Facts about a source, told without reading an image.

    Attributes:
        examples: Examples without images.
        join: Match of table and folder; None where images travel with their rows.
        origin: What messages call the source.
    """

    examples: AuditedExamples
    join: Join | None
    origin: str


def load_examples(config: Config) -> AuditedExamples:
    """Read the examples that a configuration names.

    Args:
        config: Source, label, groups and cluster.

    Returns:
        Both splits, images encoded.

    Raises:
        DataError: The source cannot be read or does not hold what the configuration names.

    >>> from scotoma.config import default_config
    >>> load_examples(default_config()).attributes
    ('style', 'exposure')
    """
    examples, parts = open_examples(config)
    return replace(examples, table=pl.concat(parts))


def open_examples(config: Config) -> tuple[AuditedExamples, Iterator[pl.DataFrame]]:
    """Open the examples that a configuration names, to be read some at a time.

    Args:
        config: Source, label, groups and cluster.

    Returns:
        The examples, without images where these are files of their own; and their table in parts,
        with images, which are read when the part is reached.

    Raises:
        DataError: See `load_examples`.

    >>> from scotoma.config import default_config
    >>> examples, parts = open_examples(default_config())
    >>> sum(part.height for part in parts) == examples.table.height
    True
    """
    place = config.source.image_folder()
    if place is None:
        examples = _examples(_read(config, images=True), config)
        return examples, iter([examples.table])
    rows = _read(config, images=False)
    if rows.join and (complaint := rows.join.complaint(rows.origin, place)):
        raise DataError(complaint)
    examples = _examples(rows, config)
    each, names = examples.rows_an_image, examples.image_ids

    def images(start: int, count: int) -> pl.Series:
        """Images of some rows; where an image has several labels, its first row brings it."""
        read = read_images(place, names[start // each : (start + count) // each])
        places = pl.Series([k // each if k % each == 0 else None for k in range(count)])
        return read if each == 1 else read.gather(places)

    height = examples.table.height
    return examples, (
        part.with_columns(images(start, part.height))
        for start in range(0, height, PART * each)
        for part in [examples.table.slice(start, PART * each)]
    )


def survey_examples(config: Config) -> Survey:
    """Read the examples that a configuration names, without images.

    Args:
        config: Source, label, groups and cluster.

    Returns:
        Both splits without images. Rows whose image is absent are among them, and counted.

    Raises:
        DataError: See `load_examples`; images that are broken or absent are not refused.

    >>> from scotoma.config import default_config
    >>> survey_examples(default_config()).examples.split("test").table.height
    1798
    """
    read = _read(config, images=False)
    return Survey(_examples(read, config), read.join, read.origin)


def _read(config: Config, *, images: bool) -> SourceTable:
    """Read the table of the source, a row a label where an example has several."""
    read = config.source.table(config, images=images)
    if not config.label.columns:
        return read
    pairs = label_pairs(read.table, config.label, read.origin)
    if config.source.trains:
        refuse_unlearnable(pairs, config.label, read.origin)
    return read._replace(table=pairs)


def _examples(read: SourceTable, config: Config) -> AuditedExamples:
    table, join, source = read.table, read.join, config.source
    notes = [*([join.note()] if join and join.note() else []), *read.notes]
    if config.baseline not in (None, "dense"):
        notes.append(f"variant {config.baseline!r} is the baseline and is called dense here")
    places = [read.origin, source.places.get("training", read.origin)]
    admission = [*(join.admission() if join else ()), *encoding_notes(places, config.limits)]
    shown, unread = source.notes()
    notes += shown
    admission += unread
    if config.label.columns:
        notes.append(labels_note(table, config.label))
    if config.mitigation is not None:
        notes.append(config.mitigation.note)
    if source.score is not None:  # true numbers are no classes
        config = config.model_copy(
            update={"label": config.label.model_copy(update={"column": None})}
        )
    return examples_from_source(table, config, read.origin, notes, admission)
