"""The verify command: whether every file of a run is what its audit left."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from scotoma import storage
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.run.checksums import verify
from scotoma.run.mirror import Mirror, local_folder

__all__ = ["run_verify"]


def run_verify(place: str, *, as_json: bool, quiet: bool) -> None:
    """Compare every file of a finished run with its checksum, and name those that differ.

    Args:
        place: Folder of a finished audit, or its `s3://BUCKET/PREFIX`.
        as_json: Print JSON.
        quiet: No messages.

    Raises:
        ConfigError: The place is no folder.
        DataError: A file is damaged, missing or not the audit's; or the audit has not ended.
    """
    remote = storage.is_remote(place)
    if not (remote or Path(place).is_dir()):
        raise ConfigError(f"run {place} is not a folder; name one that scotoma audit made")
    found = verify(Mirror(local_folder(place), place if remote else ""))
    named = {"damaged": found.damaged, "missing": found.missing, "extra": found.extra}
    if as_json:
        sys.stdout.write(json.dumps({"version": 1, "run": place, **asdict(found)}, indent=1) + "\n")
    else:
        for word, names in named.items():
            sys.stdout.writelines(f"{word:<8} {printable(name)}\n" for name in names)
    if not found.whole:
        counts = ", ".join(f"{len(names)} {word}" for word, names in named.items() if names)
        raise DataError(
            f"run {place} must be what its audit left, got {counts} of its files; remove what is "
            "extra, and repeat the audit, which makes the others again"
        )
    if not quiet:
        sys.stderr.write(f"{found.files:,} files are what the audit left\n")
