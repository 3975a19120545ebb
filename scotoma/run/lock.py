"""One audit at a time in a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scotoma.errors import ConfigError

LOCK = ".lock"  # name of the file; it stays, because removing it would race with who waits for it
WINDING_UP_S = 15.0  # how long children of a killed audit may still be ending


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Keep a folder to this process and to those that inherit the descriptor.

    Yields:
        The descriptor. The folder is free when the block ends; if this process is killed in it,
        when the last process that inherited the descriptor has ended.

    Raises:
        ConfigError: Another audit is at work there, or a lock of no audit.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder)):
    ...     Path(folder, LOCK).read_text() == f"{os.getpid()}"
    True
    """
    descriptor = _opened(folder)
    try:
        end = time.monotonic() + WINDING_UP_S
        while not try_lock(descriptor):
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace")
            if _alive(holder) or time.monotonic() > end:
                raise ConfigError(
                    f"output folder {folder} is in use by another audit (process {holder}); wait "
                    "for it, end it, or choose another --out"
                )
            time.sleep(0.2)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}".encode(), 0)
        yield descriptor
    finally:
        with contextlib.suppress(OSError):  # of a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing frees nothing that is inherited
        os.close(descriptor)


def _opened(folder: Path) -> int:
    """Open the lock, never through a link, nor a file of other content under another name."""
    descriptor = -1
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(folder / LOCK, flags, 0o666)
        if re.fullmatch(rb"\d*", os.pread(descriptor, 64, 0)):
            return descriptor
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ESPIPE, errno.ENXIO):
            raise
    if descriptor >= 0:
        os.close(descriptor)
    raise ConfigError(f"{folder / LOCK} must be the lock of an audit, and is not; remove it")


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder; False if another process holds it.

    On a file system without locks it always succeeds: better unguarded than unusable.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # EBADF: NFS locks only what is open for writing, which a folder cannot be.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise
    return True


def _alive(holder: str) -> bool:
    """Whether a process of this machine has that number; yes, if it cannot be told."""
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, PermissionError):
        return True
    return True
