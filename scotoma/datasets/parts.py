"""Which steps does a change of the examples concern? A digest of what each of them reads.

A member need not be trained again because a test example was labelled anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from scotoma.datasets.examples import AuditedExamples
from scotoma.run import Run, read_record, write_json

# What training, calibration, prediction and measurement read.
ExamplesPart = Literal[
    "training", "grouped", "calibration", "balanced calibration", "shown", "measured"
]
PICTURE = "image_sha256"


@dataclass
class PartDigests:
    """Digests of parts of the examples, added up while their table passes.

    Attributes:
        examples: What the table belongs to; of its own table nothing is read.
    """

    examples: AuditedExamples
    _seen: list[pl.DataFrame] = field(default_factory=list)

    def passing(self, parts: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield parts of the table as they come, and keep what digests need of them."""
        for part in parts:
            seen = part
            if "image" in part.columns:
                encoded = part["image"].struct.field("bytes").to_list()
                pictures = [None if b is None else hashlib.sha256(b).hexdigest() for b in encoded]
                seen = part.drop("image").with_columns(
                    pl.Series(PICTURE, pictures, dtype=pl.String)
                )
            self._seen.append(seen)
            yield part

    def digests(self) -> dict[ExamplesPart, str]:
        """SHA-256 of each part, once the whole table has passed.

        - `training`: images and labels of the training examples, in their order.
        - `grouped`: attributes of the training examples.
        - `calibration`: images of the training and calibration examples.
        - `balanced calibration`: labels and attributes of these examples.
        - `shown`: ids and images of the test examples.
        - `measured`: everything about the test examples.

        Each holds the classes and the size of the images too.
        """
        table = pl.concat(self._seen)
        pictures, labels = ([name] if name in table.columns else [] for name in (PICTURE, "label"))
        test = table.filter(split="test")
        parts: dict[ExamplesPart, pl.DataFrame] = {
            "training": table.filter(split="train").select(*labels, *pictures),
            "grouped": table.filter(split="train").select(self.examples.attributes),
            "calibration": table.filter(pl.col("split") != "test").select("split", *pictures),
            "balanced calibration": table.filter(pl.col("split") != "test").select(
                *labels, *self.examples.attributes
            ),
            "shown": test.select("example_id", *pictures),
            "measured": test,
        }
        return {name: self._digest(part) for name, part in parts.items()}

    def write(self, run: Run) -> None:
        """Leave the digests in the run's folder."""
        write_json(parts_file(run), {"version": 1, "sha256": self.digests()})

    def _digest(self, part: pl.DataFrame) -> str:
        about = [self.examples.classes, self.examples.size]
        content = [about, part.columns, part.to_dict(as_series=False)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def parts_file(run: Run) -> Path:
    """Where the digests of a run lie."""
    return run.path("examples.json")


def part_digest(run: Run, part: ExamplesPart) -> str:
    """Read the digest of a part of the examples; empty where there is none."""
    run.fetch(parts_file(run))
    digests = read_record(parts_file(run)).get("sha256")
    return str(digests.get(part, "")) if isinstance(digests, dict) else ""
