"""Which old audits give up their models and predictions, and what stays of every one."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path, PurePath

from scotoma import storage
from scotoma.audit import GateFile, read_gate
from scotoma.config import load_config
from scotoma.config.sections import Keep
from scotoma.document import Cell, Column, Table
from scotoma.errors import ConfigError, DataError
from scotoma.run import Run, checksums, read_record, write_json
from scotoma.run.lock import locked
from scotoma.run.mirror import Mirror

RECORD = "retention.json"
LARGE = (
    "populations/*/member-*", "models/*", "predictions/*", "shards/*", "examples.parquet",
    "divergence.parquet",
)  # fmt: skip
SPARED = "costs.json"  # from which the page is drawn again
PAUSE = datetime.timedelta(days=30)
AHEAD = datetime.timedelta(days=1)  # by which clocks of machines may differ


@dataclass(frozen=True)
class StoredAudit:
    """One audit of a project.

    Attributes:
        place: Folder of its run, or its `s3://BUCKET/PREFIX`.
        ended: When it ended; None where it did not, or is at work again.
        verdict: PASS, UNSURE or FAIL; empty where it did not end.
        large: Names of its members, predictions and tables of examples.
        size: Their bytes.
        kept: Why it keeps them; empty where it need not.
    """

    place: str
    ended: datetime.datetime | None
    verdict: str
    large: tuple[str, ...]
    size: int
    kept: str = ""


def sorted_out(
    audits: Sequence[StoredAudit],
    keep: Keep,
    now: datetime.datetime,
    pause: datetime.timedelta | None = None,
) -> list[StoredAudit]:
    """Say of each audit why it keeps its large files, or that it need not.

    The last one and the last one that passed always do, and any that has not ended: it may be at
    work. Of the others, as many as `keep.audits` says and those no older than `keep.days`. One that
    ended more than a day after now stays too, and is not the last: some clock was wrong.

    Args:
        audits: Of one project, in any order.
        keep: How many, how long; without either, all.
        now: The time, with its zone.
        pause: The longest time between two audits that counts towards an age, so that a clock that
            jumped ahead ages none; None to count all time.

    Returns:
        The same audits, newest first.

    >>> at = datetime.datetime(2027, 3, 1, tzinfo=datetime.UTC)
    >>> old = StoredAudit("a", at - datetime.timedelta(days=40), "UNSURE", ("predictions/x",), 9)
    >>> found = sorted_out([old, replace(old, place="b", ended=at)], Keep(days=30), at)
    >>> [(one.place, one.kept) for one in found]
    [('b', 'the last audit'), ('a', '')]
    """
    endless = datetime.datetime.max.replace(tzinfo=datetime.UTC)
    newest = sorted(audits, key=lambda one: (one.ended or endless, one.place), reverse=True)
    ended = [one for one in newest if one.ended is not None and one.ended <= now + AHEAD]
    ages = _ages([one.ended for one in ended if one.ended is not None], now, pause)
    passed = next((one for one in ended if one.verdict == "PASS"), None)
    return [replace(one, kept=_why(one, ended, ages, passed, keep)) for one in newest]


def _ages(
    ends: Sequence[datetime.datetime], now: datetime.datetime, pause: datetime.timedelta | None
) -> list[datetime.timedelta]:
    """How long ago each audit ended, newest first; a gap longer than `pause` does not count."""
    gaps = [newer - older for newer, older in pairwise([now, *ends])]
    believed = (pause is None or gap <= pause for gap in gaps)
    return list(accumulate(gap * counts for gap, counts in zip(gaps, believed, strict=True)))


def _longest_pause(ends: Sequence[datetime.datetime]) -> datetime.timedelta:
    """The longest time without an audit that is believed: 30 days, or twice what is usual."""
    gaps = [newer - older for newer, older in pairwise(ends)]
    return max(PAUSE, 2 * statistics.median_low(gaps)) if gaps else PAUSE


def _why(
    one: StoredAudit,
    ended: Sequence[StoredAudit],
    ages: Sequence[datetime.timedelta],
    passed: StoredAudit | None,
    keep: Keep,
) -> str:
    """Why an audit keeps its large files; empty where it need not."""
    if one.ended is None:
        return "has not ended, or is at work"
    if one not in ended:
        return "ended after now, by the clock of this machine"
    if one is ended[0]:
        return "the last audit"
    if one is passed:
        return "the last audit that passed"
    if keep.audits is None and keep.days is None:
        return "all are kept"
    if ended.index(one) < (keep.audits or 0):
        return f"one of the last {keep.audits}"
    if keep.days is not None and ages[ended.index(one)] <= datetime.timedelta(days=keep.days):
        return f"ended within {keep.days:g} days"
    return ""


def audits_of(project: str, root: str, *, at_work: str = "") -> list[StoredAudit]:
    """The audits of a project whose folders lie side by side.

    Args:
        project: Its name.
        root: The folder that holds theirs, or `s3://BUCKET/PREFIX`.
        at_work: Place of the audit that asks, which has ended but for this.

    Returns:
        Audits in the order of their places. A folder that cannot be read as one of the project's is
        none of them.

    Raises:
        DataError: The storage cannot be listed.
    """
    audits = []
    for place, sizes in _folders(root):
        with contextlib.suppress(ConfigError):  # of a version before or after this one
            if (run := Run.open(place)).config.project == project:
                audits.append(_audited(run, place, sizes, ended=place == at_work))
    return audits


def plan_deletion(
    project: str, root: str, keep: Keep, *, at_work: str = "", as_of: datetime.date | None = None
) -> list[StoredAudit]:
    """Say of each audit of a project why it keeps its large files, or that it need not.

    Args:
        project: Its name.
        root: The folder that holds the folders of its runs, or `s3://BUCKET/PREFIX`.
        keep: How many are kept, how long.
        at_work: Place of the audit that asks, which has ended but for this.
        as_of: The day by which audits are old; None for the clock, which is believed only as far
            as the times of the audits bear it out.

    Returns:
        See `sorted_out`.

    Raises:
        DataError: The storage cannot be listed.
        ConfigError: By the clock no audit has ended for longer than is believed.
    """
    audits = audits_of(project, root, at_work=at_work)
    if as_of is not None:
        midnight = datetime.datetime.combine(as_of, datetime.time(), datetime.UTC)
        return sorted_out(audits, keep, midnight)
    now = datetime.datetime.now(datetime.UTC)
    past = [one for one in audits if one.ended is not None and one.ended <= now + AHEAD]
    every, ends = (
        sorted((one.ended for one in past if one.ended and one.place != left_out), reverse=True)
        for left_out in ("", at_work)
    )
    if keep.days is not None and ends and now - ends[0] > (believed := _longest_pause(ends)):
        raise ConfigError(
            f"retraining.keep counts days, and the clock ({now:%Y-%m-%d}) is more than "
            f"{believed.days} days past the end of the last audit ({ends[0]:%Y-%m-%d}); nothing is "
            f"deleted: if the clock is right, run scotoma tidy --as-of {now:%Y-%m-%d}"
        )
    return sorted_out(audits, keep, now, _longest_pause(every))


def delete_unkept(
    audits: Sequence[StoredAudit], keep: Keep, uri: str | None
) -> tuple[list[StoredAudit], list[str]]:
    """Delete the large files of the audits that need not keep them.

    Args:
        audits: As `plan_deletion` leaves them.
        keep: How many are kept, how long.
        uri: MLflow tracking URI, where their pages go too; None or empty for none.

    Returns:
        The audits that gave something up, and what could not be done, as sentences.

    Raises:
        DataError: The storage refuses.
    """
    gone, notes = [], []
    for audit in audits:
        if audit.kept or not audit.large:
            continue
        if why := give_up(audit, f"retraining.keep: {_words(keep)}"):
            notes.append(why)
            continue
        gone.append(audit)
        if uri and (why := _in_mlflow(audit, uri)):
            notes.append(why)
    return gone, notes


def tidied(
    path: Path, root: str, as_of: datetime.date | None, *, dry_run: bool
) -> tuple[list[StoredAudit], list[str]]:
    """Delete what a configuration does not keep, or list all audits and say what would be.

    Args:
        path: The configuration.
        root: The folder that holds the project's runs, or `s3://BUCKET/PREFIX`.
        as_of: See `plan_deletion`.
        dry_run: Delete nothing.

    Returns:
        See `delete_unkept`.

    Raises:
        ScotomaError: The configuration keeps all, or see `plan_deletion`, `delete_unkept`.
    """
    from scotoma.tracking.store import tracking_uri

    config = load_config(path)
    if config.retraining is None:
        raise ConfigError(f"{path} has no retraining.keep; write how many audits, or days, to keep")
    keep = config.retraining.keep
    audits = plan_deletion(config.project, root, keep, as_of=as_of)
    if dry_run:
        return audits, []
    uri = tracking_uri(Run.of(storage.join(root, "another"), config))
    return delete_unkept(audits, keep, uri)


def audits_table(audits: Sequence[StoredAudit], *, dry_run: bool) -> Table:
    """Lay audits out, with what they keep and why."""
    columns = [
        Column("run", "run"), Column("ended", "ended"), Column("verdict", "verdict"),
        Column("size", "large files", "bytes"), Column("todo", ""),
    ]  # fmt: skip
    todo = "to be deleted" if dry_run else "deleted"
    rows: list[dict[str, Cell]] = [
        {
            "run": one.place.rpartition("/")[2],
            "ended": "" if one.ended is None else f"{one.ended:%Y-%m-%d %H:%M}",
            "verdict": one.verdict,
            "size": one.size,
            "todo": f"kept: {one.kept}" if one.kept else todo if one.large else "deleted before",
        }
        for one in audits
    ]
    return Table("audits", "", columns, rows, stub=3)


def give_up(audit: StoredAudit, why: str) -> str:
    """Delete the large files of an audit, and leave a record of what they were.

    Args:
        audit: One that keeps them for no reason.
        why: The rule by which they go, for the record.

    Returns:
        Why nothing was deleted, as a sentence; empty if it was.

    Raises:
        DataError: The storage refuses.
    """
    folder = Mirror.of(audit.place)
    record = {"version": 1, "why": why, "files": len(audit.large), "bytes": audit.size}
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        with contextlib.nullcontext() if folder.uri else locked(folder.root):
            write_json(folder.root / RECORD, record | {"at": at})
            folder.publish([folder.root / RECORD])
            for name in audit.large:
                storage.remove(storage.join(audit.place, name))
                (folder.root / name).unlink(missing_ok=True)  # of a copy of object storage
            checksums.seal(folder)
    except ConfigError as error:  # it is at work again
        return f"{audit.place} is left alone: {error}"
    return ""


def _in_mlflow(audit: StoredAudit, uri: str) -> str:
    from scotoma.tracking.audits import forget_pages

    folder = Mirror.of(audit.place)
    tracked = folder.root / "tracking.json"
    folder.fetch([tracked])
    note = read_record(folder.root / RECORD)
    reason = f"{note['at']}: {note['files']} files, {note['bytes']} bytes deleted ({note['why']})"
    return forget_pages(read_record(tracked).get("runs", {}).values(), reason, uri)


def _words(keep: Keep) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in keep if value is not None) or "all"


def _folders(root: str) -> list[tuple[str, dict[str, int]]]:
    """Every run right below a place: where it is, and its files with their sizes."""
    if not storage.is_remote(root):
        runs = sorted(path.parent for path in Path(root).glob("*/config.yaml"))
        return [(str(run), storage.list_files(str(run))) for run in runs]
    sizes_by_run: dict[str, dict[str, int]] = {}
    for name, size in storage.list_files(root).items():
        run, _, below = name.partition("/")
        sizes_by_run.setdefault(run, {})[below] = size
    return [(storage.join(root, run), files) for run, files in sizes_by_run.items()
            if "config.yaml" in files]  # fmt: skip


def _audited(run: Run, place: str, sizes: dict[str, int], *, ended: bool) -> StoredAudit:
    large = tuple(name for name in sizes if _is_large(name))
    size = sum(sizes[name] for name in large)
    measurements, verdict = run.path("measurements.json"), run.path("gate.json")
    if not ended and checksums.CHECKSUMS not in sizes:
        return StoredAudit(place, None, "", large, size)
    run.fetch(measurements, verdict)
    gate = None
    with contextlib.suppress(DataError):  # none that this version reads
        gate = read_gate(verdict)
    at = datetime.datetime.now(datetime.UTC) if ended else _ended(measurements, gate)
    return StoredAudit(place, at, "" if gate is None else gate.verdict, large, size)


def _is_large(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, one) for one in LARGE) and PurePath(name).name != SPARED


def _ended(measurements: Path, gate: GateFile | None) -> datetime.datetime | None:
    """When an audit ended; of one that did not write it down, the day it was judged as of."""
    text = read_record(measurements).get("ended")
    if text is None:
        if gate is None:
            return None
        return datetime.datetime.combine(gate.as_of, datetime.time(), datetime.UTC)
    try:
        return datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return None
