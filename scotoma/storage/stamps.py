"""Was a file written since it was read? What a folder or a service knows of it without reading."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

from scotoma.storage.places import carried_digest, head, is_remote, join, list_objects

SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system: writes within it look alike
ASKED_SINGLY = 100  # objects; of more, the whole prefix is listed
CONNECTIONS = 16


@dataclass(frozen=True)
class StampedFiles:
    """Files below one place.

    Attributes:
        root: A folder, or `s3://BUCKET/PREFIX`.
        names: Relative to `root`, parts joined by `/`.
    """

    root: str
    names: tuple[str, ...]

    @classmethod
    def one(cls, place: str) -> StampedFiles:
        """Name a single file.

        >>> StampedFiles.one("s3://b/x/1.csv")
        StampedFiles(root='s3://b/x', names=('1.csv',))
        """
        root, _, name = place.rpartition("/")
        return cls(root or ("/" if place.startswith("/") else "."), (name,))

    def place(self, name: str) -> str:
        """Where one of them lies."""
        return join(self.root, name)


@dataclass(frozen=True)
class Stamp:
    """What changes when a file is written.

    Attributes:
        bytes: Its size.
        mark: Of a file of this machine its times and its number, which a copy over it, a rename
            and `touch` change; of an object its ETag.
        digest: What a service says of the content: SHA-256, else `etag:...`; empty of a file.
        settled: Whether another write now would give it another mark.
    """

    bytes: int
    mark: str
    digest: str = ""
    settled: bool = True


def stamps(files: StampedFiles) -> dict[str, Stamp]:
    """Look at files without reading them.

    Returns:
        Name to stamp, in the order of the names; without those that are absent.

    Raises:
        DataError: The storage cannot be asked.
    """
    if not is_remote(files.root):
        now = time.time_ns()
        found = {name: _of_file(Path(files.root, name), now) for name in files.names}
    elif len(files.names) <= ASKED_SINGLY:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            heads = pool.map(head, [files.place(name) for name in files.names])
            found = dict(zip(files.names, map(_of_object, heads), strict=True))
    else:
        listed = list_objects(files.root)
        found = {name: _of_object(listed.get(os.path.normpath(name))) for name in files.names}
    return {name: stamp for name, stamp in found.items() if stamp is not None}


def _of_file(path: Path, now_ns: int) -> Stamp | None:
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    if not S_ISREG(stat.st_mode):  # a pipe would be waited for
        return None
    written_ns = max(stat.st_mtime_ns, stat.st_ctime_ns)
    mark = f"{stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
    return Stamp(stat.st_size, mark, settled=now_ns - written_ns > SETTLED_NS)


def _of_object(answer: Mapping[str, Any] | None) -> Stamp | None:
    """From what a listing or a question about one object says; only the latter has a SHA-256."""
    if answer is None:
        return None
    tag = str(answer.get("ETag", "")).strip('"')
    size = int(answer["ContentLength"] if "ContentLength" in answer else answer["Size"])
    digest = carried_digest(answer) or f"etag:{tag}"
    return Stamp(size, tag, digest)
