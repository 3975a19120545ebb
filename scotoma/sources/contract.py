"""What an audit asks of a source, whatever its kind: what it has, what it reads, what it holds."""

from __future__ import annotations

import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from scotoma.answers.note import AdmissionNote
from scotoma.config.shared import Frozen
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.storage import StampedFiles, list_files

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from scotoma.config.model import Config
    from scotoma.config.newest import RegisteredModel
    from scotoma.config.recipe import Recipe
    from scotoma.datasets.image_files import Join
    from scotoma.datasets.image_size import ImageSize
    from scotoma.detection.table import BoxReading
    from scotoma.inference import Network
    from scotoma.predictions.external import ExternalPredictions
    from scotoma.predictions.tables import PredictionTable
    from scotoma.sources.answers import SuppliedAnswers


MODEL = "A built-in or torchvision network, or package.module:function with --allow-code."


@dataclass(frozen=True)
class Located:
    """Marks a key that holds a path or an s3:// URI: what is there counts, not where it is."""

    folder: bool


FilePlace = Annotated[str, Located(folder=False)]
MaybeFilePlace = Annotated[str | None, Located(folder=False)]
FolderPlace = Annotated[str, Located(folder=True)]
NetworkName = Annotated[str, Field(description=MODEL)]


class SourceTable(NamedTuple):
    """The table of a source, its name in messages, its match with a folder, and notes on it."""

    table: pl.DataFrame
    origin: str
    join: Join | None = None
    notes: tuple[str, ...] = ()


class SourceFiles(NamedTuple):
    """The files that are there, by the key that names them, and what else decides what is read."""

    files: dict[str, StampedFiles]
    remarks: Mapping[str, str] = {}


class LookedAt(NamedTuple):
    """The first image, encoded, or its height and width; and the bytes of all, None if unknown."""

    first: bytes | tuple[int, int] | None
    encoded_bytes: int | None
    reason: str = "there is no image to look at"


@dataclass(frozen=True)
class Score:
    """What numbers of models are, where they answer with numbers and no classes.

    Attributes:
        name: What readers call the score.
        unit: What it is measured in; empty for none.
        lower_is_better: Whether a lower score is the better one.
        given: Whether files hold the score itself, and not predicted numbers.
        column: Column of the files that holds a number for each example and model.
    """

    name: str
    unit: str
    lower_is_better: bool
    given: bool
    column: str


class Source(Frozen, ABC):
    """What an audit is made from: a section `source`, of which nobody asks what kind it is."""

    kind: str

    has_models: ClassVar[bool] = False  # models that others made, to be run here
    has_answers: ClassVar[bool] = False  # what models said, and neither models nor images
    may_have_several_labels: ClassVar[bool] = False
    shows_faces: ClassVar[bool] = False
    implies: ClassVar[Mapping[str, Any]] = {}  # keys beside `source` that hold unless written
    variants_key: ClassVar[str] = ""  # of entries of `variants` that name what others made
    name_variants: ClassVar[str] = ""  # what to do, where `variants` holds others

    if TYPE_CHECKING:

        @property
        def model(self) -> str:
            """Network of the members; there where `trains`."""

        @property
        def recipe(self) -> Recipe:
            """How members are trained; there where `trains`."""

    @classmethod
    def place_keys(cls) -> dict[str, bool]:
        """The keys that hold places, and whether each is of a folder."""
        return {
            key: mark.folder
            for key, field in cls.model_fields.items()
            for mark in field.metadata
            if isinstance(mark, Located)
        }

    @property
    def places(self) -> dict[str, str]:
        """The places that are named, by key."""
        named = {key: getattr(self, key) for key in self.place_keys()}
        return {key: place for key, place in named.items() if place is not None}

    @property
    def trains(self) -> bool:
        """Whether members are made here, by `model` and `recipe`."""
        return "recipe" in type(self).model_fields

    @property
    def network(self) -> str:
        """Name of the network that is trained; empty where none is."""
        return self.model if self.trains else ""

    @property
    def registered(self) -> RegisteredModel | None:
        """The model of MLflow's registry that holds the models; None where a folder does."""
        return None

    @property
    def known_classes(self) -> Sequence[str]:
        """Classes that models know whatever is tested, as the section lists them."""
        return ()

    @property
    def folder_of_pictures(self) -> str:
        """Folder of pictures that rows may name beside what models said; empty for none."""
        return ""

    @property
    def columns_of_answers(self) -> Mapping[str, Sequence[str]]:
        """Variant to its columns, where one table holds what all models said."""
        return {}

    @property
    def split_column(self) -> str | None:
        """The column that splits rows, if the section names it."""
        return None

    @property
    def tests_all(self) -> bool:
        """Whether every row is a test example."""
        return self.has_answers

    @property
    def score(self) -> Score | None:
        """What the numbers of models are; None where they answer with classes."""
        return None

    @property
    def boxes(self) -> BoxReading | None:
        """How boxes become examples; None where examples are images or rows."""
        return None

    @property
    def image_size(self) -> ImageSize | None:
        """To which size images are brought; None where they stay as they are.

        >>> from scotoma.sources.parquet import ParquetSource
        >>> ParquetSource(kind="parquet", data="faces", size=64).image_size
        ImageSize(height=64, width=64, crop=1.0, fit='cut', resample='bilinear', upright=True)
        """
        from scotoma.datasets.image_size import ImageSize

        asked = self.model_dump(include={"size", "orientation", "crop", "fit", "resample"})
        sides, upright = asked.pop("size", None), asked.pop("orientation", "") == "exif"
        if sides is None:
            return ImageSize(upright=True) if upright else None
        height, width = (sides, sides) if isinstance(sides, int) else sides
        return ImageSize(height, width, upright=upright, **asked)

    def with_data(self, place: str) -> Source:
        """The source at another folder of data.

        Raises:
            ConfigError: It has none.
        """
        if "data" in self.place_keys():
            return self.model_copy(update={"data": place})
        raise ConfigError(
            f"--data replaces source.data, and source.kind {self.kind!r} has none; leave it out, "
            "or use parquet, celeba, coco, imsitu, cifar10 or cifar10s"
        )

    def misfits_beside(self, config: Config) -> Iterator[str]:
        """What the rest of a configuration asks and the source does not give, a sentence each."""
        return iter(())

    def completed(self, config: Config) -> Config:
        """Fill in what the configuration leaves open and files say."""
        return config

    @abstractmethod
    def table(self, config: Config, *, images: bool) -> SourceTable:
        """Read the rows, with their images where rows bring them and these are asked for."""

    def image_folder(self) -> str | None:
        """Folder of the images that are files of their own; None where rows bring theirs."""
        return None

    @abstractmethod
    def files_read(self, config: Config) -> SourceFiles:
        """List the files that are read, but models and what they said."""

    def models_found(self, config: Config) -> dict[str, list[str]]:
        """List the names of the files of models of every variant, one a member."""
        return {}

    def files_of_models(
        self, config: Config, members: Callable[[str], Iterable[int]] | None = None
    ) -> dict[str, StampedFiles]:
        """List the files of models, or of what they said, by the key that names them.

        Args:
            config: The configuration.
            members: Which models of a variant; None for all.
        """
        return {}

    def answers(self, config: Config) -> SuppliedAnswers | None:
        """List what models said, where the source has that; None where models are run."""
        return None

    def run_as(self, config: Config, classes: int) -> Network:
        """What members with scores of so many classes are run as."""
        from scotoma.inference import Network

        return Network(self.model, classes, deterministic=config.deterministic)

    def tables(
        self, pattern: str = "", called: str = "", option: str = ""
    ) -> list[PredictionTable]:
        """List the files of predictions, or others of the same columns.

        Args:
            pattern: Of other files than the section names.
            called: See `PredictionTable`.
            option: The key that names them.
        """
        return []

    def judged(
        self,
        said: ExternalPredictions,
        name: str,
        config: Config,
        ids: Sequence[str],
        clusters: NDArray[np.int64] | None,
    ) -> ExternalPredictions:
        """What the models of a variant said, as it is audited."""
        return said

    def stored_images(self, config: Config) -> LookedAt:
        """Look at an image that rows bring, and at the sizes of the files that hold them."""
        return LookedAt(None, None, "none is needed: predictions are audited")

    def notes(self) -> tuple[list[str], list[AdmissionNote]]:
        """What a reader should know: of what models see, and of settings that are not followed."""
        return [], []

    def class_order(
        self, table: pl.DataFrame, origin: str
    ) -> tuple[Sequence[str], AdmissionNote] | None:
        """Which class each score of a model is of, and how that is known; None where we made it."""
        return None

    def digest_beside(self) -> str:
        """Digest of files beside the models that say how classes and pixels are read."""
        return ""


def needed_columns(config: Config) -> tuple[str, list[str]]:
    """The column of the label, and the others that an audit reads."""
    from scotoma.datasets.select_examples import feature_columns

    label = config.label.column
    assert label is not None  # sources that train have labels
    wanted = [group.column for group in config.groups.attributes.values()]
    wanted += [config.cluster.column] if config.cluster else []
    return label, [*wanted, *feature_columns(config)]


Size = Annotated[
    int | None,
    Field(
        ge=8,
        le=1024,
        description="Pixels per side of the resized central square; empty: images have one size.",
    ),
]
Square = Annotated[
    int,
    Field(ge=8, le=1024, description="Pixels per side, of the square in the middle."),
]
Orientation = Annotated[
    Literal["exif", "stored"],
    Field(
        description="Turn pictures upright as EXIF says, as browsers do, or take pixels as stored, "
        "as torchvision and timm do"
    ),
]


class ImageFiles(Source):
    """A source whose images are files of their own, which a table names."""

    needs_full_folders: ClassVar[bool] = False  # an empty one is a class without images

    @abstractmethod
    def image_folder(self) -> str:
        """Folder, or `s3://` prefix, that names of images are relative to."""

    def with_files(
        self,
        table: pl.DataFrame,
        called: str,
        audited: pl.Expr | bool = True,
        *,
        below: tuple[str, ...] = ("",),
        notes: tuple[str, ...] = (),
    ) -> SourceTable:
        """Match the rows that are audited with the files of their images, of which none is read.

        Args:
            table: One row an image, `example_id` its path below the folder.
            called: What messages call the table.
            audited: Whether a row is.
            below: Folders whose images are to have rows.
            notes: On the table.

        Raises:
            DataError: A folder is empty, or a path leads out of it.
        """
        from scotoma.datasets.image_files import (
            SUFFIXES,
            image_files,
            join_images,
            spelled_as_files,
        )

        folder, column = self.image_folder(), "example_id"
        files, empty = image_files(folder, table.filter(audited)[column].to_list(), called)
        table, respelled = spelled_as_files(table, column, files)
        rows, everyone = table.filter(audited), table[column].to_list()
        names, named = rows[column].to_list(), set(map(posixpath.normpath, everyone))
        pictures = [
            name
            for name in files
            if name in named or (name.lower().endswith(SUFFIXES) and name.startswith(below))
        ]
        join = join_images(names, pictures, elsewhere=everyone, respelled=respelled)
        if empty and self.needs_full_folders and not join.complaint(called, folder):
            raise DataError(
                f"folder {printable(empty)!r} in {folder} is empty, so its class has no image; "
                "add its images, or remove it"
            )
        return SourceTable(rows, called, join, notes)

    def files_read(self, config: Config) -> SourceFiles:
        """List the table and the images that it names, and tell which images have no row."""
        read = self.table(config, images=False)
        files = self.named_files(
            [posixpath.normpath(name) for name in read.table["example_id"].to_list()]
        )
        remark = "" if read.join is None else f"{read.join.note()}{read.join.rows_without_image}"
        return SourceFiles(files, {"images" if "images" in files else "data": remark})

    @abstractmethod
    def named_files(self, names: list[str]) -> dict[str, StampedFiles]:
        """The files that are read where the table names these images."""


def stored_sizes(place: str, names: str) -> dict[str, int]:
    """The sizes of the files of a place whose own name fits a pattern."""
    listed = list_files(place).items()
    return {name: size for name, size in listed if re.fullmatch(names, posixpath.basename(name))}
