"""What did an audit read from outside its folder, and is it still that?

`sources.json` names every file with the SHA-256 of its content, and with what changes when it is
written: as long as that is the same, a file is not read again. No path of a machine is in it, so
that a step on another machine can hold its files against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.run.mirror import Mirror
from scotoma.storage import Stamp, StampedFiles, stamps
from scotoma.storage.files import content_digest, file_digest, permitted, read_record, write_json

SOURCES = "sources.json"


@dataclass(frozen=True)
class Sources:
    """Files that were read, by the key of the configuration's source that names them.

    Attributes:
        files: Key, such as `images`, to name to its stamp, with its digest.
        remarks: Key to what else was seen there, such as images that no row names.
    """

    files: Mapping[str, Mapping[str, Stamp]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)

    def key(self, *keys: str) -> str:
        """SHA-256 of what decides the result of a step that reads these."""
        content = [
            [key, self.remarks.get(key, ""), self._digests(key)]
            for key in keys
            if key in self.files
        ]
        return content_digest(content)

    def digest(self, key: str) -> str:
        """SHA-256 of the names and digests of the files of a key: the same wherever they lie."""
        return content_digest(self._digests(key))

    def changes(self, before: Sources) -> dict[str, list[str]]:
        """Name the files of each key that are other than they were, or in one of both only."""
        changed = {}
        for key in sorted({*self.files, *before.files}):
            now, then = (
                {name: entry.digest for name, entry in one.files.get(key, {}).items()}
                for one in (self, before)
            )
            if names := sorted(n for n in {*now, *then} if now.get(n) != then.get(n)):
                changed[key] = names
        return changed

    def _digests(self, key: str) -> list[tuple[str, str]]:
        return sorted((name, entry.digest) for name, entry in self.files[key].items())


def examine(
    files: Mapping[str, StampedFiles], known: Sources, remarks: Mapping[str, str] | None = None
) -> Sources:
    """Look at files, and read those that were written since they were known.

    Args:
        files: By key; those that are absent are left out.
        known: From an earlier look.
        remarks: By key.

    Raises:
        DataError: A file cannot be read.
    """
    return Sources(
        {key: _examined(own, known.files.get(key, {})) for key, own in files.items()},
        remarks or {},
    )


def confirmed(files: Mapping[str, StampedFiles], sources: Sources) -> Sources:
    """Look at files again, and refuse those that are no longer what the audit took them for.

    Args:
        files: By key; they may be some of those of the first look.
        sources: From the first look; where it knows no file of a key, all are taken as they are.

    Returns:
        What was looked at.

    Raises:
        DataError: A file is absent or has other content.
    """
    seen = examine(files, sources)
    for key, own in files.items():
        if not (known := sources.files.get(key)):
            continue
        for name in own.names:
            now, then = seen.files[key].get(name), known.get(name)
            if now is None or then is None or now.digest != then.digest:
                raise DataError(
                    f"source.{key} ({printable(name)}) changed after the step prepare read it; "
                    "let what writes there end, and repeat the audit"
                )
    return seen


def read_sources(run: Mirror) -> Sources:
    """Read what an earlier look left; nothing where that is absent or damaged."""
    path = run.root / SOURCES
    run.fetch([path])
    try:
        content = read_record(path)
        files = {
            str(key): {str(name): _entry(entry) for name, entry in own.items()}
            for key, own in content["files"].items()
        }
        return Sources(files, {str(k): str(v) for k, v in content["remarks"].items()})
    except (KeyError, TypeError, ValueError, AttributeError):
        return Sources()


def write_sources(run: Mirror, sources: Sources) -> Path:
    """Write down what was looked at, and send it to where the run lies.

    Returns:
        The file.
    """
    path = run.root / SOURCES
    content = {"version": 1, "files": sources.files, "remarks": sources.remarks}
    write_json(path, content, indent=None)  # there may be a million files
    run.publish([path])
    return path


def _entry(entry: Iterable[object]) -> Stamp:
    size, mark, digest = entry
    return Stamp(int(str(size)), str(mark), str(digest))


def _examined(files: StampedFiles, known: Mapping[str, Stamp]) -> dict[str, Stamp]:
    seen = stamps(files)
    return {name: _read(files.place(name), one, known.get(name)) for name, one in seen.items()}


def _read(place: str, stamp: Stamp, known: Stamp | None) -> Stamp:
    """The stamp of a file with its digest, which is read if it may be another than it was."""
    if stamp.digest:
        return stamp
    if known is not None and stamp.mark and known[:2] == stamp[:2]:
        return known
    with permitted(place):
        return stamp._replace(digest=file_digest(Path(place)))
