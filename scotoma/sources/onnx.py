"""External models, and the images and attributes to audit them on."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import BeforeValidator, Field, ValidationError, field_validator

from scotoma import storage
from scotoma.answers.natural import natural_order
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.config.newest import RegisteredModel
from scotoma.config.shared import Frozen
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.printable import ONE_OF_THEM, nearest, printable
from scotoma.readers.hugging_face import (
    CONFIG,
    PROCESSOR,
    class_names,
    digest_beside,
    file_beside,
    image_settings,
    in_words_of_labels,
    read_beside,
)
from scotoma.sources.contract import FolderPlace, Orientation
from scotoma.sources.folder import TabledImages
from scotoma.storage import StampedFiles
from scotoma.storage.files import open_regular

if TYPE_CHECKING:
    from scotoma.config.model import Config
    from scotoma.inference import Network


SHOWN = 4  # classes that a sentence names
RANGES: dict[str, dict[str, Any]] = {  # of ONNX's metadata of images
    "nominalrange_0_255": {"scale": 1.0},
    "normalized_0_1": {"scale": 255.0},
    "normalized_1_1": {"scale": 127.5, "mean": [1.0, 1.0, 1.0]},
}


class Preprocess(Frozen):
    """What pixels become before an external model: (pixel / scale - mean) / std."""

    scale: float = Field(255.0, gt=0, description="Divisor of pixel values from 0 to 255.")
    mean: list[float] = Field(
        [0.0, 0.0, 0.0], min_length=3, max_length=3, description="Mean of R, G and B, subtracted."
    )
    std: list[Annotated[float, Field(gt=0)]] = Field(
        [1.0, 1.0, 1.0],
        min_length=3,
        max_length=3,
        description="Standard deviation of R, G and B, a divisor.",
    )
    channels: Literal["RGB", "BGR"] = Field("RGB", description="Order of the channels.")
    layout: Literal["NCHW", "NHWC"] = Field(
        "NCHW", description="Order of the axes, if the input leaves it open"
    )


def _both_sides(value: Any) -> Any:
    """Spell out a square."""
    return [value, value] if isinstance(value, int) and not isinstance(value, bool) else value


HeightAndWidth = Annotated[
    list[Annotated[int, Field(ge=1, le=4096)]],
    Field(min_length=2, max_length=2),
    BeforeValidator(_both_sides, json_schema_input_type=int | list[int]),
]


class OnnxSource(TabledImages):
    """External models, and the images and attributes to audit them on.

    A folder of ONNX files for each variant; nothing is trained. What you leave out of `size` and
    `preprocessing` comes from the first dense model, or from a `preprocessor_config.json` (Hugging
    Face) beside it; a note says so. The scores are in the order of `source.classes`, else of
    `id2label` in a `config.json` beside the models, else of the labels: numbers by value, others as
    text. Files that name data outside their folder or need a library of operators are refused.
    """

    kind: Literal["onnx"]
    has_models: ClassVar[bool] = True
    variants_key: ClassVar[str] = "onnx"
    name_variants: ClassVar[str] = "name folders of source.models as {onnx: [...]}"

    models: FolderPlace = Field(
        description="Folder with a folder of .onnx files for each variant, or models:/NAME@ALIAS "
        "or models:/NAME/VERSION of MLflow's registry."
    )
    preprocessing: Preprocess = Preprocess()
    size: HeightAndWidth | None = Field(
        None,
        description="Pixels per side, or [height, width]; empty: as the first dense model takes "
        "them.",
    )
    fit: Literal["middle", "squash"] = Field(
        "middle",
        description="Keep the proportions and cut the middle out, or squash all of it",
    )
    crop: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Share of the resized sides that is kept, in the middle: 0.875 for 224 of 256.",
    )
    resample: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] = Field(
        "bilinear", description="Pillow's filter for resizing."
    )
    orientation: Orientation = "exif"
    classes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="All classes, in the order of the scores.",
    )
    output: str = Field("", description="Output that holds the scores; empty: the one that fits.")

    @field_validator("models")
    @classmethod
    def _an_address_of_a_registry_is_whole(cls, models: str) -> str:
        RegisteredModel.parse(models)
        return models

    @property
    def registered(self) -> RegisteredModel | None:
        return RegisteredModel.parse(self.models)

    @property
    def known_classes(self) -> Sequence[str]:
        return self.classes

    @property
    def tests_all(self) -> bool:
        return self.split is None

    def misfits_beside(self, config: Config) -> Iterator[str]:
        if config.label.column is None and len(self.classes) < 2:
            yield (
                "label is none, so source.classes must name the classes in the order of the "
                f"models' scores, got {len(self.classes)}; name at least two"
            )
        if config.label.columns and self.classes:
            yield (
                "source.classes is for one label an image, and label.columns names several; "
                "leave it out"
            )

    def notes(self) -> tuple[list[str], list[AdmissionNote]]:
        size = self.image_size
        shown = [] if self.size is None or size is None else [self._shown_as(size)]
        return shown, list(self._not_followed())

    def run_as(self, config: Config, classes: int) -> Network:
        from scotoma.inference import Network, Preprocessing

        values = self.preprocessing.model_dump()
        mean, std = tuple(values.pop("mean")), tuple(values.pop("std"))
        ready = Preprocessing(mean=mean, std=std, **values)
        return Network(
            self.kind, classes, ready, deterministic=config.deterministic, limits=config.limits,
            output=self.output,
        )  # fmt: skip

    def digest_beside(self) -> str:
        return digest_beside(self.models)

    def models_found(self, config: Config) -> dict[str, list[str]]:
        """List the names of the files of every variant, one a member.

        Raises:
            DataError: A folder is absent, their numbers are not those of the configuration, or
                models that are paired have other names.
        """
        from scotoma.inference.external import model_files

        files_by_variant = {
            v.name: model_files(self.models, v.name) for v in config.resolved_variants
        }
        for variant in config.resolved_variants:
            files, dense = files_by_variant[variant.name], files_by_variant["dense"]
            asked = config.models_of(variant.name)
            if len(files) != asked:
                key = "population.models" if variant.models is None else "models"
                raise DataError(
                    f"{storage.join(self.models, variant.name)} must hold {key} = {asked} models, "
                    f"got {len(files)}; correct the number, or add models"
                )
            for one, other in zip(files, dense, strict=True) if variant.derived_from else ():
                if one != other:
                    raise DataError(
                        f"models of {variant.name} are paired with dense ones by their file names, "
                        f"got {printable(one)!r} and {printable(other)!r}; name both "
                        "alike, or leave out `paired`"
                    )
        return files_by_variant

    def files_of_models(
        self, config: Config, members: Callable[[str], Iterable[int]] | None = None
    ) -> dict[str, StampedFiles]:
        """List the models, and the files beside them, which may hold weights.

        Args:
            config: The configuration.
            members: Which models of a variant; None for all.
        """
        if self.registered is not None:
            return {}
        names: list[str] = []
        for variant, files in self.models_found(config).items():
            own = files if members is None else [files[k] for k in members(variant)]
            beside = storage.list_files(storage.join(self.models, variant)).keys() - {*files}
            if not storage.is_remote(self.models):
                beside = {name for name in beside if Path(self.models, variant, name).is_file()}
            names += [f"{variant}/{name}" for name in (*own, *sorted(beside))]
        return {"models": StampedFiles(self.models, tuple(names))}

    def completed(self, config: Config) -> Config:
        """Fill in what the section leaves open: size, crop and preprocessing of the images.

        Args:
            config: What it sets stays. Models of a registry are not looked at: they are not here.

        Returns:
            Size and layout as the first dense model takes them; fit, crop, resample, channels,
            mean, std and scale from a `preprocessor_config.json` beside it or in `source.models`,
            or from ONNX's metadata of images. Where nothing is said, the configuration as it is.

        Raises:
            DataError: The metadata ask for pixels that cannot be made here.
        """
        if self.registered is not None:
            return config
        models = self.models
        names = storage.list_names(storage.join(models, "dense"), folders=False)
        first = min((name for name in names if name.endswith(".onnx")), default="")
        if not first:
            return config  # refused where models are looked for
        needs("onnx", "train", "source.kind onnx")  # before a model is brought here for nothing
        from scotoma.run.mirror import folder_here

        copy = folder_here(storage.StampedFiles(models, (f"dense/{first}",))) / "dense" / first
        size, layout, metadata = _of_model(copy)
        said = image_settings(read_beside(models, PROCESSOR))
        ready = self.preprocessing
        own: dict[str, Any] = {"layout": layout, "channels": said.channels}
        own = {k: v for k, v in own.items() if v is not None and k not in ready.model_fields_set}
        if not {"scale", "mean", "std"} & ready.model_fields_set:
            pixels = _pixel_range(metadata, first) if said.pixels is None else said.pixels
            own = {**pixels, **own}
        geometry = said.geometry | ({} if size is None else {"size": size})
        found = {k: v for k, v in geometry.items() if k not in self.model_fields_set}
        found["preprocessing"] = ready.model_copy(update=own)
        try:
            filled = OnnxSource.model_validate(self.model_copy(update=found).model_dump())
        except ValidationError as error:
            fault = error.errors()[0]
            key = ".".join(one for one in fault["loc"] if isinstance(one, str))
            says = file_beside(models, PROCESSOR) or storage.join(models, "dense", first)
            got = printable(repr(fault["input"]))[:40]
            raise DataError(
                f"{printable(says)} must describe images, got {got} for {key}; correct it, or set "
                f"source.{key}"
            ) from error
        return config.model_copy(update={"source": filled})

    def class_order(self, table: pl.DataFrame, origin: str) -> tuple[Sequence[str], AdmissionNote]:
        """List the classes of external models in the order of their scores.

        `source.classes` decides. Without it `id2label` in a config.json beside the models does, and
        without that the labels in the order of text, as ImageFolder sorts names of folders; numbers
        that are no names of folders are class ids, and go by value.

        Args:
            table: `example_id` and `label`, without gaps, of both splits.
            origin: What messages call the table.

        Returns:
            The classes, and a note on where their order comes from.

        Raises:
            DataError: A label is not among the classes.
        """
        labels = set(table["label"].unique().to_list())
        named = class_names(read_beside(self.models, CONFIG))
        in_words = in_words_of_labels(named, labels) if named else None
        if self.classes:
            if unknown := natural_order(labels - {*self.classes}):
                raise DataError(
                    f"label {printable(unknown[0])!r} of {origin} must be in source.classes, which "
                    f"lists {_listed(self.classes)}"
                    f"{nearest(unknown[0], self.classes, ONE_OF_THEM)}"
                )
            other = in_words is not None and in_words != self.classes
            but = f"; id2label in {CONFIG} says {_listed(in_words or ())}" if other else ""
            return self.classes, _told(self.classes, f"source.classes{but}")
        if in_words is not None:
            return in_words, _told(in_words, f"id2label in {CONFIG} beside the models")
        held = labels & {*named}
        if held:
            unknown = natural_order(labels - {*named})
            problem = f"label {printable((unknown or natural_order(held))[0])!r} of {origin}"
            raise DataError(
                f"{problem} must be one class of id2label in {CONFIG}, which lists "
                f"{_listed(named)}; correct it, or list all classes in source.classes"
            )
        unread = f"; id2label in {CONFIG} names none of them" if named else ""
        if all(label.isdecimal() for label in labels) and not _names_of_folders(table):
            classes = natural_order(labels)
            return classes, _told(classes, f"the labels by value{unread}")
        classes = sorted(labels)
        return classes, _told(classes, f"the labels as text, as ImageFolder sorts them{unread}")

    def _shown_as(self, size: ImageSize) -> str:
        """What external models are shown of an image, as a note."""
        ready = self.preprocessing
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

    def _not_followed(self) -> Iterator[AdmissionNote]:
        """Notes on settings of an image processor that the audit does not follow."""
        said = image_settings(read_beside(self.models, PROCESSOR))
        asked = said.geometry | dict(said.pixels or {})
        asked |= {"channels": said.channels} if said.channels else {}
        used = {key: getattr(self, key, None) or getattr(self.preprocessing, key) for key in asked}
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


def _of_model(path: Path) -> tuple[list[int] | None, str | None, dict[str, str]]:
    """Height and width, layout and metadata of a model; nothing of a file that is none."""
    onnx = needs("onnx", "train", "source.kind onnx")
    try:
        with open_regular(path) as file:
            model = onnx.load_model_from_string(file.read())
    except Exception:  # of protobuf's own classes; the file is refused where it is run
        return None, None, {}
    from scotoma.inference.external import image_input

    metadata = {entry.key.lower(): entry.value for entry in model.metadata_props}
    dtype, shape = image_input(model) or ("", [])
    if dtype == "uint8":  # its graph scales pixels
        metadata.setdefault("image.nominalpixelrange", "nominalrange_0_255")
    if len(shape) != 4 or 3 not in (shape[1], shape[3]):
        return None, None, metadata
    layout = "NCHW" if shape[1] == 3 else "NHWC"
    sides = [side or 0 for side in (shape[2:] if layout == "NCHW" else shape[1:3])]
    return (sides if min(sides) > 0 else None), layout, metadata


def _pixel_range(metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    """Scale, mean and order of ONNX's metadata of images; empty where they say nothing."""
    pixels, order = metadata.get("image.nominalpixelrange"), metadata.get("image.bitmappixelformat")
    channels = {"rgb8": "RGB", "rgba8": "RGB", "bgr8": "BGR", "bgra8": "BGR"}
    if order is not None and order.lower() not in channels:
        raise DataError(
            f"{printable(name)} says that it takes {printable(order)} pixels; export it for "
            "Rgb8 or Bgr8, or set source.preprocessing.scale if it takes RGB all the same"
        )
    if pixels is not None and pixels.lower() not in RANGES:
        raise DataError(
            f"{printable(name)} says that it takes pixels as {printable(pixels)}; set scale, "
            "mean and std in source.preprocessing"
        )
    ordered = {} if order is None else {"channels": channels[order.lower()]}
    return ordered | ({} if pixels is None else RANGES[pixels.lower()])


def _names_of_folders(table: pl.DataFrame) -> bool:
    """Whether every image lies in a folder that is named as its label."""
    pairs = table.select("example_id", "label").iter_rows()
    return all(posixpath.basename(posixpath.dirname(name)) == label for name, label in pairs)


def _told(classes: Sequence[str], by: str) -> AdmissionNote:
    sentence = f"the models' scores are read in the order {_listed(classes)} ({by})"
    return reading_note("source.classes", sentence)


def _listed(classes: Sequence[str]) -> str:
    more = f", ... ({len(classes):,} in all)" if len(classes) > SHOWN else ""
    return f"{', '.join(map(printable, classes[:SHOWN]))}{more}"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
