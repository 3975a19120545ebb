"""Which code made a file?"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["code_digest"]


@cache
def code_digest(part: str = "") -> str:
    """SHA-256 of the source of this package, or of a part: what it made is redone if it changes."""
    root = Path(__file__).parents[1] / part
    digest = hashlib.sha256()
    kinds = (".py", ".html", ".css", ".js")
    for path in sorted(path for path in root.rglob("*") if path.suffix in kinds):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
