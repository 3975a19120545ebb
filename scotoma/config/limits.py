"""What a file from outside may take of what reads it, and which of its cells are empty."""

from __future__ import annotations

from pydantic import Field

from scotoma.answers.values import MISSING_TEXTS
from scotoma.config.shared import Frozen

GIB = 2**30
MORE_S = 60.0  # for each GB on the disk


class ReaderLimits(Frozen):
    """Memory and time for reading one file, or for one batch of a model."""

    reader_memory_gib: float = Field(
        1.0, gt=0, le=4096, description="GiB, and 1 GiB more for each GB that the file has on disk."
    )
    reader_seconds: float = Field(
        10.0, gt=0, le=86400, description="Seconds, and 60 s more for each GB on disk."
    )

    missing: list[str] = Field(
        list(MISSING_TEXTS),
        description="Whole cells that stand for a missing value; one in lower case matches any "
        "case.",
    )

    def memory_bytes(self, on_disk: int) -> int:
        """Memory for a file that takes so many bytes on the disk.

        >>> ReaderLimits().memory_bytes(2_000_000_000) / 2**30
        3.0
        """
        return round((self.reader_memory_gib + on_disk / 1e9) * GIB)

    def seconds(self, on_disk: int) -> float:
        """Time for it, in seconds.

        >>> ReaderLimits().seconds(2_000_000_000)
        130.0
        """
        return self.reader_seconds + MORE_S * on_disk / 1e9


LIMITS = ReaderLimits()
