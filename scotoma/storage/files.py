"""Which files may be read, how do they get to their place whole, and how are they told apart?"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, BinaryIO

from scotoma.errors import DataError
from scotoma.printable import printable

SPECIAL = {  # files whose bytes are not on the disk
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
        kind = SPECIAL.get(stat.S_IFMT(mode), "none")
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


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; text as UTF-8."""
    with written(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())


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


@contextmanager
def permitted(
    place: str, verb: str = "read", way_out: str = "check its permissions"
) -> Iterator[None]:
    """What the system refuses in this block, as one sentence."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{place} cannot be {verb}: {error.strerror}; {way_out}") from error


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: Any, *, indent: int | None = 1) -> None:
    """Write JSON with sorted keys, whole or not at all; nan and infinity are refused.

    Args:
        path: The file.
        value: What JSON can hold.
        indent: Spaces a level; None for one line, which takes a tenth of the time.
    """
    text = json.dumps(value, indent=indent, sort_keys=True, allow_nan=False, ensure_ascii=False)
    with written(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_record(path: Path) -> dict[str, Any]:
    """Read an object that says what was finished.

    Returns:
        An empty one where there is none, or none that can be read: what it would name is then not
        known to be finished, and is made again.
    """
    try:
        content = read_json(path)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


KINDS = (".py", ".html", ".css", ".js", ".json", ".md")  # as the wheel has them
NOT_INSTALLED = ("package.json", "package-lock.json")  # only build the page's JavaScript
# They stand beside the package in a checkout, and in it where it is installed.
ELSEWHERE = ("components", "pipelines")


@cache
def code_digest(part: str = "") -> str:
    """SHA-256 of the source of this package, or of a part: what it made is redone if it changes.

    It is the same for the same code in a checkout, an editable install, a wheel and an image.
    """
    root = Path(__file__).parents[1]
    homes = {part: root / part}
    if not part:
        homes |= {name: root.parent / name for name in ELSEWHERE if not (root / name).is_dir()}
    files = {
        Path(name, path.relative_to(home)).as_posix(): path
        for name, home in homes.items()
        for path in home.rglob("*")
        if path.suffix in KINDS and path.name not in NOT_INSTALLED
    }
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
