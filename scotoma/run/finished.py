"""Which finished run is read, and are its files those that its audit wrote?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scotoma.errors import ConfigError, DataError
from scotoma.printable import ONE_OF_THEM, nearest, quoted
from scotoma.run import checksums
from scotoma.run.folder import Run, refuse_links
from scotoma.run.mirror import Mirror

if TYPE_CHECKING:
    from scotoma.config import Variant


def open_run(place: str, *, scores: bool = False) -> Run:
    """Open a run that an audit made.

    Args:
        place: Its folder, or `s3://BUCKET/PREFIX`.
        scores: Whether it may be an audit of scores, which has no classes.

    Raises:
        ConfigError: The folder holds no run, or one of scores.
        DataError: The object storage holds none, or it was changed since its audit ended.
    """
    if "://" not in place and not Path(place, "config.yaml").is_file():
        raise ConfigError(
            f"run {place} holds no config.yaml; name a folder that scotoma audit made"
        )
    run = Run.open(place)
    if run.config.source.score is not None and not scores:
        raise ConfigError(
            f"run {place} is an audit of scores, and this command reads classes; see report.html, "
            "audit.json and divergence.parquet there"
        )
    checksums.refuse_changed(run.mirror, ["config.yaml"])
    return run


def run_folder(place: str) -> Mirror:
    """Open the folder of a run as it lies there, or its place in object storage.

    Raises:
        ConfigError: It is no folder, or holds a link.
    """
    folder = Mirror.of(place)
    if folder.uri:
        folder.root.mkdir(parents=True, exist_ok=True)
    elif not folder.root.is_dir():
        raise ConfigError(f"run {place} is not a folder; name one that scotoma audit made")
    refuse_links(folder.root)
    return folder


def require_files(run: Run, *paths: Path) -> None:
    """Bring files of a run here and hold them against their checksums.

    Raises:
        DataError: One is not there, or was changed since the audit ended.
    """
    run.fetch(*paths)
    for path in paths:
        if not path.exists():
            raise DataError(f"{run.mirror.place(path)} is not there; finish its audit first")
    checksums.refuse_changed(run.mirror, [path.relative_to(run.root).as_posix() for path in paths])


def compressed_variant(run: Run, name: str | None) -> Variant:
    """Find the compressed variant that `--variant` names; None is the first.

    Raises:
        ConfigError: The run has no such variant.
    """
    names = [one.name for one in run.config.resolved_variants[1:]]
    if name is not None and name not in names:
        raise ConfigError(
            f"--variant must be one of {', '.join(names)}, got {quoted(name)}"
            f"{nearest(name, names, ONE_OF_THEM)}"
        )
    return run.config.variant(name or names[0])
