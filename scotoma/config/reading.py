"""How a configuration is read: every fault in one sentence, with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scotoma.config.model import Config
from scotoma.config.registered import SCHEME
from scotoma.config.sheet import Location, Sheet, file_text, keys_beside, sentence, unknown_key
from scotoma.sources.registry import KINDS

__all__ = ["DEFAULT_CONFIG", "default_config", "load_config", "parse_config"]

TEXT_OR_NUMBER = ("train", "test", "calibrate", "positive")  # keys that hold a value of a column
# Keys that say what a variant is.
WAYS = ("dense", "prune", "int8", "float16", "onnx", "predictions")

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
    config = parse_config(file_text(path, "configuration"), str(path))
    base = path.resolve().parent
    places = {
        key: value if "://" in value or value.startswith(SCHEME) else str(base / value)
        for key, value in config.source.places.items()
    }
    own: dict[str, Any] = {"source": config.source.model_copy(update=places)}
    if (robustness := config.robustness) is not None:
        named = {"frost": robustness.frost, "files": robustness.files}
        update: dict[str, Any] = _absolute(named, base)
        update["sets"] = [
            one.model_copy(update=_absolute({"folder": one.folder, "classes": one.classes}, base))
            for one in robustness.sets
        ]
        own |= {"robustness": robustness.model_copy(update=update)}
    return config.model_copy(update=own)


def _absolute(places: dict[str, str | None], base: Path) -> dict[str, str]:
    """The places that are named; a path is one below the folder of the configuration."""
    return {
        key: place if "://" in place else str(base / place)
        for key, place in places.items()
        if place is not None
    }


def parse_config(text: str, origin: str) -> Config:
    r"""Check the text of a configuration; `origin` is what messages call it.

    >>> parse_config("variants: [dense, {int8: [static]}]\npopulation: {models: 0}", "a.yaml")
    Traceback (most recent call last):
    ...
    scotoma.errors.ConfigError: a.yaml:2 population.models must be at least 1, got 0
    """
    sheet = Sheet.read(text, origin)
    try:
        return Config.model_validate_json(sheet.plain)
    except ValidationError as error:
        raise sheet.refusal(_faults(error)) from error


def _faults(error: ValidationError) -> list[tuple[Location, str]]:
    """Location and sentence of every fault; of a union's branches only the one that was meant."""
    faults = []
    for fault in error.errors():
        location = _without_branches(fault["loc"])
        path = ".".join(map(str, location)) or "the configuration"
        kind = next((str(part) for part in fault["loc"][1:2] if part in KINDS), "")
        faults.append((location, _sentence(path, location, dict(fault), kind)))
    if any(location[:1] == ("source",) for location, _ in faults):  # which may name the variants
        faults = [fault for fault in faults if fault[0] != ("variants",)]
    return faults


def _without_branches(location: Location) -> Location:
    """The place in the file: without the names that pydantic gives to a union's branches."""
    return tuple(
        part
        for before, part in zip((None, *location), location, strict=False)
        if not (before == "source" and part in KINDS)
        and not (isinstance(before, int) and part in WAYS)
        and not (before in TEXT_OR_NUMBER and part in ("str", "int"))
        and not (before == "thresholds" and part in ("one", "each"))
    )


def _sentence(path: str, location: Location, fault: dict[str, Any], kind: str) -> str:
    """What is wrong; `kind` is that of the source, where the fault lies in it."""
    value, context = fault["input"], fault.get("ctx", {})
    shown = repr(value) if isinstance(value, str) else json.dumps(value)
    match fault["type"]:
        case "extra_forbidden":
            return unknown_key(path, str(location[-1]), keys_beside(Config, location, kind))
        case "string_type" | "int_type" if location[-1] in (
            "train",
            "test",
            "calibrate",
            "positive",
        ):
            return f"{path} should be text or a whole number, got {shown}"
        case "string_pattern_mismatch" if location[0] == "kubeflow":
            rule = _KUBERNETES.get(str(location[-1]), "a name as Kubernetes allows it")
            return f"{path} must be {rule}, got {shown}"
        case "string_pattern_mismatch" if location == ("retraining", "alias"):
            return f"{path} must hold letters, digits, dots and dashes, a letter first, got {shown}"
        case "string_pattern_mismatch" if location == ("data_date",):
            return f"{path} must be a day or month, such as 2027-03-31 or 2027-03, got {shown}"
        case "string_pattern_mismatch" if location[0] == "robustness":
            return f"{path} must be at most 40 letters, digits, dots and dashes, got {shown}"
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
                f"{path} must be dense, {{prune: [...]}}, {{int8: [...]}} or {{float16: true}}, "
                f"got {shown}"
            )
        case "literal_error" if location[0] == "variants" and not isinstance(value, dict):
            return f"{path} must be {context['expected']}, got {shown}"
        case _:
            return sentence(path, fault)


_KUBERNETES = {
    "memory": "a size such as 16Gi",
    "scratch": "a size such as 16Gi",
    "cpu": "cores, such as 4 or 500m",
    "type": "a resource such as nvidia.com/gpu",
    "mount": "an absolute path",
    "full": "the name of an image",
    "core": "the name of an image",
}
