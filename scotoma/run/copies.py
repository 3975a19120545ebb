"""Where on this machine are files of object storage, for readers that need paths?"""

from __future__ import annotations

from pathlib import Path

from scotoma import storage
from scotoma.run.listing import ETAGS
from scotoma.run.mirror import Mirror, cache_folder
from scotoma.storage.files import PARTIAL

__all__ = ["folder_here"]


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
    copy = Mirror(cache_folder(files.root, "sources"), files.root)
    with copy.listed():
        kept = {copy.root / name for name in (*copy.names(), ETAGS)}
        for path in {*copy.root.rglob("*")} - kept:
            if path.is_file() and path.suffix != PARTIAL:  # which another process may be writing
                path.unlink(missing_ok=True)
        copy.fetch(copy.root / name for name in files.names)
    return copy.root
