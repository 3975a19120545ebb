"""Which images that a table of examples names may a page show?"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path

from scotoma import storage

__all__ = ["named_images", "picture_files"]

PICTURE_BYTES = 4_000_000  # of an image of the gallery; a larger one is left out


def named_images(folder: str, names: Mapping[str, str | None]) -> dict[str, bytes]:
    """Images that the table of examples names, from the folder that it lies in.

    Args:
        folder: Where the table is.
        names: Example id to the name of its image, relative to the table's folder.

    Returns:
        Content by example id; without those that are absent, too large for a page, or named by a
        path that leads out of the folder.
    """
    files = picture_files(folder, names.values())
    plain = {example_id: posixpath.normpath(name or "..") for example_id, name in names.items()}
    kept = {name for name in files.names if storage.exists(files.place(name))}
    return {
        example_id: storage.read_bytes(files.place(name))
        for example_id, name in plain.items()
        if name in kept
    }


def picture_files(folder: str, names: Iterable[str | None]) -> storage.StampedFiles:
    """List the images of these names that a page may show; see `named_images`."""
    shown: dict[str, None] = {}
    for name in names:
        plain = posixpath.normpath(name or "..")
        if plain.startswith(("..", "/")) or "\0" in plain:
            continue
        place = storage.join(folder, plain)
        if not storage.is_remote(place):
            path = Path(place).resolve()
            inside = path.is_relative_to(Path(folder).resolve()) and path.is_file()
            if not inside or path.stat().st_size > PICTURE_BYTES:
                continue
        shown[plain] = None
    return storage.StampedFiles(folder, tuple(shown))
