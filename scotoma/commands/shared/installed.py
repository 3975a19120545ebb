"""Does this installation hold what an audit needs?"""

from __future__ import annotations

from scotoma import storage
from scotoma.config import Config
from scotoma.errors import MissingExtra
from scotoma.extras import home_of

__all__ = ["require_extras"]


def require_extras(config: Config, place: str) -> None:
    """Refuse an audit that this installation cannot run, before anything is written.

    Args:
        config: What is to be audited.
        place: Folder or `s3://BUCKET/PREFIX` of the run; a finished one needs no training.

    Raises:
        MissingExtra: A part is not installed; the message says which extra brings it.
    """
    if storage.is_remote(place):
        home_of("boto3", "s3", "an s3:// address")
    try:
        if config.source.trains:
            home_of("torch", "train", "training")
    except MissingExtra:
        if not storage.exists(storage.join(place, "audit.json")):
            raise
