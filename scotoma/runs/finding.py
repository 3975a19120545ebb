"""What was found of one technique in one metric, and how is it laid out as rows?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from scotoma.document import Cell
from scotoma.numbers import Estimate
from scotoma.numbers.inputs import StatisticsProtocol
from scotoma.runs.effects import sawilowsky

ALPHA = 0.05  # largest p called significant
MOVES = {  # the test, the number whose side counts, and where it is of neither side
    "mean": ("U", "difference", 0.0),
    "raw spread": ("raw Levene", "raw spread", 1.0),
    "relative spread": ("relative Levene", "relative spread", 1.0),
}
Moves = Literal["mean", "raw spread", "relative spread"]
Sign = Literal["+", "-", "NS"]
SIGN_WORDS: dict[Sign, str] = {"+": "higher", "-": "lower", "NS": "NS"}  # `-` is for no number


@dataclass(frozen=True, eq=False)
class RunFinding:
    """One technique in one metric, over its runs.

    Attributes:
        technique: The technique.
        metric: The metric, or `accuracy`.
        numbers: What each estimate is of; a p-value is an estimate without an interval.
        base: What it is compared with: a baseline, another technique, the baseline's variant.
        variant: The compressed variant; empty where there is one variant only.
        class_name: The class that the numbers `... of class` are of; empty without.
        protocol: `sound` takes p-values that are adjusted over their family, `published` those of
            the one-sided test and of relative spread, as they are.
        costs: What lower bias costs; empty where there is no cost, or bias is not lower.
    """

    technique: str
    metric: str
    numbers: Mapping[str, Estimate]
    base: str = ""
    variant: str = ""
    class_name: str = ""
    protocol: StatisticsProtocol = "sound"
    costs: tuple[str, ...] = ()

    def __getitem__(self, what: str) -> Estimate:
        return self.numbers[what]

    def value(self, what: str) -> float:
        """A number without its interval; nan where there is none."""
        return self.numbers[what].value if what in self.numbers else math.nan

    def cells(self, **numbers: str) -> dict[str, Cell]:
        """Cells of a row: whom it is about, and numbers by the keys of their columns.

        A number that has neither an interval nor a reason for that is its value.
        """
        who = {"technique": self.technique, "metric": self.metric, "against": self.base}
        chosen = {key: self.numbers[what] for key, what in numbers.items()}
        return who | {
            key: one.value if not one.reason and math.isnan(one.low) else one
            for key, one in chosen.items()
        }

    def p(self, test: str) -> float:
        """The p-value of a test by the protocol; nan where it was not tested.

        Args:
            test: `U`, `raw Levene` or `relative Levene`; empty for the only one that there is.
        """
        if self.protocol == "published":
            return self.value("one-sided U p" if test == "U" else f"{test} p".strip())
        return self.value(f"{test} p, adjusted".strip())

    def moves(self, what: Moves) -> Sign:
        """`+` where the technique's is significantly higher than the base's, `-` lower, `NS`."""
        test, number, neither = MOVES[what]
        if not self.p(test) <= ALPHA:
            return "NS"
        return "+" if self.value(number) > neither else "-"

    @property
    def spread_moves(self) -> Sign:
        """Where the spread of the protocol moves: raw, or as published relative."""
        return self.moves("relative spread" if self.protocol == "published" else "raw spread")

    @property
    def effect(self) -> str:
        """Name of the size of Cohen's d on Sawilowsky's scale."""
        return sawilowsky(self.value("Cohen's d"))

    @property
    def verdict(self) -> str:
        """What is shown of bias: `better`, `better at a cost`, `worse` or `undecided`."""
        moved = self.moves("mean")
        if moved == "-":
            return "better at a cost" if self.costs else "better"
        return "worse" if moved == "+" else "undecided"


def finding_rows(findings: Mapping[str, Iterable[RunFinding]]) -> pl.DataFrame:
    """Lay findings out as the rows of an audit are.

    Args:
        findings: Question to what was found.

    Returns:
        The columns of `scotoma.audit.rows.SCHEMA` but the parts of variances: `group` is the
        technique, `condition` what it is compared with, `what` which number it is. What is missing
        is null, and `reason` says why.
    """
    from scotoma.audit import Quantity  # costly to import
    from scotoma.audit.base import Row
    from scotoma.audit.rows import SCHEMA, VARIANCE, cells

    rows = [
        cells(
            question,
            Row(
                variant=one.variant or None, metric=one.metric, group=one.technique,
                class_name=one.class_name if what.endswith(" of class") else None,
                facts={"against": one.base} if one.base else {}, what=what, number=Quantity.of(of),
            ),
        )
        for question, every in findings.items() for one in every for what, of in one.numbers.items()
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").drop(VARIANCE)
