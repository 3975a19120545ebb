"""Is a run what its audit left? The SHA-256 of every file, written last and compared on demand.

It tells damage, not tampering: who can change a file can change its checksum as well.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scotoma import storage
from scotoma.errors import DataError
from scotoma.run.lock import LOCK
from scotoma.run.mirror import Mirror
from scotoma.storage.files import content_digest, file_digest, permitted, write_json

CHECKSUMS = "checksums.json"
# The lock belongs to no run; a log is written on by whatever comes next, this very command too.
UNLISTED = (CHECKSUMS, LOCK, "error.json", "reviews.parquet")
# Logs, and what people add to a finished run: studies, and measures with corrected labels.
ADDED = ("logs/", "studies/", "reviewed/")


@dataclass(frozen=True)
class Verified:
    """What the files of a run are, beside what they were when its audit ended.

    Attributes:
        files: Number of files that are as they were.
        damaged: Names of those that differ.
        missing: Names of those that are gone.
        extra: Names of those that no audit left.
    """

    files: int
    damaged: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def intact(self) -> bool:
        """Whether no file differs."""
        return not (self.damaged or self.missing or self.extra)


def seal(run: Mirror) -> None:
    """Write down every file of a finished run.

    What a step has left is taken from the step's record, so that a file that was damaged since is
    not written down as it is now.

    Raises:
        DataError: The object storage cannot be read or written.
    """
    with run.listed():
        names = _names(run)
        recorded = _recorded_by_steps(run, names)
        rest = [name for name in names if name not in recorded]
        known = {name: recorded[name] for name in names if name in recorded}
        _write(run, _as_they_are(run, rest) | known)


def sealed(run: Mirror) -> bool:
    """Whether the audit has ended: its checksums are there and whole.

    Raises:
        DataError: The object storage cannot be read.
    """
    return bool(_read(run))


def amend(run: Mirror, names: Iterable[str]) -> None:
    """Write down files anew that a command on a finished run has written.

    Raises:
        DataError: The object storage cannot be read or written.
    """
    if recorded := _read(run):
        _write(run, recorded | _as_they_are(run, names))


def unseal(run: Mirror) -> None:
    """Take the checksums away: an audit begins, and what it leaves is known when it ends.

    Raises:
        DataError: The object storage cannot be written.
    """
    run.remove(run.root / CHECKSUMS)


def refuse_changed(run: Mirror, names: Iterable[str]) -> None:
    """Refuse files of a finished run that are not what its audit left.

    Args:
        run: Its folder; of a run that has not ended nothing is known, and nothing refused.
        names: Of the files that are about to be read, which are here.

    Raises:
        DataError: One differs, or the checksums are damaged.
    """
    if (recorded := _read(run)) is None:
        return
    if not recorded:
        raise DataError(
            f"{run.place(run.root / CHECKSUMS)} is damaged, so nothing says whether the other "
            "files are; repeat the audit to write it again"
        )
    for name in names:
        path = run.root / name
        if name in recorded and path.is_file() and file_digest(path) != recorded[name]:
            raise DataError(
                f"{run.place(path)} was changed after its audit wrote it; repeat the audit to "
                "write it again"
            )


def compare_checksums(run: Mirror) -> Verified:
    """Compare every file of a finished run with what it was when the audit ended.

    Args:
        run: Its folder; what lies in object storage is read from there, one file at a time.

    Raises:
        DataError: The audit has not ended, or a file cannot be read.
    """
    if (recorded := _read(run)) is None:
        raise DataError(
            f"{run.place(run.root / CHECKSUMS)} is missing, so the audit has not ended; repeat "
            "the audit to resume it"
        )
    if not recorded:
        return Verified(0, (CHECKSUMS,), (), ())
    names = _names(run)
    damaged = [name for name in names if name in recorded and not _is(run, name, recorded[name])]
    return Verified(
        files=len(set(names) & recorded.keys()) - len(damaged),
        damaged=tuple(damaged),
        missing=tuple(sorted(recorded.keys() - set(names))),
        extra=tuple(name for name in names if name not in recorded),
    )


def _is(run: Mirror, name: str, digest: str) -> bool:
    """Whether a file has a checksum, by its content and not by what it is said to be."""
    place = run.place(run.root / name)
    with permitted(place), storage.at_hand(place, listed=True) as path:
        return file_digest(path) == digest


def _names(run: Mirror) -> list[str]:
    return [n for n in run.names() if n not in UNLISTED and not n.startswith(ADDED)]


def _as_they_are(run: Mirror, names: Iterable[str]) -> dict[str, str]:
    paths = {name: run.root / name for name in names}
    digests = run.digests(paths.values())
    return {name: str(digests[path]) for name, path in paths.items()}


def _recorded_by_steps(run: Mirror, names: Iterable[str]) -> dict[str, str]:
    """What the records of the steps say of their files, where they say one thing."""
    records = [run.root / name for name in names if name.startswith("steps/")]
    run.fetch(records)
    digests: dict[str, set[str]] = {}
    for record in records:
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError, AttributeError):
            for name, digest in json.loads(record.read_bytes())["outputs"].items():
                digests.setdefault(name, set()).add(str(digest))
    return {name: digest for name, (digest, *others) in digests.items() if not others}


def _read(run: Mirror) -> dict[str, str] | None:
    """What was written down: None if nothing was, empty if it is damaged itself."""
    path = run.root / CHECKSUMS
    run.fetch([path])
    if not path.is_file():
        return None
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["sha256"] == content_digest(content["files"]):
            return dict(content["files"])
    return {}


def _write(run: Mirror, files: Mapping[str, str]) -> None:
    path = run.root / CHECKSUMS
    content = {"files": files, "sha256": content_digest(files), "version": 1}
    write_json(path, content)
    run.publish([path])
