"""What has a finished audit left? Each file is checked, and read once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.audit import Audit, GateResult, read_audit, read_gate
from scotoma.audit.document import DENSE
from scotoma.datasets import AuditedExamples
from scotoma.predictions.matrix import Predictions
from scotoma.run import Run
from scotoma.run.finished import require_files


class FinishedAudit:
    """The files of a finished audit, each read when it is first asked for."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._predictions: dict[str, Predictions] = {}
        self._top5_right: dict[str, NDArray[np.bool_] | None] = {}

    @cached_property
    def audit(self) -> Audit:
        """audit.json.

        Raises:
            DataError: The audit has not ended, or the file was changed.
        """
        path = self.file(self.run.path("audit.json"))
        return read_audit(path, self.run.mirror.place(path))

    @cached_property
    def gate(self) -> GateResult | None:
        """gate.json; None where nobody judged the audit."""
        path = self.run.path("gate.json")
        self.run.fetch(path)
        return read_gate(self.file(path), self.run.mirror.place(path)) if path.exists() else None

    @cached_property
    def test(self) -> AuditedExamples:
        """The test examples, without images."""
        return AuditedExamples.read(self.file(self.run.examples), images=False, split="test")

    @cached_property
    def training(self) -> AuditedExamples:
        """The training examples, without images; a table of no rows where there are none."""
        return AuditedExamples.read(self.file(self.run.examples), images=False, split="train")

    @cached_property
    def scores(self) -> pl.DataFrame:
        """divergence.parquet: a row for each test example under each compressed variant."""
        return pl.read_parquet(self.file(self.run.path("divergence.parquet")), glob=False)

    @property
    def compressed(self) -> tuple[str, ...]:
        """Names of the variants that are compared with dense."""
        return tuple(variant.name for variant in self.audit.compressed)

    def predictions(self, variant: str = DENSE) -> Predictions:
        """Class ids of every member of a variant, examples in the order of `test`."""
        if variant not in self._predictions:
            path = self.file(self.run.predictions(variant))
            self._predictions[variant] = Predictions.read(path)
        return self._predictions[variant]

    def top5_right(self, variant: str) -> NDArray[np.bool_] | None:
        """Whether the label is among the five best classes, shape (N, K); None if not kept."""
        if variant not in self._top5_right:
            path = self.file(self.run.predictions(variant))
            self._top5_right[variant] = _within_five(path, self.test.labels)
        return self._top5_right[variant]

    def file(self, path: Path) -> Path:
        """Bring a file here and hold it against its checksum.

        Raises:
            DataError: It is not there, or was changed since the audit ended.
        """
        require_files(self.run, path)
        return path


def _within_five(path: Path, labels: NDArray[np.intp]) -> NDArray[np.bool_] | None:
    right, at = [], 0
    for part in Predictions.parts(path, top5=True):
        if part.top5 is None:
            return None
        own = labels[at : at + len(part.top5), None, None]
        right.append((part.top5 == own).any(axis=2))
        at += len(own)
    return np.concatenate(right)
