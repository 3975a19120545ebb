"""Which evaluations lie in these files and folders, and what do they hold?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import polars as pl

from scotoma.answers.natural import natural_order
from scotoma.errors import ConfigError, DataError
from scotoma.printable import ONE_OF_THEM, nearest, printable
from scotoma.processes.untrusted import read_apart
from scotoma.readers.evaluation_tables import LogColumns
from scotoma.readers.extract import (
    FORMATS,
    MOST_VALUES,
    SUFFIXES,
    TABLES,
    format_of,
    gather_log,
    list_attributes,
)
from scotoma.readers.files import Glimpse, files_below
from scotoma.readers.promptfoo import PROMPTFOO, answering_models
from scotoma.readers.record import SCORE, Attempt, AttributePath, EvaluationLog, Gathered
from scotoma.readers.tables import is_one_table
from scotoma.storage.credentials import masked

SMALL = 2**10  # bytes of a file that may be empty, though gzipped
REPEATED = ("nemo-skills",)  # whose several files of a task are reruns of one model


class NoLogError(ConfigError):
    """A place holds no log."""


class NoAnswerError(DataError):
    """A log holds no answer."""


def read_logs(
    places: Sequence[str | Path],
    folder: Path,
    *,
    attributes: Sequence[str] = (),
    filter: str = "",  # noqa: A002  the tools' own word
    tasks: Sequence[str] = (),
    reruns: bool = False,
    columns: LogColumns | None = None,
    model: str = "",
    going_on: bool = False,
) -> dict[str, EvaluationLog]:
    """Read the logs of one model.

    Args:
        places: Files, or folders that are searched for logs. Several are reruns of one model.
        folder: An existing folder for text, as large as the logs; the caller removes it.
        attributes: Dotted paths of the attributes to keep, such as `doc.category`.
        filter: Which filter's answers to take of tasks that were scored after several.
        tasks: Names of the tasks to take, or patterns, so that nothing is asked of others; empty
            for all.
        reruns: Whether several evaluations of a task at one place are reruns.
        columns: Columns of tables, where they have not the usual names.
        model: The model to take, of files that hold several; empty for the only one.
        going_on: Whether tasks that are named may not have begun, so that they are passed over.

    Returns:
        Task to its log.

    Raises:
        ConfigError: A place or task that does not exist, or a choice that is to be made: of filter,
            score, model or file.
        DataError: A log that cannot be read, or holds an example twice.
    """
    parts: dict[str, list[Gathered]] = {}
    for place in map(str, places):
        for path, _ in _logs(place, columns or LogColumns()):
            for part in _gathered(place, path, folder, attributes, columns or LogColumns()):
                if model in ("", part.model):
                    parts.setdefault(part.task, []).append(part)
    shown = printable(masked(", ".join(map(str, places))))
    if not parts:
        raise NoAnswerError(
            f"{shown} holds no answer of a model; name the log of another evaluation"
        )
    named = matching(tasks, parts)
    tasks = [task for task in named if task in parts]
    for task in named:
        if task not in parts and not (going_on and tasks):
            have = printable(", ".join(natural_order(parts)))[:300]
            if going_on:
                raise NoAnswerError(
                    f"{shown} has no answers to task {printable(task)!r} yet, and those to {have}; "
                    "wait, or name one of these"
                )
            raise ConfigError(
                f"task {printable(task)!r} is not in {shown}, which has {have}"
                f"{nearest(task, list(parts), ONE_OF_THEM)}"
            )
    parts = {task: _without_failed_tries(own) for task, own in parts.items()}
    chosen = _of_filter(parts, filter, tasks or list(parts))
    return {
        task: _merged(task, chosen[task], attributes, reruns=reruns)
        for task in natural_order(chosen)
    }


def models_in(place: Path) -> list[str]:
    """The models whose answers one file of promptfoo holds; none of other places."""
    about: dict[str, Any] = {"path": place, "called": place.name}
    if not place.is_file() or read_apart(format_of, place, LogColumns(), **about) != PROMPTFOO.name:
        return []
    found: list[str] = read_apart(answering_models, place, **about)
    return found


def patterns(wanted: Sequence[str], known: Iterable[str]) -> list[str]:
    """Split what `--tasks` names at commas, but for names of tasks that hold some, as HELM's do.

    >>> patterns(["mmlu_*,arc", "mmlu:subject=law,method=joint"], ["mmlu:subject=law,method=joint"])
    ['mmlu_*', 'arc', 'mmlu:subject=law,method=joint']
    """
    names = list(known)
    split = ([one] if matches(one, names) else one.split(",") for one in wanted)
    return list(dict.fromkeys(one.strip() for own in split for one in own if one.strip()))


def matches(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that a name or a pattern such as `mmlu_*` fits."""
    return [name for name in names if name == wanted or fnmatchcase(name, wanted)]


def matching(wanted: Sequence[str], known: Iterable[str]) -> list[str]:
    """The tasks that names, or patterns such as `mmlu_*`, name; a name that fits none stays.

    >>> matching(["mmlu_*,arc"], ["mmlu_law", "mmlu_art", "gsm8k"])
    ['mmlu_law', 'mmlu_art', 'arc']
    """
    names = list(known)
    named = (matches(one, names) or [one] for one in patterns(wanted, names))
    return list(dict.fromkeys(task for own in named for task in own))


def attributes_of(
    places: Sequence[str | Path], *, columns: LogColumns | None = None
) -> dict[str, tuple[AttributePath, ...]]:
    """List the attributes that logs hold.

    Args:
        places: See `read_logs`.
        columns: See `read_logs`.

    Returns:
        Task to its attributes, in the order of the log.

    Raises:
        ConfigError: See `read_logs`.
        DataError: See `read_logs`.
    """
    tasks: dict[str, dict[str, tuple[int, set[str], set[str]]]] = {}
    for place in map(str, places):
        for path, _ in _logs(place, columns or LogColumns()):
            counted = read_apart(
                list_attributes, path, columns or LogColumns(), path=_largest(path),
                called=path.name,
            )  # fmt: skip
            for task, paths in counted.items():
                known = tasks.setdefault(task, {})
                for name, (count, distinct, kinds) in paths.items():
                    n, seen, types = known.get(name, (0, set(), set()))
                    known[name] = (n + count, seen | set(distinct), types | set(kinds))
    return {
        task: tuple(
            AttributePath(name, count, min(len(seen), MOST_VALUES), _spoken(kinds))
            for name, (count, seen, kinds) in tasks[task].items()
        )
        for task in natural_order(tasks)
    }


def _spoken(kinds: set[str]) -> str:
    if "text" not in kinds:
        return "numbers"
    return "text" if kinds == {"text"} else "mixed"


def _logs(place: str, columns: LogColumns) -> list[tuple[Path, str]]:
    """List the logs at a place, with their formats; tables count where there is nothing else."""
    root = Path(os.path.abspath(place))
    shown = printable(masked(place))
    if not root.exists():
        raise ConfigError(f"{shown} does not exist; name a log, or a folder of logs")
    whole = not root.is_dir() or is_one_table(root)
    paths = [root] if whole else files_below(root, SUFFIXES, shown)
    formats = (
        (path, read_apart(format_of, path, columns, path=path, called=path.name)) for path in paths
    )
    logs = [(path, name) for path, name in formats if name]
    of_tools = [(path, name) for path, name in logs if name not in TABLES]
    if paths and all(map(_is_empty, paths)):
        raise NoLogError(
            f"{shown} must hold the answers of a model, and {printable(paths[0].name)} is empty; "
            "evaluate again, or copy the log again"
        )
    if not logs:
        what = "is" if not root.is_dir() else "holds"
        raise NoLogError(
            f"{shown} {what} no log of an evaluation; logs are of {', '.join(FORMATS[:-1])}, or "
            "tables in CSV, Parquet or JSONL"
        )
    return of_tools or logs


def _is_empty(path: Path) -> bool:
    small = path.is_file() and path.stat().st_size < SMALL
    return small and not Glimpse(path).begins.strip()


def _largest(path: Path) -> Path:
    """The file that sets the limits of reading: HELM's text lies beside its statistics."""
    state = path.with_name("scenario_state.json")
    of_helm = path.name == "per_instance_stats.json" and state.is_file()
    return max([path, *([state] if of_helm else [])], key=lambda one: one.stat().st_size)


def _gathered(
    place: str,
    path: Path,
    folder: Path,
    attributes: Sequence[str],
    columns: LogColumns,
) -> Iterator[Gathered]:
    number = sum(1 for _ in folder.iterdir())  # files are never removed: a new stem each time
    evaluations = read_apart(
        gather_log, path, str(folder.absolute() / f"{number:06d}"), number << 44, tuple(attributes),
        columns, path=_largest(path), called=path.name,
    )  # fmt: skip
    for facts in evaluations:
        one = Gathered._make([*facts, path, place])
        # A table that was named stands for its model, one in a folder for its task.
        named = one.format in TABLES and path.samefile(place)
        yield one._replace(
            task=one.task or ("table" if named else path.name.partition(".")[0]),
            attempt=one.attempt and Attempt(*one.attempt),
        )


def _without_failed_tries(parts: list[Gathered]) -> list[Gathered]:
    """Take of several tries of one evaluation the newest that succeeded, and say so."""
    tries: dict[Any, list[Gathered]] = {}
    for part in parts:
        again = part.attempt and part.attempt.id
        key = (again, part.filter) if again else id(part)
        tries.setdefault(key, []).append(part)
    last = [max(own, key=_newest_success) for own in tries.values()]
    kept = [one for one in last if one.succeeded] or last
    left_out = [printable(one.path.name) for one in parts if one not in kept]
    if not left_out:
        return parts
    name = printable(kept[-1].path.name)
    notes = [f"{one} is another try of the evaluation in {name}: left out." for one in left_out]
    return [*kept[:-1], kept[-1]._replace(notes=[*kept[-1].notes, *notes])]


def _newest_success(part: Gathered) -> tuple[bool, str]:
    return part.succeeded, part.attempt.time if part.attempt else ""


def _of_filter(
    parts: Mapping[str, list[Gathered]], wanted: str, tasks: Sequence[str]
) -> dict[str, list[Gathered]]:
    """Choose the filter of every task that is taken; one with a single filter has no choice."""
    known = {task: _distinct(part.filter for part in parts[task]) for task in parts}
    everywhere = sorted({name for names in known.values() for name in names})
    if wanted and wanted not in everywhere:
        raise ConfigError(
            f"filter {printable(wanted)!r} is in none of the logs, which have "
            f"{printable(', '.join(everywhere)) or 'no filters'}"
            f"{nearest(wanted, everywhere, ONE_OF_THEM)}"
        )
    chosen = {}
    for task in tasks:
        filters = known[task]
        if len(filters) > 1 and wanted not in filters:
            raise ConfigError(
                f"task {printable(task)} was scored after {len(filters)} filters "
                f"({printable(', '.join(filters))}); choose one with --filter"
            )
        one = wanted if wanted in filters else filters[0]
        chosen[task] = [part for part in parts[task] if part.filter == one]
    return chosen


def _merged(
    task: str, parts: list[Gathered], attributes: Sequence[str], *, reruns: bool
) -> EvaluationLog:
    """Make one log of the evaluations of a task, each after the first a rerun."""
    _check_choices(task, parts, reruns=reruns)
    kinds: dict[str, set[str]] = {}
    frames, after = [], 0
    for part in parts:
        frame = pl.concat(map(_table, part.examples), how="diagonal")
        frame = frame.with_columns(pl.col("rerun") + after)
        after = frame.select(pl.col("rerun").max() + 1).item()
        frames.append(frame)
        for path, seen in part.kinds.items():
            kinds.setdefault(path, set()).update(seen)
    faults = {name: one for part in parts for name, one in part.not_numbers.items()}
    names = _distinct(name for part in parts for name in part.scores)
    scores = tuple(name for name in names if name not in faults)
    examples = pl.concat(frames, how="diagonal").with_columns(
        [pl.col(SCORE + name).fill_null(float("nan")) for name in scores]
        + [pl.col(path).cast(_type(kinds.get(path, set()))) for path in attributes]
    )
    kept = [name for name in examples.columns if not name.startswith(SCORE)]
    kept = [name for name in kept if name not in attributes]
    notes = _distinct(note for part in parts for note in part.notes)
    first = parts[0]
    return EvaluationLog(
        model=printable(masked(first.model)),
        task=task,
        format=first.format,
        files=tuple(str(part.path) for part in parts),
        settings=_settings(task, parts),
        examples=examples.select(*kept, *(SCORE + name for name in scores), *attributes),
        scores=scores,
        attributes=tuple(attributes),
        texts=tuple(Path(one) for part in parts for one in part.texts),
        notes=tuple(notes) + tuple(_left_out(task, name, one) for name, one in faults.items()),
    )


def _check_choices(task: str, parts: list[Gathered], *, reruns: bool) -> None:
    """Refuse what is not one model, or not one evaluation at a place."""
    models = _distinct(part.model for part in parts)
    for place in _distinct(part.place for part in parts):
        here = [part for part in parts if part.place == place]
        own = _distinct(part.model for part in here)
        if len(own) > 1:
            way_out = "name those of one"
            if here[0].format == PROMPTFOO.name:
                way_out = (
                    "compare this file alone, whose first model is the original, or write a file "
                    "a model with promptfoo eval --filter-providers"
                )
            raise ConfigError(
                f"{printable(masked(place))} holds logs of {len(own)} models for task "
                f"{printable(task)} ({printable(masked(', '.join(own)))}); {way_out}"
            )
        if len(here) > 1 and not reruns and here[0].format not in REPEATED:
            files = printable(", ".join(part.path.name for part in here))[:300]
            way_out = "name one, or take all as reruns with --reruns"
            if not all(part.succeeded for part in here):
                way_out = "none of them succeeded: evaluate again, or name one"
            raise ConfigError(
                f"{printable(masked(place))} holds {len(here)} evaluations of task "
                f"{printable(task)} ({files}); {way_out}"
            )
    if len(models) > 1 and parts[0].format not in TABLES:
        raise ConfigError(
            f"reruns of task {printable(task)} must be of one model, got "
            f"{printable(masked(', '.join(models)))}; name the logs of one"
        )


def _settings(task: str, parts: list[Gathered]) -> dict[str, str]:
    """Take the settings of the first log, if reruns do not differ from it."""
    first = parts[0]
    settings: dict[str, str] = dict(first.settings)
    for part in parts[1:]:
        for name, value in part.settings.items():
            if settings.setdefault(name, value) != value:
                raise ConfigError(
                    f"reruns of task {printable(task)} must be asked alike, but {name} is "
                    f"{printable(settings[name])[:80]} in {printable(first.path.name)} and "
                    f"{printable(value)[:80]} in {printable(part.path.name)}; leave one out"
                )
    return settings


def _left_out(task: str, name: str, fault: Sequence[Any]) -> str:
    return (
        f"Score {printable(name)} of task {printable(task)} is {fault[2]} in {fault[0]:,} "
        f"{'example' if fault[0] == 1 else 'examples'}, not a number, and is left out."
    )


def _table(path: str) -> pl.DataFrame:
    return pl.read_parquet(path, glob=False)


def _type(kinds: set[str]) -> pl.DataType:
    if not kinds or "text" in kinds:
        return pl.String()
    return pl.Float64() if "number" in kinds else pl.Int64()


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
