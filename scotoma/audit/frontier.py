"""How far one can compress: what each variant gives up and what it saves, in one row."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from scotoma.audit.base import Count, Fraction, Part, Quantity
from scotoma.audit.gate import VerdictWord


class WorstRate(Part):
    """The most affected group: of those that lose more than the rest, the surest rise in points.

    It is all examples where no group does. Only rates with at least 10 effective events after
    compression are compared.
    """

    group: str = Field(description="What readers call the group.")
    metric: Literal["error", "fpr", "fnr"] = Field(description="Which rate.")
    absolute: Quantity = Field(description="compressed - dense, a fraction.")
    relative: Quantity = Field(description="100 (compressed / dense - 1), per cent.")
    dense: Quantity = Field(description="The rate of the dense members.")
    compressed: Quantity = Field(description="The rate of the compressed members.")


class FrontierRow(Part):
    """Each variant's verdict, accuracy, most affected group, size and latency in one row.

    It stands in measurements.json: latencies differ from run to run and are outside the promise of
    equal bytes.
    """

    variant: str = Field(description="The variant.")
    verdict: VerdictWord | None = Field(description="Its verdict; null for dense.")
    sparsity: Fraction | None = Field(
        description="Share of the weights that are zero; null where it is unknown."
    )
    bits: Count | None = Field(description="Bits of a weight; null where they are unknown.")
    top1: Quantity = Field(description="Accuracy of its population.")
    worst: WorstRate | None = Field(
        description="Its most affected group; null where no change can be estimated."
    )
    costs: dict[str, Any] | None = Field(
        description="Size and latency of one member; null where they were not measured."
    )
