"""How files get to their place whole, and how they are told apart."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from scotoma.storage.regular import open_regular

PARTIAL = ".partial"


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it when the block ends well, removed when not.

    The content is on the disk before it has its name: a power failure leaves the old file or the
    new, never an empty one. Its mode is what the umask leaves, whoever writes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with new_file(temporary) as file:
            mode = os.fstat(file.fileno()).st_mode
        temporary.unlink()  # so that a writer that writes nothing is noticed
        yield temporary
        if temporary.stat().st_mode != mode:  # safetensors puts a file for its owner alone there
            temporary.chmod(mode)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def new_file(path: Path) -> BinaryIO:
    """Open a new file for writing. What had its name, a link too, is removed, not written to.

    Args:
        path: Its folder is there.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def content_digest(content: Any) -> str:
    """SHA-256 of what JSON can hold, hexadecimal; keys count in any order."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def remove_partial(folder: Path) -> None:
    """Remove what writers that were killed have left below a folder in which nobody writes now."""
    for path in folder.rglob(f".*{PARTIAL}*"):
        path.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
