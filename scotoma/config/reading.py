"""How a configuration is read: every fault in one sentence, with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from scotoma.config.model import (
    Cifar10Source,
    Cluster,
    Config,
    DigitsSource,
    Float16,
    FolderSource,
    GroupColumn,
    Int4,
    Int8,
    Label,
    Onnx,
    OnnxSource,
    ParquetSource,
    Population,
    Preprocess,
    Prune,
    Recipe,
    Split,
    Tracking,
)
from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable

__all__ = ["DEFAULT_CONFIG", "default_config", "load_config", "parse_config"]

LOCATIONS = (
    "images",
    "attributes",
    "data",
    "models",
)  # keys of a source that hold a path or an s3:// URI
KINDS = ("digits-s", "image_folder", "parquet", "cifar10", "cifar10s", "onnx")
TEXT_OR_NUMBER = ("train", "test", "calibrate", "positive")  # keys that hold a value of a column
WAYS = ("dense", "prune", "int8", "float16", "int4", "onnx")  # keys that say what a variant is

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
    base = path.resolve().parent
    places = {
        key: value if "://" in value else str(base / value)
        for key in LOCATIONS
        if (value := getattr(config.source, key, None)) is not None
    }
    return config.model_copy(update={"source": config.source.model_copy(update=places)})


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
        if not (before == "source" and part in KINDS)
        and not (isinstance(before, int) and part in WAYS)
        and not (before in TEXT_OR_NUMBER and part in ("str", "int"))
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
        case "string_type" | "int_type" if location[-1] in (
            "train",
            "test",
            "calibrate",
            "positive",
        ):
            return f"{path} should be text or a whole number, got {shown}"
        case "string_pattern_mismatch":
            return (
                f"{path} must begin with a letter or digit and hold only letters, digits, spaces, "
                f"dots and dashes, got {shown}"
            )
        case "union_tag_invalid":
            return f"{path}.kind must be one of {context['expected_tags']}, got {context['tag']!r}"
        case "union_tag_not_found" if location[0] == "source":
            return f"{path}.kind is missing; it is one of {', '.join(map(repr, KINDS))}"
        case "union_tag_not_found":
            return (
                f"{path} must be dense, {{prune: [...]}}, {{int8: [...]}}, {{float16: true}} or "
                f"{{int4: true}}, got {shown}"
            )
        case "literal_error" if location[0] == "variants" and not isinstance(value, dict):
            return f"{path} must be {context['expected']}, got {shown}"
        case "value_error":
            return f"{context['error']}"
        case _:
            rule = fault["msg"].partition("should ")[2] or fault["msg"]
            return f"{path} should {rule}, got {shown}"


_SECTIONS: dict[str, tuple[type[BaseModel], ...]] = {
    "": (Config,),
    "source": (DigitsSource, FolderSource, ParquetSource, Cifar10Source, OnnxSource),
    "preprocessing": (Preprocess,),
    "recipe": (Recipe,),
    "split": (Split,),
    "label": (Label,),
    "groups": (GroupColumn,),
    "cluster": (Cluster,),
    "variants": (Prune, Int8, Float16, Int4, Onnx),
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
