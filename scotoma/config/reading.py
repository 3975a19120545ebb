"""How a configuration is read: every fault in one sentence, with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scotoma import storage
from scotoma.config.model import Config
from scotoma.config.newest import SCHEME
from scotoma.config.sheet import Location, checked, file_text, shown_value
from scotoma.config.variants import WAYS
from scotoma.errors import ConfigError
from scotoma.sources.registry import KINDS

BRANCHES = {
    "source": tuple(KINDS),
    "variants": ("dense", *WAYS),
    "thresholds": ("one", "each"),
    **dict.fromkeys(("train", "test", "calibrate", "positive"), ("str", "int")),
}

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


def configuration(
    path: Path | None,
    *,
    deterministic: bool,
    seed: int | None,
    data: str | None,
    models: int | None = None,
) -> Config:
    """Read a configuration, with what the command line replaces; nothing else is opened.

    Args:
        path: The file; None for the embedded default.
        deterministic: Set `deterministic` to True.
        seed: Replaces `population.seed`.
        data: Replaces `source.data`.
        models: Replaces `population.models`.

    Raises:
        ConfigError: It breaks a rule, or its source has no `data` or trains no members.

    >>> configuration(None, deterministic=False, seed=7, data=None).population.seed
    7
    """
    config = default_config() if path is None else load_config(path)
    if models is not None and not config.source.trains:
        raise ConfigError(
            f"--models sets how many members to train, and source.kind {config.source.kind!r} "
            "trains none; leave it out"
        )
    changed = {key: n for key, n in (("seed", seed), ("models", models)) if n is not None}
    if changed:
        population = config.population.model_copy(update=changed)
        config = config.model_copy(update={"population": population})
    if data is not None:
        place = data if storage.is_remote(data) else str(Path(data).absolute())
        config = config.model_copy(update={"source": config.source.with_data(place)})
    if deterministic:
        config = config.model_copy(update={"deterministic": True})
    return config


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
    return checked(text, origin, Config, "the configuration", BRANCHES, _of_variants)


def _of_variants(path: str, location: Location, fault: dict[str, Any]) -> str:
    """What is wrong with a way of compressing, or a kind of source; empty for other faults."""
    shown = shown_value(fault["input"])
    match fault["type"]:
        case "union_tag_not_found" if location[0] == "source":
            return f"{path}.kind is missing; it is one of {', '.join(map(repr, KINDS))}"
        case "union_tag_not_found":
            return (
                f"{path} must be dense, {{prune: [...]}}, {{int8: [...]}} or {{float16: true}}, "
                f"got {shown}"
            )
        case "literal_error" if location[0] == "variants" and not isinstance(fault["input"], dict):
            return f"{path} must be {fault['ctx']['expected']}, got {shown}"
    return ""
