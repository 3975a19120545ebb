"""What each metric of Clarify asks, how to read its sign, and of which ratio it is made.

metrics.json has an entry a metric: whoever adds one adds an entry. A metric that compares a ratio
of counts between the facets needs no code; any other is computed in `cells.measure`. Rules of a
gate may name whatever has an entry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A metric in words.

    Attributes:
        name: Its short name, as in the table.
        title: Its full name.
        question: What it answers, for a reader who knows no formula.
        formula: How it is computed; a is the advantaged, d the disadvantaged facet.
        neutral: The value that means "no bias".
        sign: What the two sides of the neutral value mean.
        stage: `pre-training` metrics describe the data, `post-training` ones the predictions.
        needs: Arguments of `metric` that it uses besides `d`.
        swap: What exchanging a and d does to it.
        concern: Key of the question in `guide` that it answers.
        ratio: Cells of a facet (TN, FP, FN, TP) whose sum is `over` that `under` it, what the
            latter is `named`, and how the facets are `compared`: `a - d`, `d - a` or `d / a`; None
            for a metric that is no such comparison.
    """

    name: str
    title: str
    question: str
    formula: str
    neutral: float
    sign: str
    stage: Literal["pre-training", "post-training"]
    needs: tuple[str, ...]
    swap: Literal["negates", "inverts", "keeps", "changes"]
    concern: str
    ratio: Mapping[str, str] | None = None

    @property
    def relative(self) -> bool:
        """Whether it is one rate over another, whose interval is on the log scale."""
        return self.ratio is not None and self.ratio["compared"] == "d / a"


METRICS: dict[str, Metric] = {
    row["name"]: Metric(**row | {"needs": tuple(row["needs"])})
    for row in json.loads(Path(__file__).with_name("metrics.json").read_text("utf-8"))
}
