"""Which run does a command on finished audits read?"""

from __future__ import annotations

from pathlib import Path

from scotoma.errors import ConfigError
from scotoma.run import Run, checksums

__all__ = ["open_run"]


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
