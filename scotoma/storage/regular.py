"""Which files may be read: regular ones, whose bytes are on the disk."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path

from scotoma.errors import DataError
from scotoma.printable import printable

KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
MOST_HOLES = 2**30  # bytes of a file that may be none on the disk
BUFFER = 2**18  # bytes: lines of logs have thousands
EXTENTS = 10_000  # of a file that are counted


def open_regular(path: str | Path) -> BufferedReader:
    """Open a file for reading, unless reading it might not end.

    Args:
        path: The file, or a link to one.

    Raises:
        DataError: It is a FIFO, device or socket, which is not opened; or more than 1 GiB of it
            are holes, which take memory and no disk.
        OSError: It is a folder, or cannot be opened.
    """
    _refuse(os.stat(path).st_mode, path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        _refuse(facts.st_mode, path)  # it may have been replaced
        if facts.st_size > MOST_HOLES:
            held = _data(descriptor, facts.st_size)
            if facts.st_size - held > MOST_HOLES:
                raise DataError(
                    f"{printable(str(path))} must have its {facts.st_size:,} bytes on the disk, "
                    f"and has {held:,}: the others are holes; write the file again"
                )
        return BufferedReader(FileIO(descriptor), BUFFER)
    except BaseException:
        os.close(descriptor)
        raise


def bytes_on_disk(path: str | Path) -> int:
    """Count the bytes of a file that are not holes.

    Raises:
        DataError: As for `open_regular`.
        OSError: As for `open_regular`.
    """
    with open_regular(path) as file:
        return _data(file.fileno(), os.fstat(file.fileno()).st_size)


def _refuse(mode: int, path: str | Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "none")
        raise DataError(
            f"{printable(str(path))} must be a regular file, and is {kind}; name a file"
        )


def _data(descriptor: int, size: int) -> int:
    """Count the bytes of a file, of `size` bytes, that are not holes."""
    at = held = 0
    for _ in range(EXTENTS):
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError:  # no data behind this place
            break
        held += at - start
        if at >= size:
            break
    os.lseek(descriptor, 0, os.SEEK_SET)
    return held
