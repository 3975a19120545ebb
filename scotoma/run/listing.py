"""Which objects does a run hold? One listing tells, and what is known of them by their ETags."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from scotoma import storage

__all__ = ["ETAGS", "Listing", "remember_etag"]

ETAGS = ".etags"  # of the local copy: a line for each object that was sent, fetched or asked about


class Listing:
    """The objects of a run at one moment.

    Attributes:
        etags: Name below the run to its ETag; empty where this process has just sent it in parts.
    """

    def __init__(self, root: Path, uri: str) -> None:
        """List a run.

        Args:
            root: The local copy, which remembers ETags.
            uri: `s3://BUCKET/PREFIX`.

        Raises:
            DataError: The storage cannot be listed.
        """
        self.etags = storage.list_etags(uri)
        self._sha256 = _remembered(root)

    def sha256(self, name: str) -> str | None:
        """SHA-256 of an object; None where its ETag is not known."""
        return self._sha256.get((name, self.etags.get(name, "")))

    def add(self, name: str, etag: str, sha256: str) -> None:
        """Note what this process has sent, or asked about."""
        self.etags[name] = etag
        self._sha256[name, etag] = sha256


def remember_etag(root: Path, name: str, etag: str, sha256: str) -> None:
    """Keep the SHA-256 that goes with an ETag, for the next process.

    Args:
        root: The local copy; without one there is nothing to remember.
        name: Of the object, below the run.
        etag: What changes when its content does; nothing is kept where it is empty.
        sha256: Of its content, hexadecimal.
    """
    if etag and root.is_dir():
        with (root / ETAGS).open("a", encoding="utf-8") as file:  # processes append side by side
            file.write(json.dumps([name, etag, sha256]) + "\n")


def _remembered(root: Path) -> dict[tuple[str, str], str]:
    """SHA-256 of each name and ETag; a line that a kill has cut is passed over."""
    known = {}
    path = root / ETAGS
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    for line in lines:
        with contextlib.suppress(ValueError):
            name, etag, sha256 = json.loads(line)
            known[name, etag] = sha256
    return known
