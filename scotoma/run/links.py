"""Does a run's folder hold anything that is neither a file nor a folder?"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from scotoma.errors import ConfigError
from scotoma.printable import printable

__all__ = ["refuse_links"]

KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def refuse_links(root: Path) -> None:
    """Refuse a run that would be read or written elsewhere than in its folder.

    Args:
        root: The folder of the run, which may itself be a link.

    Raises:
        ConfigError: A link, FIFO, socket or device lies in it, at any depth.
    """
    waiting = [root]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # absent or not readable: said by what needs it
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                mode = entry.stat(follow_symlinks=False).st_mode
                kind = next((name for is_kind, name in KINDS if is_kind(mode)), "no file")
                shown = printable(os.path.relpath(entry.path, root))
                raise ConfigError(
                    f"run {printable(str(root))} must hold files and folders only, and {shown!r} "
                    f"is {kind}; remove it"
                )
