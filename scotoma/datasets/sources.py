"""Read the examples of a configuration, whatever the kind of source."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from scotoma import storage
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.config import (
    CelebaSource,
    Cifar10Source,
    Config,
    DigitsSource,
    FolderSource,
    OnnxSource,
    PredictionsSource,
    ScoresSource,
)
from scotoma.config.sources import CocoSource, FileSource, ImsituSource
from scotoma.datasets.examples import AuditedExamples
from scotoma.datasets.feature_columns import feature_columns
from scotoma.datasets.image_size import ImageSize
from scotoma.datasets.join import Join
from scotoma.datasets.label_pairs import label_pairs, labels_note, refuse_unlearnable
from scotoma.datasets.select_examples import examples_from_source
from scotoma.errors import DataError
from scotoma.readers.hugging_face import PROCESSOR, image_settings, read_beside
from scotoma.readers.tables import encoding_notes, files_of_table

__all__ = [
    "Survey",
    "image_place",
    "load_examples",
    "open_examples",
    "source_files",
    "survey_examples",
]

PART = 128  # rows whose images are read at a time


@dataclass(frozen=True)
class Survey:
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
    return _examples(_source(config, images=True), config)


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
    source = config.source
    if not isinstance(source, FileSource):
        examples = load_examples(config)
        return examples, iter([examples.table])
    from scotoma.datasets.folder import read_images

    survey, place = survey_examples(config), image_place(source)
    if survey.join and (complaint := survey.join.complaint(survey.origin, place)):
        raise DataError(complaint)
    examples = survey.examples
    each, names = examples.rows_an_image, examples.image_ids

    def images(start: int, rows: int) -> pl.Series:
        """Images of some rows; where an image has several labels, its first row brings it."""
        read = read_images(place, names[start // each : (start + rows) // each])
        places = pl.Series([k // each if k % each == 0 else None for k in range(rows)])
        return read if each == 1 else read.gather(places)

    height = examples.table.height
    return examples, (
        part.with_columns(images(start, part.height))
        for start in range(0, height, PART * each)
        for part in [examples.table.slice(start, PART * each)]
    )


def image_place(source: FileSource) -> str:
    """Find the folder, or `s3://` prefix, of images that are files of their own."""
    if isinstance(source, CelebaSource):
        from scotoma.datasets.celeba import image_folder

        return image_folder(source.data, storage.list_files(source.data))
    if isinstance(source, CocoSource | ImsituSource):
        from scotoma.datasets.annotated_images import annotated_image_folder

        return annotated_image_folder(source)
    return source.images


def source_files(config: Config) -> tuple[dict[str, storage.StampedFiles], dict[str, str]]:
    """List the files that `load_examples` reads, without reading an image.

    Args:
        config: Source, label, groups and cluster.

    Returns:
        The files that are there, by the key of the source that names them; and by key what else
        decides what is read: which images of the folder have no row.

    Raises:
        DataError: The source cannot be listed, or its table not be read.

    >>> from scotoma.config import default_config
    >>> source_files(default_config())[0]["digits-s"].names
    ('digits.csv.gz',)
    """
    source = config.source
    if isinstance(source, DigitsSource):
        from scotoma.datasets.digits import digits_file

        return {"digits-s": storage.StampedFiles.one(str(digits_file()))}, {}
    if isinstance(source, PredictionsSource):
        tables = {
            "examples": source.examples,
            "captions": source.captions,
            "training": source.training,
        }
        return {
            key: files_of_table(place) for key, place in tables.items() if place is not None
        }, {}
    if isinstance(source, FileSource):
        table, _, join, _ = _table(config, images=False)
        names = [posixpath.normpath(name) for name in table["example_id"].to_list()]
        remark = "" if join is None else f"{join.note()}{join.rows_without_image}"
        if isinstance(source, CelebaSource):
            from scotoma.datasets.celeba import celeba_files

            own = storage.StampedFiles(source.data, tuple(celeba_files(source.data, names)))
            return {"data": own}, {"data": remark}
        if isinstance(source, CocoSource | ImsituSource):
            return _annotated_files(source, names, remark)
        images = storage.StampedFiles(source.images, tuple(dict.fromkeys(names)))
        return {"attributes": storage.StampedFiles.one(source.attributes), "images": images}, {
            "images": remark
        }
    from scotoma.datasets.cifar_binary import read_files
    from scotoma.datasets.parquet import split_files

    listed = storage.list_files(source.data)
    binary = read_files(source.data, listed) if isinstance(source, Cifar10Source) else []
    files = binary or [name for own in split_files(source.data).values() for name in own]
    return {"data": storage.StampedFiles(source.data, tuple(files))}, {}


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
    read = _source(config, images=False)
    return Survey(_examples(read, config), read.join, read.origin)


def _annotated_files(
    source: CocoSource | ImsituSource, names: list[str], remark: str
) -> tuple[dict[str, storage.StampedFiles], dict[str, str]]:
    from scotoma.datasets.annotated_images import annotation_files

    below = posixpath.relpath(image_place(source), source.data)
    pictures = [posixpath.normpath(posixpath.join(below, name)) for name in names]
    own = storage.StampedFiles(source.data, (*annotation_files(source), *dict.fromkeys(pictures)))
    attributes = getattr(source, "attributes", None)
    beside = {} if attributes is None else {"attributes": storage.StampedFiles.one(attributes)}
    return beside | {"data": own}, {"data": remark}


class _Table(NamedTuple):
    """Table of a source, its name in messages, the join with a folder if any, and notes on it."""

    table: pl.DataFrame
    origin: str
    join: Join | None
    notes: tuple[str, ...] = ()


def _source(config: Config, *, images: bool) -> _Table:
    """Read the table of the source, a row a label where an example has several."""
    read = _table(config, images=images)
    if not config.label.columns:
        return read
    pairs = label_pairs(read.table, config.label, read.origin)
    if hasattr(config.source, "recipe"):
        refuse_unlearnable(pairs, config.label, read.origin)
    return read._replace(table=pairs)


def _table(config: Config, *, images: bool) -> _Table:
    """Read the table of the source as it is."""
    source = config.source
    if isinstance(source, DigitsSource):
        from scotoma.datasets.digits import load_digits_s

        table = load_digits_s(source)
        return _Table(table if images else table.drop("image"), "digits-s", None)
    if isinstance(source, FolderSource | OnnxSource):
        from scotoma.datasets.folder import load_folder

        table, join = load_folder(source, images=images, limits=config.limits)
        return _Table(table, source.attributes, join)
    if isinstance(source, CocoSource | ImsituSource):
        from scotoma.datasets.annotated_images import annotations_place, load_annotated

        read = load_annotated(source, images=images, limits=config.limits)
        return _Table(read.table, annotations_place(source), read.join, read.notes)
    if isinstance(source, PredictionsSource):
        from scotoma.datasets.example_table import load_example_table

        asked, groups = config.label, config.groups.attributes
        named = asked.columns or ([] if asked.column is None else [asked.column])
        needed = dict.fromkeys(named, "label")
        needed |= {
            own.column: f"groups.{name}"
            for name, own in groups.items()
            if not asked.columns or name != asked.attribute
        }
        return _Table(load_example_table(source, needed, config.limits), source.examples, None)
    label = config.label.column
    assert label is not None  # sources that train have labels
    if isinstance(source, Cifar10Source):
        from scotoma.datasets.cifar10 import load_cifar10

        table = load_cifar10(source, label, images=images, limits=config.limits)
        return _Table(table, source.data, None)
    wanted = [group.column for group in config.groups.attributes.values()]
    wanted += [config.cluster.column] if config.cluster else []
    wanted += feature_columns(config)
    if isinstance(source, CelebaSource):
        from scotoma.datasets.celeba import load_celeba

        table, join = load_celeba(source, wanted, images=images)
        return _Table(table, storage.join(source.data, "list_attr_celeba"), join)
    from scotoma.datasets.parquet import load_parquet

    table = load_parquet(source.data, label, wanted, images=images, limits=config.limits)
    return _Table(table, source.data, None)


def _examples(read: _Table, config: Config) -> AuditedExamples:
    table, join = read.table, read.join
    notes = [*([join.note()] if join and join.note() else []), *read.notes]
    if config.baseline not in (None, "dense"):
        notes.append(f"variant {config.baseline!r} is the baseline and is called dense here")
    places = [read.origin, getattr(config.source, "training", None) or read.origin]
    admission = [*(join.admission() if join else ()), *encoding_notes(places, config.limits)]
    if isinstance(config.source, OnnxSource):
        if config.source.size is not None:
            notes.append(_shown_as(config.source))
        admission += _not_followed(config.source)
    if config.label.columns:
        notes.append(labels_note(table, config.label))
    if config.mitigation is not None:
        notes.append(config.mitigation.note)
    if isinstance(config.source, ScoresSource):  # true numbers are no classes
        config = config.model_copy(
            update={"label": config.label.model_copy(update={"column": None})}
        )
    return examples_from_source(table, config, read.origin, notes, admission)


def _shown_as(source: OnnxSource) -> str:
    """What external models are shown of an image, as a note."""
    size, ready = ImageSize.of_source(source), source.preprocessing
    assert size is not None
    kept = "the middle" if size.crop == 1 else f"{100 * size.crop:.3g}% of the middle"
    shown = f"{kept} of each image"
    if size.fit == "squash":
        shown = "each image squashed" if size.crop == 1 else f"{shown}, squashed,"
    mean, std = (", ".join(f"{one:g}" for one in values) for values in (ready.mean, ready.std))
    by = "" if size.resample == "bilinear" else f" ({size.resample})"
    order = "" if ready.channels == "RGB" else " in BGR"
    return (
        f"models see {shown} at {size.width}x{size.height} pixels{by}{order}, as "
        f"(pixel / {ready.scale:g} - [{mean}]) / [{std}]"
    )


def _not_followed(source: OnnxSource) -> Iterator[AdmissionNote]:
    """Notes on settings of an image processor that the audit does not follow."""
    said = image_settings(read_beside(source.models, PROCESSOR))
    asked = said.geometry | dict(said.pixels or {})
    asked |= {"channels": said.channels} if said.channels else {}
    used = {key: getattr(source, key, None) or getattr(source.preprocessing, key) for key in asked}
    other = [
        f"{key} {_plain(value)} where the audit has {_plain(used[key])}"
        for key, value in asked.items()
        if value != used[key]
    ]
    sentences = [f"{PROCESSOR} says {', '.join(other)}"] if other else []
    if said.unread:
        sentences.append(f"{', '.join(said.unread)} in {PROCESSOR} is not followed")
    for sentence in sentences:
        yield reading_note(PROCESSOR, sentence)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
