"""Which examples did both models answer, and were they asked the same questions?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

__all__ = ["Pairing"]


@dataclass(frozen=True)
class Pairing:
    """The examples that two logs have in common.

    Attributes:
        baseline: Rows of the first log, sorted by `pair` and `rerun`, with the columns of its
            `examples` and `pair`, Int64: the number of the example, from 0.
        compressed: Rows of the second log, likewise; the same `pair` is the same example.
        examples: Number of common examples.
        key: By what they were paired.
        only_baseline: Ids of the examples that only the first log has.
        only_compressed: Ids of those that only the second one has.
        differences: A sentence for each difference in prompts or settings that was allowed; empty
            where both models were asked the same questions.
    """

    baseline: pl.DataFrame
    compressed: pl.DataFrame
    examples: int
    key: Literal["content_hash", "example_id"]
    only_baseline: tuple[str, ...]
    only_compressed: tuple[str, ...]
    differences: tuple[str, ...]
