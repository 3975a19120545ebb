"""Predictions of external models: tables of labels and attributes, and what models said."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import polars as pl
from pydantic import BeforeValidator, Field

from scotoma import storage
from scotoma.answers.values import read_values
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.config.shared import as_list, twice
from scotoma.datasets.coco_labels import GENDER, captioned_genders, coco_labels
from scotoma.datasets.text_columns import absent_column
from scotoma.errors import DataError
from scotoma.printable import nearest, printable
from scotoma.processes.unreadable import reason
from scotoma.processes.untrusted import table_apart
from scotoma.readers.tables import files_of_table, refuse_doubled, scan_table, table_at_hand
from scotoma.sources.contract import FilePlace, MaybeFilePlace, Source, SourceFiles, SourceTable
from scotoma.storage import StampedFiles

if TYPE_CHECKING:
    from scotoma.config.model import Config
    from scotoma.predictions.tables import PredictionTable
    from scotoma.sources.answers import SuppliedAnswers


KEY = "example_id"
OWN = (KEY, "split", "image", "image_name")  # columns that training examples do not bring


Column = Annotated[str, Field(min_length=1)]
Columns = Annotated[
    list[Column],
    Field(min_length=1),
    BeforeValidator(as_list, json_schema_input_type=Column | list[Column]),
]


class PredictionsSource(Source):
    """What external models answered, and on which examples."""

    kind: Literal["predictions"]
    has_answers: ClassVar[bool] = True
    may_have_several_labels: ClassVar[bool] = True
    variants_key: ClassVar[str] = "predictions"
    name_variants: ClassVar[str] = (
        "name variants of source.files as {predictions: [...]}, or leave it out"
    )

    files: FilePlace = Field(
        min_length=1,
        description="CSV, Parquet or .npz by pattern: preds/*.parquet, "
        "preds/{variant}/{model}.csv.",
    )
    columns: dict[str, Columns] = Field(
        default_factory=dict,
        description="Variant: its column in `files`, or a list with a column for each model.",
    )
    predicted: str = Field(
        "predicted",
        min_length=1,
        description="Column of the predictions.",
    )
    examples: FilePlace = Field(
        min_length=1,
        description="CSV, Parquet or .npz of ids, labels and attributes, or COCO's instances in "
        ".json.",
    )
    captions: MaybeFilePlace = Field(
        None,
        min_length=1,
        description="Captions of COCO in .json, which give the column gender.",
    )
    key: str = Field(
        "example_id",
        min_length=1,
        description="Column of the ids.",
    )
    numbered: bool = Field(False, description="No ids: every file holds all examples in one order.")
    training: MaybeFilePlace = Field(
        None,
        min_length=1,
        description="Table of the training examples' labels and attributes, for Clarify's metrics.",
    )
    classes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="Classes that models may predict beside the labels; without labels all of "
        "them.",
    )

    def _misfits(self) -> Iterator[str]:
        if self.columns and ("{variant}" in self.files or "{model}" in self.files):
            yield (
                "source.columns names variants and models, and so does source.files; leave "
                "{variant} and {model} out of one of them"
            )
        named = [column for columns in self.columns.values() for column in columns]
        rule = "source.columns names {!r} twice; give every model its own column"
        yield from twice(named, rule)

    @property
    def id_column(self) -> str | None:
        """The column of the ids; None where rows are numbered."""
        return None if self.numbered else self.key

    @property
    def known_classes(self) -> Sequence[str]:
        return self.classes

    @property
    def columns_of_answers(self) -> Mapping[str, Sequence[str]]:
        return self.columns

    @property
    def folder_of_pictures(self) -> str:
        return self.examples.rpartition("/")[0] or "."

    def table(self, config: Config, *, images: bool) -> SourceTable:
        asked = config.label
        needed = dict.fromkeys(asked.columns or [asked.column] if asked.column else [], "label")
        needed |= {
            own.column: f"groups.{name}"
            for name, own in config.groups.attributes.items()
            if not asked.columns or name != asked.attribute
        }
        return SourceTable(self.examples_table(needed, config.limits), self.examples)

    def examples_table(
        self, needed: Mapping[str, str], limits: ReaderLimits = LIMITS
    ) -> pl.DataFrame:
        """Read the table of examples, and that of training examples where one is named.

        Args:
            needed: Columns that training examples must have, and what each is for.
            limits: Memory and time for reading a table.

        Returns:
            One row an example: `example_id` as text, `split`, its other columns, and `image_name`
            where it has a column `image` of text. All of `examples` are test examples. Those of
            `training` get ids of their own, since two tables may count from 0 each.

        Raises:
            DataError: A table cannot be read, has no row, lacks a column or has two of one name, or
                a row has no id or names an image outside the table's folder.
        """
        table = _test_examples(self.examples, self.id_column, limits)
        if self.captions is not None:
            if GENDER in table.columns:
                raise DataError(
                    f"{printable(self.examples)} has a column {GENDER!r}, which source.captions "
                    "gives too; leave out one of them"
                )
            with storage.at_hand(self.captions) as path:
                genders = table_apart(
                    captioned_genders, path, self.captions, path=path, called=self.captions,
                    limits=limits,
                )  # fmt: skip
            table = table.join(genders, on=KEY, how="left", maintain_order="left")
        if self.training is None:
            return table
        columns = "the columns label and attributes"
        training = _read(self.training, "source.training", columns, limits)
        for name, role in needed.items():
            if name not in training.columns:
                raise absent_column(name, role, training.columns, printable(self.training))
        if not training.height:
            raise DataError(
                f"source.training {printable(self.training)} holds no example; give it one row per "
                "example, or leave it out"
            )
        common = [name for name in table.columns if name in training.columns and name not in OWN]
        own_id = pl.format("training {}", pl.int_range(pl.len())).alias(KEY)
        rows = training.select(own_id, pl.lit("train").alias("split"), *map(pl.col, common))
        try:
            return pl.concat([table, rows], how="diagonal_relaxed")
        except pl.exceptions.PolarsError as error:
            raise DataError(
                f"source.training {printable(self.training)} must hold columns like those of "
                f"source.examples, got {reason(error)}; write both as text, or as numbers"
            ) from error

    def files_read(self, config: Config) -> SourceFiles:
        named = {"examples": self.examples, "captions": self.captions, "training": self.training}
        files = {key: files_of_table(place) for key, place in named.items() if place is not None}
        return SourceFiles(files)

    def files_of_models(
        self, config: Config, members: Callable[[str], Iterable[int]] | None = None
    ) -> dict[str, StampedFiles]:
        from scotoma.predictions.patterns import files_of_tables

        return {"files": files_of_tables(self.files, self.tables())}

    def tables(
        self, pattern: str = "", called: str = "", option: str = "source.files"
    ) -> list[PredictionTable]:
        """List the files of predictions, or others of the same columns."""
        from scotoma.predictions.patterns import find_tables

        return find_tables(
            pattern or self.files, self.id_column, {} if pattern else self.columns,
            called=called, option=option, predicted=self.predicted,
        )  # fmt: skip

    def answers(self, config: Config) -> SuppliedAnswers:
        from scotoma.sources.answers import SuppliedAnswers

        return SuppliedAnswers.of(config)

    def completed(self, config: Config) -> Config:
        from scotoma.sources.answers import completed

        return completed(config)


def _test_examples(place: str, key: str | None, limits: ReaderLimits) -> pl.DataFrame:
    ids = "" if key is None else f"{key}, "
    table = _read(place, "source.examples", f"the columns {ids}label and attributes", limits)
    if key is None:
        table, key = table.drop(KEY, strict=False).with_row_index(KEY), KEY
    if key not in table.columns:
        raise DataError(
            f"{printable(place)} must have the column {printable(key)!r}, got "
            f"{printable(', '.join(table.columns))}{nearest(key, table.columns)}; rename a column, "
            "or name the one with the ids as source.key"
        )
    refuse_doubled(key, table.columns, place)
    if key != KEY:
        table = table.drop(KEY, strict=False).rename({key: KEY})
    if not table.height:
        raise DataError(f"{printable(place)} holds no example; give it one row per example")
    if empty := table[KEY].null_count():
        raise DataError(
            f"{printable(place)} has {empty:,} row{'s' if empty > 1 else ''} without {KEY}; fill "
            "or remove them"
        )
    if "split" in table.columns:
        table = table.drop("split")  # all that is listed was predicted, and is tested
    named = "image" in table.columns and table.schema["image"] == pl.String
    if "image" in table.columns and not named:
        table = table.drop("image")
    if named:
        _refuse_outside(table["image"], place)
        table = table.rename({"image": "image_name"})
    ids_read = read_values(table[KEY], missing=("",)).values
    return table.with_columns(ids_read, pl.lit("test").alias("split"))


def _refuse_outside(names: pl.Series, place: str) -> None:
    """Refuse names of images that lead out of the folder of their table."""
    for name in names.filter(names.str.contains(r"^/|\.\.|://|\x00")):
        if "\0" in name or "://" in name or posixpath.normpath(name).startswith(("/", "..")):
            raise DataError(
                f"image {printable(name)[:60]!r} in {printable(place)} leads out of the folder of "
                "its table; name files inside it"
            )


def _read(place: str, key: str, columns: str, limits: ReaderLimits) -> pl.DataFrame:
    if not storage.is_remote(place) and not os.path.exists(place):
        raise DataError(
            f"{key} {printable(place)} is not a file; name a CSV or Parquet file with {columns}"
        )
    with table_at_hand(place) as path:
        return table_apart(_table, path, place, path=path, called=place, limits=limits)


def _table(path: Path, place: str) -> pl.DataFrame | pl.LazyFrame:
    table = coco_labels(path, place) if place.lower().endswith(".json") else scan_table(path, place)
    return table if table.lazy().collect_schema() else pl.DataFrame({KEY: []})
