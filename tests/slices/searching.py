"""A search of arrays whose data and settings are told apart by name, and its parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scotoma.slices import Encoded, SearchSettings, SliceReport
from scotoma.slices import find_slices as search
from scotoma.slices.judging.choose import evidence_of
from scotoma.slices.judging.evidence import JudgedCells
from scotoma.slices.judging.tally import Cells
from scotoma.slices.outcomes import prepare_outcome
from scotoma.slices.search.sweep import Budget, Hits, sweep

DATA = ("baseline", "labels", "ids", "clusters", "progress")


def find_slices(features: Any, outcome: Any, **options: Any) -> SliceReport:
    """Search as `scotoma.slices.find_slices`, its settings by their names."""
    data = {name: options.pop(name) for name in DATA if name in options}
    return search(features, outcome, SearchSettings(**options), **data)


class Prepared(NamedTuple):
    """An outcome with its test, and the smallest slice."""

    evidence: Any
    least: int

    def judge(self, keys: Any, cells: int, keep: float = 1.0) -> JudgedCells:
        """Test cells given by the key of each row."""
        return self.evidence.judge(Cells(np.asarray(keys), cells), self.least, keep)

    def sweep(self, encoded: Encoded, keep: float, budget: Budget) -> Hits:
        """Test all slices of up to three conditions."""
        return sweep(encoded, self.evidence, 3, self.least, keep, budget)


def prepared(outcome: Any, ids: Any = None, clusters: Any = None, **options: Any) -> Prepared:
    """Prepare the test that a search of these data and settings would have."""
    data = {name: options.pop(name, None) for name in ("baseline", "labels")}
    asked = SearchSettings(**options)
    rows = len(outcome)
    known = prepare_outcome(
        asked.measured, np.asarray(outcome), data["baseline"], data["labels"], rows,
        paired=asked.paired,
    )  # fmt: skip
    names = np.arange(rows) if ids is None else np.asarray(ids)
    names = names if clusters is None else clusters
    return Prepared(
        evidence_of(replace(known, clusters=clusters), names[known.rows], asked), asked.min_size
    )
