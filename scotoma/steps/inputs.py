"""What is an audit of, what changed since the last, and what has `scotoma compare` left for it?"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from scotoma import storage
from scotoma.answers.note import AdmissionNote
from scotoma.config.newest import Newest, at_newest
from scotoma.datasets.parts import ExamplesPart, part_digest
from scotoma.printable import printable
from scotoma.processes import progress
from scotoma.run import Run, read_json, write_json
from scotoma.run.folder import INPUTS
from scotoma.run.mirror import Mirror
from scotoma.run.sources import Sources, examine, read_sources, write_sources
from scotoma.storage import StampedFiles

if TYPE_CHECKING:
    from scotoma.config import Config


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
    return completed.model_copy(update={"source": config.source}).with_source(
        classes=completed.source.known_classes
    )


def _resolved(config: Config, place: str) -> tuple[Config, Newest | None]:
    known = _known(place)
    config, name = at_newest(config, known.name)
    asked = config.source.registered
    if asked is None or not asked.alias:
        return config, name if name is None else Newest(name)
    if known.asked != str(asked):
        from scotoma.steps.external_models import registry_of
        from scotoma.tracking.registry import aliased

        known = Newest("", str(asked), str(aliased(asked, registry_of(config, place))))
    return config.with_source(models=known.models), Newest(name or "", known.asked, known.models)


@contextlib.contextmanager
def looked_at(config: Config) -> Iterator[tuple[Config, Newest | None]]:
    """Resolve as `resolved` does, without a run; registered models stay until the block ends."""
    complete, newest = resolved(config, "")
    if complete.source.registered is None:
        yield complete, newest
        return
    from scotoma.steps.external_models import download_models

    with tempfile.TemporaryDirectory() as folder:
        download_models(complete, "", Path(folder))
        yield complete.with_source(models=folder), newest


def _known(place: str) -> Newest:
    """What a run that has begun is of."""
    if not place or not (mirror := Mirror.of(place)).exists(mirror.root / "newest.json"):
        return Newest()
    with contextlib.suppress(ValueError, AttributeError):  # a damaged record
        recorded = json.loads(storage.read_bytes(storage.join(place, "newest.json")))
        return Newest(**{one.name: str(recorded.get(one.name, "")) for one in fields(Newest)})
    return Newest()


# The first part that differs says what is made again.
AGAIN: dict[ExamplesPart, str] = {
    "training": "models are trained again",
    "calibration": "static int8 models are calibrated again, none is trained",
    "shown": "all models predict again, none is trained",
    "measured": "all is measured again, no model is trained or predicts",
}
AGAIN_OF = {
    "models": "models are imported, predict and are measured again",
    "files": "predictions are imported and measured again",
}
NOTHING = "no example that models are trained or tested on differs"


def look(config: Config, known: Sources) -> Sources:
    """Look at every file that an audit would read, where no run has begun; not registered models.

    Args:
        config: What would be audited.
        known: From an earlier look.

    Raises:
        ScotomaError: The files cannot be listed or read.
    """
    files, remarks = _files_read(config)
    return examine(files, known, remarks)


def _files_read(config: Config) -> tuple[dict[str, StampedFiles], Mapping[str, str]]:
    """The files that an audit reads, but registered models."""
    files, remarks = config.source.files_read(config)
    return files | config.source.files_of_models(config), remarks


Look = tuple[Mapping[str, StampedFiles], Sources]  # files by the key of the source; what they are


@contextlib.contextmanager
def changes_told(run: Run, config: Config) -> Iterator[Look]:
    """Look at every file that an audit reads; those that nobody wrote to are not read.

    After the block it is written down what they are, and said what changed since the last look and
    what is made again.

    Args:
        run: The run.
        config: Its configuration, with models in a folder of this machine.
    """
    files, remarks = _files_read(config)
    before = read_sources(run.mirror)
    parts = {part: part_digest(run, part) for part in AGAIN}
    sources = examine(files, before, remarks)
    yield files, sources
    if sources != before:
        write_sources(run.mirror, sources)
    if before.files and (changes := sources.changes(before)):
        named = ", ".join(_named(sources, key, names) for key, names in changes.items())
        differing = (AGAIN[part] for part in AGAIN if parts[part] != part_digest(run, part))
        again = [AGAIN_OF[key] for key in AGAIN_OF if key in changes]
        progress.note(
            f"note    {named} changed since the last audit in this folder: "
            f"{next(iter((*again, *differing)), NOTHING)}"
        )


def _named(sources: Sources, key: str, names: list[str]) -> str:
    shown = printable(names[0])
    if len(names) == 1:
        return f"source.{key} ({shown})"
    total = len({*sources.files.get(key, {}), *names})
    return f"source.{key} ({len(names):,} of {total:,} files, such as {shown})"


NOTES = "notes.json"
TITLES = {"prompt": "Question", "target": "Right answer", "before": "dense", "after": ""}


def texts_file(folder: Path) -> Path:
    """Name the file of texts among the inputs of an audit."""
    return folder / "texts.parquet"


def write_compared_notes(folder: Path, notes: Sequence[AdmissionNote]) -> None:
    """Leave the notes of compared logs among the inputs of an audit."""
    write_json(folder / NOTES, [note.as_dict() for note in notes])


def compared_notes(run: Run) -> tuple[AdmissionNote, ...]:
    """Read the notes of an audit of compared logs; there are none without that file."""
    path = run.path(INPUTS) / NOTES
    return tuple(map(AdmissionNote.model_validate, read_json(path))) if path.exists() else ()


def compared_texts(run: Run) -> Mapping[tuple[str, str], tuple[tuple[str, str], ...]]:
    """Read the texts of an audit of compared logs, with titles, by variant and example.

    Args:
        run: Its folder; without texts there are none.
    """
    path = texts_file(run.path(INPUTS))
    if not path.exists():
        return {}
    rows = pl.read_parquet(path, glob=False).select("variant", "example_id", *TITLES).iter_rows()
    return {
        (variant, example_id): tuple(
            (title or str(variant), text or "")
            for title, text in zip(TITLES.values(), texts, strict=True)
        )
        for variant, example_id, *texts in rows
    }
