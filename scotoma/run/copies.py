"""Where on this machine are files of object storage, for readers that need paths?"""

from __future__ import annotations

from pathlib import Path

from scotoma import storage
from scotoma.run.mirror import ETAGS, Mirror, cache_folder
from scotoma.storage.files import PARTIAL


def place_here(place: str) -> Path:
    """Bring a file, or a folder with all that it holds, here.

    Args:
        place: A path, which stands for itself, or an `s3://` URI, whose copy bears its name.

    Raises:
        DataError: The storage cannot be read, or holds nothing there.
    """
    if not storage.is_remote(place):
        return Path(place)
    if names := storage.list_files(place):
        return folder_here(storage.StampedFiles(place, tuple(names)))
    copy = _folder_of_copy(place)
    storage.download(place, copy)
    return copy


def _folder_of_copy(place: str) -> Path:
    return cache_folder(place, "sources") / place.rstrip("/").rpartition("/")[2]


def folder_here(files: storage.StampedFiles) -> Path:
    """Bring files of one place here, unless they are here already.

    Args:
        files: Below a folder, which stands for itself, or below an `s3://` prefix, whose copy lies
            in the cache.

    Returns:
        The folder in which they lie by their names. A copy holds no file that the storage lacks.

    Raises:
        DataError: The storage cannot be read.
    """
    if not storage.is_remote(files.root):
        return Path(files.root)
    copy = Mirror(_folder_of_copy(files.root), files.root)
    with copy.listed():
        kept = {copy.root / name for name in (*copy.names(), ETAGS)}
        for path in {*copy.root.rglob("*")} - kept:
            if path.is_file() and path.suffix != PARTIAL:  # which another process may be writing
                path.unlink(missing_ok=True)
        copy.fetch(copy.root / name for name in files.names)
    return copy.root
