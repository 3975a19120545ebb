"""What is to be audited: one frozen value, checked when made, every fault named with its line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable

__all__ = [
    "Config",
    "DigitsSource",
    "FolderSource",
    "Recipe",
    "Variant",
    "default_config",
    "load_config",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Recipe(_Frozen):
    """All that decides a training run, apart from the data, the model and the seed."""

    steps: int = Field(600, ge=1, le=10_000_000, description="Optimiser steps of one member.")
    batch_size: int = Field(64, ge=1, description="Images a step.")
    learning_rate: float = Field(0.02, gt=0, description="Peak step size, reached after `warmup`.")
    warmup: float = Field(0.1, ge=0, lt=1, description="Fraction of the steps with a rising rate.")
    momentum: float = Field(0.9, ge=0, lt=1, description="Nesterov momentum.")
    weight_decay: float = Field(5e-4, ge=0, description="L2 penalty on conv and linear weights.")
    prune_begin: float = Field(0.1, ge=0, lt=1, description="First mask update, fraction of steps.")
    prune_end: float = Field(0.65, gt=0, le=1, description="Last mask update, fraction of steps.")
    prune_every: float = Field(0.02, gt=0, le=1, description="Between updates, fraction of steps.")

    @property
    def mask_updates(self) -> tuple[int, int, int]:
        """First step, last step and distance of the mask updates.

        The distance is kept, so the last update falls on the largest multiple of it that fits.

        >>> Recipe(steps=10_000, prune_end=0.9, prune_every=0.05).mask_updates  # the CIE paper
        (1000, 9000, 500)
        """
        begin = round(self.prune_begin * self.steps)
        every = max(1, round(self.prune_every * self.steps))
        updates = max(1, (round(self.prune_end * self.steps) - begin) // every)
        return begin, begin + updates * every, every

    @model_validator(mode="after")
    def _pruning_ends_within_the_run(self) -> Recipe:
        if self.prune_end <= self.prune_begin:
            raise ValueError(
                f"prune_end must be later than prune_begin, got {self.prune_end} and "
                f"{self.prune_begin}; the CIE paper uses 0.9 and 0.1"
            )
        _, last, _ = self.mask_updates
        if last >= self.steps:
            raise ValueError(
                f"the last mask update would fall on step {last} of {self.steps}, after the last; "
                "lower prune_every or prune_end, or train for more steps"
            )
        return self


class DigitsSource(_Frozen):
    """The embedded data: 8x8 digits in two styles, one of them rare in each class."""

    kind: Literal["digits-s"] = "digits-s"
    model: str = Field("tiny-convnet", description="A name of ours or of torchvision.")
    skew: float = Field(0.95, gt=0.5, lt=1, description="Share of a class's majority style.")
    recipe: Recipe = Recipe()


class Split(_Frozen):
    """Which column says where a row belongs, and by which values."""

    column: str
    train: str | int
    test: str | int


class FolderSource(_Frozen):
    """The user's own images: a folder and a table of attributes, joined by file name."""

    kind: Literal["image_folder"]
    model: str = Field("tiny-convnet", description="A name of ours or of torchvision.")
    images: str = Field(description="Folder of image files, all of one size.")
    attributes: str = Field(description="CSV with the key column `image`, one row an image.")
    split: Split
    recipe: Recipe = Recipe()


class Label(_Frozen):
    """The target: which column, and which value is the positive class where there is one."""

    column: str
    positive: str | int | None = None


class GroupColumn(_Frozen):
    """One attribute, and how its values are called."""

    column: str
    names: dict[str, str] | None = Field(None, description="Value in the table: name shown.")


class Groups(BaseModel):
    """Attributes by name, and the intersections to look at beside them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, GroupColumn]

    intersections: list[list[str]] = Field(
        default_factory=list, description="Lists of two or more attribute names."
    )

    @property
    def attributes(self) -> dict[str, GroupColumn]:
        """Attribute name to its column, in the order of the configuration."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _intersections_name_attributes(self) -> Groups:
        known = list(self.attributes)
        for names in self.intersections:
            if len(set(names)) < 2:
                raise ValueError(f"an intersection needs two different attributes, got {names}")
            for name in names:
                if name not in known:
                    raise ValueError(
                        f"intersection names the attribute {name!r}, which is not among "
                        f"{known}{nearest(name, known)}"
                    )
        return self


class Cluster(_Frozen):
    """Rows that share a source are one unit for every interval."""

    column: str


class Prune(_Frozen):
    """Magnitude pruning during training, one variant a sparsity."""

    prune: list[Annotated[float, Field(ge=0, lt=1)]] = Field(min_length=1)


class Int8(_Frozen):
    """Post-training quantization of the dense members, one variant a mode."""

    int8: list[Literal["dynamic", "static"]] = Field(min_length=1)


def _variant_kind(entry: Any) -> str | None:
    if isinstance(entry, dict):
        ways = [key for key in ("prune", "int8") if key in entry]
        return ways[0] if len(ways) == 1 else None
    if isinstance(entry, Prune):
        return "prune"
    return "int8" if isinstance(entry, Int8) else "dense"


VariantEntry = Annotated[
    Annotated[Literal["dense"], Tag("dense")]
    | Annotated[Prune, Tag("prune")]
    | Annotated[Int8, Tag("int8")],
    Discriminator(_variant_kind),
]


class Population(_Frozen):
    """How many members each variant has, and the seed that all of theirs derive from."""

    models: int = Field(10, ge=1, le=255, description="Members a variant.")
    seed: int = Field(0, ge=0, lt=2**32)


class Tracking(_Frozen):
    """Where MLflow keeps the runs."""

    uri: str | None = Field(
        None, description="MLflow tracking URI; `off`; empty: MLFLOW_TRACKING_URI, then sqlite."
    )


class Variant(_Frozen):
    """One way of compressing, resolved."""

    name: str
    kind: Literal["dense", "prune", "int8"]
    sparsity: float = 0.0  # fraction of the conv and linear weights that are zero
    mode: Literal["", "dynamic", "static"] = ""
    bits: int = 32  # of a weight

    @property
    def paired(self) -> bool:
        """Whether member k derives from dense member k."""
        return self.kind == "int8"


def _resolve(entries: list[VariantEntry]) -> tuple[Variant, ...]:
    """Every variant that the entries stand for, dense first."""
    found: list[Variant] = []
    for entry in entries:
        if entry == "dense":
            found.insert(0, Variant(name="dense", kind="dense"))
        elif isinstance(entry, Prune):
            found += [Variant(name=f"prune-{s:g}", kind="prune", sparsity=s) for s in entry.prune]
        elif isinstance(entry, Int8):
            found += [Variant(name=f"int8-{m}", kind="int8", mode=m, bits=8) for m in entry.int8]
    return tuple(found)


class Config(_Frozen):
    """An audit: data, label, groups, variants and the size of the population."""

    version: Literal[1] = 1
    project: str = Field("digits-s", min_length=1, max_length=80, pattern=r"^[\w][\w .-]*$")
    source: Annotated[DigitsSource | FolderSource, Field(discriminator="kind")] = DigitsSource()
    label: Label = Label(column="digit")
    groups: Groups = Groups()
    cluster: Cluster | None = None
    variants: list[VariantEntry] = Field(min_length=1)
    population: Population = Population()
    tracking: Tracking = Tracking()
    deterministic: bool = Field(False, description="Same seed, same machine: the same bytes.")

    @field_validator("variants")
    @classmethod
    def _variants_are_distinct_and_have_a_baseline(
        cls, entries: list[VariantEntry]
    ) -> list[VariantEntry]:
        names = [variant.name for variant in _resolve(entries)]
        if "dense" not in names:
            raise ValueError("variants must name `dense`: every change is measured against it")
        if len(names) < 2:
            raise ValueError("variants must name a compressed one, such as {prune: [0.9]}")
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"variants names {', '.join(doubled)} twice; keep one of them")
        return entries

    @property
    def resolved_variants(self) -> tuple[Variant, ...]:
        """Every variant with its name, dense first, then in the order of the configuration."""
        return _resolve(self.variants)

    def variant(self, name: str) -> Variant:
        """The resolved variant of that name."""
        return next(variant for variant in self.resolved_variants if variant.name == name)

    def digest(self) -> str:
        """SHA-256 of what decides the results: not where runs are tracked, nor where data lie."""
        deciding = self.model_dump(
            mode="json", exclude={"tracking": True, "source": {"images", "attributes"}}
        )
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


DEFAULT_CONFIG = """\
version: 1
project: digits-s
source: {kind: digits-s}
label: {column: digit}
groups:
  style: {column: style}
  exposure: {column: exposure}
cluster: {column: source_id}
variants: [dense, {prune: [0.5, 0.9, 0.95]}, {int8: [dynamic, static]}]
population: {models: 10, seed: 0}
"""


def default_config() -> Config:
    """The audit that runs with no configuration: the embedded digits in two styles.

    >>> [variant.name for variant in default_config().resolved_variants]
    ['dense', 'prune-0.5', 'prune-0.9', 'prune-0.95', 'int8-dynamic', 'int8-static']
    """
    return parse_config(DEFAULT_CONFIG, "the embedded default")


def load_config(path: Path) -> Config:
    """Read and check a YAML configuration.

    Args:
        path: The file. Relative paths inside it are taken from its folder.

    Returns:
        The configuration, with absolute paths.

    Raises:
        ConfigError: The file cannot be read or breaks a rule; every fault is named with its line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"configuration {path} cannot be read: {reason}") from error
    config = parse_config(text, str(path))
    if isinstance(config.source, FolderSource):
        base = path.resolve().parent
        source = config.source.model_copy(
            update={
                "images": str(base / config.source.images),
                "attributes": str(base / config.source.attributes),
            }
        )
        config = config.model_copy(update={"source": source})
    return config


def parse_config(text: str, origin: str) -> Config:
    r"""Check the text of a configuration; `origin` is what messages call it.

    >>> parse_config("variants: [dense, {int8: [static]}]\npopulation: {models: 0}", "a.yaml")
    Traceback (most recent call last):
    ...
    scotoma.errors.ConfigError: a.yaml:2 population.models must be at least 1, got 0
    """
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{origin} must hold keys and values, got {type(values).__name__}")
    if doubled := _doubled_key(tree, set()):
        raise ConfigError(printable(f"{origin}:{doubled}"))
    try:
        plain = json.dumps(values, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{origin} must be a tree of words, numbers and lists: {error}; write keys as words "
            "and leave out YAML anchors"
        ) from error
    try:
        return Config.model_validate_json(plain)
    except ValidationError as error:
        faults = _faults(error)
        named = [f"{origin}:{_line(tree, location)} {message}" for location, message in faults]
        raise ConfigError(printable("; ".join(dict.fromkeys(named)))) from error


def _doubled_key(node: yaml.Node | None, seen: set[int]) -> str:
    """Line and sentence of the first key that stands twice; YAML itself keeps the last."""
    if node is None or id(node) in seen:
        return ""
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return next(filter(None, (_doubled_key(child, seen) for child in node.value)), "")
    if not isinstance(node, yaml.MappingNode):
        return ""
    keys: set[str] = set()
    for key, value in node.value:
        if key.value in keys:
            return f"{key.start_mark.line + 1} {key.value} stands twice; keep one of them"
        if isinstance(key.value, str):
            keys.add(key.value)
        if doubled := _doubled_key(value, seen):
            return doubled
    return ""


def _faults(error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Location and sentence of every fault; of a union's branches only the one that was meant."""
    found = []
    for fault in error.errors():
        location = _without_branches(fault["loc"])
        path = ".".join(map(str, location)) or "the configuration"
        found.append((location, _sentence(path, location, dict(fault))))
    return found


def _without_branches(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place in the file: without the names that pydantic gives to a union's branches."""
    return tuple(
        part
        for before, part in zip((None, *location), location, strict=False)
        if not (before == "source" and part in ("digits-s", "image_folder"))
        and not (isinstance(before, int) and part in ("dense", "prune", "int8"))
        and not (before in ("train", "test", "positive") and part in ("str", "int"))
    )


def _sentence(path: str, location: tuple[str | int, ...], fault: dict[str, Any]) -> str:
    value, context = fault["input"], fault.get("ctx", {})
    shown = repr(value) if isinstance(value, str) else json.dumps(value)
    match fault["type"]:
        case "extra_forbidden":
            known = _keys_beside(location)
            return (
                f"{path} is not a key here; known are {', '.join(known)}"
                f"{nearest(str(location[-1]), known)}"
            )
        case "missing":
            return f"{path} is missing; it has no default"
        case "greater_than_equal":
            return f"{path} must be at least {context['ge']}, got {shown}"
        case "greater_than":
            return f"{path} must be greater than {context['gt']}, got {shown}"
        case "less_than":
            return f"{path} must be less than {context['lt']}, got {shown}"
        case "less_than_equal":
            return f"{path} must be at most {context['le']}, got {shown}"
        case "string_type" | "int_type" if location[-1] in ("train", "test", "positive"):
            return f"{path} should be text or a whole number, got {shown}"
        case "string_pattern_mismatch":
            return (
                f"{path} must begin with a letter or digit and hold only letters, digits, spaces, "
                f"dots and dashes, got {shown}"
            )
        case "union_tag_invalid":
            return f"{path}.kind must be one of {context['expected_tags']}, got {context['tag']!r}"
        case "union_tag_not_found" if location[0] == "source":
            return f"{path}.kind is missing; it is one of 'digits-s', 'image_folder'"
        case "union_tag_not_found":
            return f"{path} must be dense, {{prune: [...]}} or {{int8: [...]}}, got {shown}"
        case "literal_error" if location[0] == "variants" and not isinstance(value, dict):
            return f"{path} must be {context['expected']}, got {shown}"
        case "value_error":
            return f"{context['error']}"
        case _:
            rule = fault["msg"].partition("should ")[2] or fault["msg"]
            return f"{path} should {rule}, got {shown}"


_SECTIONS: dict[str, tuple[type[BaseModel], ...]] = {
    "": (Config,),
    "source": (DigitsSource, FolderSource),
    "recipe": (Recipe,),
    "split": (Split,),
    "label": (Label,),
    "groups": (GroupColumn,),
    "cluster": (Cluster,),
    "variants": (Prune, Int8),
    "population": (Population,),
    "tracking": (Tracking,),
}


def _keys_beside(location: tuple[str | int, ...]) -> list[str]:
    """The keys allowed where an unknown one was found."""
    section = next((str(p) for p in reversed(location[:-1]) if p in _SECTIONS), "")
    return list(dict.fromkeys(key for model in _SECTIONS[section] for key in model.model_fields))


def _line(node: yaml.Node | None, location: tuple[str | int, ...]) -> int:
    """Line of the deepest part of `location` that the file holds, counted from 1."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
