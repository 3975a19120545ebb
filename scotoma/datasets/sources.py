"""Read the examples of a configuration, whatever the kind of source."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from scotoma import storage
from scotoma.config import (
    CelebaSource,
    Cifar10Source,
    Config,
    DigitsSource,
    FolderSource,
    OnnxSource,
    PredictionsSource,
)
from scotoma.datasets.examples import Examples
from scotoma.datasets.feature_columns import feature_columns
from scotoma.datasets.image_size import ImageSize
from scotoma.datasets.join import Join
from scotoma.datasets.select_examples import examples_from_source
from scotoma.errors import DataError

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

    examples: Examples
    join: Join | None
    origin: str


def load_examples(config: Config) -> Examples:
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
    table, origin, join = _source(config, images=True)
    return _examples(table, config, origin, join)


def open_examples(config: Config) -> tuple[Examples, Iterator[pl.DataFrame]]:
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
    if not isinstance(source, FolderSource | OnnxSource | CelebaSource):
        examples = load_examples(config)
        return examples, iter([examples.table])
    from scotoma.datasets.folder import read_images

    survey, place = survey_examples(config), image_place(source)
    if survey.join and (complaint := survey.join.complaint(survey.origin, place)):
        raise DataError(complaint)
    return survey.examples, (
        part.with_columns(read_images(place, part["example_id"].to_list()))
        for part in survey.examples.table.iter_slices(PART)
    )


def image_place(source: FolderSource | OnnxSource | CelebaSource) -> str:
    """Find the folder, or `s3://` prefix, of images that are files of their own."""
    if isinstance(source, CelebaSource):
        from scotoma.datasets.celeba import image_folder

        return image_folder(source.data, storage.list_files(source.data))
    return source.images


def source_files(config: Config) -> tuple[dict[str, storage.Files], dict[str, str]]:
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

        return {"digits-s": storage.Files.one(str(digits_file()))}, {}
    if isinstance(source, PredictionsSource):
        tables = {"examples": source.examples, "training": source.training}
        return {key: storage.Files.one(t) for key, t in tables.items() if t is not None}, {}
    if isinstance(source, FolderSource | OnnxSource | CelebaSource):
        table, _, join = _source(config, images=False)
        names = [posixpath.normpath(name) for name in table["example_id"].to_list()]
        remark = "" if join is None else f"{join.note()}{join.rows_without_image}"
        if isinstance(source, CelebaSource):
            from scotoma.datasets.celeba import celeba_files

            own = storage.Files(source.data, tuple(celeba_files(source.data, names)))
            return {"data": own}, {"data": remark}
        images = storage.Files(source.images, tuple(dict.fromkeys(names)))
        return {"attributes": storage.Files.one(source.attributes), "images": images}, {
            "images": remark
        }
    from scotoma.datasets.cifar_binary import read_files
    from scotoma.datasets.parquet import split_files

    listed = storage.list_files(source.data)
    binary = read_files(source.data, listed) if isinstance(source, Cifar10Source) else []
    files = binary or [name for own in split_files(source.data).values() for name in own]
    return {"data": storage.Files(source.data, tuple(files))}, {}


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
    table, origin, join = _source(config, images=False)
    return Survey(_examples(table, config, origin, join), join, origin)


def _source(config: Config, *, images: bool) -> tuple[pl.DataFrame, str, Join | None]:
    """Read the table of the source, its name in messages, and the join with a folder, if any."""
    source = config.source
    if isinstance(source, DigitsSource):
        from scotoma.datasets.digits import load_digits_s

        table = load_digits_s(source)
        return table if images else table.drop("image"), "digits-s", None
    if isinstance(source, FolderSource | OnnxSource):
        from scotoma.datasets.folder import load_folder

        table, join = load_folder(source, images=images, limits=config.limits)
        return table, source.attributes, join
    if isinstance(source, PredictionsSource):
        from scotoma.datasets.example_table import load_example_table

        needed = {} if config.label.column is None else {config.label.column: "label"}
        needed |= {own.column: f"groups.{name}" for name, own in config.groups.attributes.items()}
        return load_example_table(source, needed, config.limits), source.examples, None
    label = config.label.column
    assert label is not None  # sources that train have labels
    if isinstance(source, Cifar10Source):
        from scotoma.datasets.cifar10 import load_cifar10

        return (
            load_cifar10(source, label, images=images, limits=config.limits),
            source.data,
            None,
        )
    wanted = [group.column for group in config.groups.attributes.values()]
    wanted += [config.cluster.column] if config.cluster else []
    wanted += feature_columns(config)
    if isinstance(source, CelebaSource):
        from scotoma.datasets.celeba import load_celeba

        table, join = load_celeba(source, wanted, images=images)
        return table, storage.join(source.data, "list_attr_celeba"), join
    from scotoma.datasets.parquet import load_parquet

    table = load_parquet(source.data, label, wanted, images=images, limits=config.limits)
    return table, source.data, None


def _examples(table: pl.DataFrame, config: Config, origin: str, join: Join | None) -> Examples:
    notes = [join.note()] if join and join.note() else []
    if config.baseline not in (None, "dense"):
        notes.append(f"variant {config.baseline!r} is the baseline and is called dense here")
    if isinstance(config.source, OnnxSource) and config.source.size is not None:
        notes.append(_shown_as(config.source))
    return examples_from_source(table, config, origin, notes)


def _shown_as(source: OnnxSource) -> str:
    """What external models are shown of an image, as a note."""
    size, ready = ImageSize.of_source(source), source.preprocessing
    assert size is not None
    kept = "the middle" if size.crop == 1 else f"{100 * size.crop:.3g}% of the middle"
    mean, std = (", ".join(f"{one:g}" for one in values) for values in (ready.mean, ready.std))
    return (
        f"models see {kept} of each image at {size.width}x{size.height} pixels, as "
        f"(pixel / {ready.scale:g} - [{mean}]) / [{std}]"
    )
