"""Which code made a file?"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

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
