"""Whom compression harms: classes, groups, and the gaps between groups."""

from __future__ import annotations

from pydantic import Field

from scotoma.audit.base import Count, Flag, Number, Part

RATE_NAMES = {  # what readers call them
    "error": "error",
    "fpr": "FPR",
    "fnr": "FNR",
    "unanswered": "share unanswered",
}
ENDING_NAMES = {  # how answers ended
    "cut_off": "share cut off",
    "refused": "share refused",
    "tool_call": "share without a tool call",
    "output_tokens": "tokens of output",
}


class ClassRates(Part):
    """Rates of single classes that are too many for this file: numbers.parquet holds them.

    It lies beside this file, with a row for every estimate of the audit.
    """

    sha256: str = Field(description="SHA-256 of numbers.parquet.")
    rows: Count = Field(
        description="Rates that only numbers.parquet holds, each with its change: four rows there."
    )


class ChangedScore(Part):
    """An example whose mean score gets much worse."""

    example_id: str = Field(description="Id of the example.")
    dense: Number = Field(description="Mean over the dense models.")
    compressed: Number = Field(description="Mean over the compressed models.")
    attributes: dict[str, str] = Field(description="Attribute to value.")


class ScoreReport(Part):
    """Where each example has a score of each model: what it is, and examples that get worse.

    The numbers are rows of question `scores`, in the unit of the score:

    - `mean`: mean of a variant over all examples and members, dense too, and of every member
    - `means.dense`, `.compressed`, `.absolute`: mean of a group before and after; compressed - dense
    - `means.worse`: `absolute`, positive where the mean gets worse: negated where higher is better
    - `means.relative`: how much worse: compressed / dense - 1 where lower is better, dense / compressed - 1 where higher is. Null unless both means are above 0; its spread is that of log(compressed / dense)
    - `means.p_adjusted`: two-sided p-value of “nothing changed”, adjusted by Holm over the groups of the variant
    - `quantiles.dense`, `.compressed`, `.absolute`: a quantile of the scores of a group, `share` 0.5 for the median
    """  # noqa: E501

    name: str = Field(description="What the score is called.")
    unit: str = Field(description="What it is measured in; empty for nothing.")
    lower_is_better: Flag = Field(description="Whether a lower score is the better one.")
    examples: dict[str, tuple[ChangedScore, ...]] = Field(
        description="The examples whose score gets worse most, by compressed variant; "
        "divergence.parquet has all."
    )
    shown: Count = Field(description="How many examples are listed at most.")
