"""What an audit is of, where its source asks for the newest: looked up once, then kept."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from scotoma import storage
from scotoma.config import Config
from scotoma.config.newest import Newest, at_newest
from scotoma.run.mirror import Mirror

__all__ = ["looked_at", "resolved", "with_variants"]


def resolved(config: Config, place: str) -> tuple[Config, Newest | None]:
    """Name the data, models and variants that a configuration asks for: the newest, and all.

    Also what images external models take.

    This lists folders and may ask MLflow, so it is a step of its own after reading.

    Args:
        config: Its source may have `{newest}` in paths, and `models:/NAME@ALIAS`.
        place: Folder of the run, or its `s3://BUCKET/PREFIX`. What was found when a run began
            there stays, whatever is newer by now.

    Returns:
        The configuration, and what was found; None where it does not ask.

    Raises:
        ConfigError: MLflow is to be asked, and none is named; or a variant is not in the files.
        DataError: There is nothing, or it cannot be looked up.
    """
    resolved_config, newest = _resolved(config, place)
    return resolved_config.completed(), newest


def with_variants(config: Config) -> Config:
    """Name the variants that the newest files of predictions hold; paths stay as written.

    Args:
        config: Of another kind of source it stays as it is, and nothing is opened.

    Raises:
        ScotomaError: The files cannot be read, or do not hold what the configuration names.
    """
    if not config.source.has_answers:
        return config
    completed = at_newest(config)[0].completed()
    source = config.source.model_copy(update={"classes": completed.source.known_classes})
    return completed.model_copy(update={"source": source})


def _resolved(config: Config, place: str) -> tuple[Config, Newest | None]:
    known = _known(place)
    config, name = at_newest(config, known.name)
    asked = config.source.registered
    if asked is None or not asked.alias:
        return config, name if name is None else Newest(name)
    if known.asked != str(asked):
        from scotoma.steps.external.registered import registry_of
        from scotoma.tracking.registry import aliased

        known = Newest("", str(asked), str(aliased(asked, registry_of(config, place))))
    return _of(config, known.models), Newest(name or "", known.asked, known.models)


@contextlib.contextmanager
def looked_at(config: Config) -> Iterator[tuple[Config, Newest | None]]:
    """Resolve as `resolved` does, without a run; registered models stay until the block ends."""
    complete, newest = resolved(config, "")
    if complete.source.registered is None:
        yield complete, newest
        return
    from scotoma.steps.external.registered import download_models

    with tempfile.TemporaryDirectory() as folder:
        download_models(complete, "", Path(folder))
        yield _of(complete, folder), newest


def _of(config: Config, models: str) -> Config:
    source = config.source.model_copy(update={"models": models})
    return config.model_copy(update={"source": source})


def _known(place: str) -> Newest:
    """What a run that has begun is of."""
    if not place or not (mirror := Mirror.of(place)).exists(mirror.root / "newest.json"):
        return Newest()
    with contextlib.suppress(ValueError, AttributeError):  # a damaged record
        recorded = json.loads(storage.read_bytes(storage.join(place, "newest.json")))
        return Newest(**{one.name: str(recorded.get(one.name, "")) for one in fields(Newest)})
    return Newest()
