"""How many slices does the same search report where there are none?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True)
class Null:
    """The number of slices that the same search reports on shuffled outcomes.

    Attributes:
        counts: Slices that each search of shuffled outcomes reports.
    """

    counts: tuple[int, ...]

    @classmethod
    def of(
        cls, count: Callable[[int], int], permutations: int, progress: ProgressCallback | None
    ) -> Null:
        """Repeat a search on shuffled outcomes.

        Args:
            count: Counts the slices of one search, by the number of its permutation.
            permutations: Number of permutations.
            progress: Called after each search with how many are done and how many there are: the
                search itself, which is done, and one a permutation.
        """
        counts: list[int] = []
        for number in range(permutations + 1):
            if number:
                counts.append(count(number - 1))
            if progress is not None:
                progress(number + 1, permutations + 1)
        return cls(tuple(counts))

    @property
    def permutations(self) -> int:
        """Number of permutations."""
        return len(self.counts)

    @property
    def any(self) -> int:
        """Permutations whose search reports a slice."""
        return sum(count > 0 for count in self.counts)

    @property
    def mean(self) -> float:
        """Mean number of slices; nan without permutations."""
        return float(np.mean(self.counts)) if self.counts else float("nan")

    def sentence(self) -> str:
        """Say what the searches report.

        >>> Null((0, 3, 0, 1)).sentence()
        'on shuffled outcomes the same search found 1 slice on average, at least one in 2 of 4'
        """
        if not self.counts:
            return "no outcomes were shuffled, so what chance alone finds is unknown"
        if self.any == 0:
            searches = f"{self.permutations} search{'es' * (self.permutations != 1)}"
            return f"on shuffled outcomes the same search found nothing ({searches})"
        unit = "slice" if f"{self.mean:.3g}" == "1" else "slices"
        return (
            f"on shuffled outcomes the same search found {self.mean:,.3g} {unit} on average, at "
            f"least one in {self.any} of {self.permutations}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, safe in JSON."""
        mean = self.mean if self.counts else None
        return {
            "permutations": self.permutations,
            "counts": list(self.counts),
            "any": self.any,
            "mean": mean,
            "sentence": self.sentence(),
        }
