"""Is any group selected less than four fifths as often as the group selected most?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.audit.base import Quantity
from scotoma.bias.clarify import all_metrics
from scotoma.bias.subgroup import selection_rates
from scotoma.errors import DataError
from scotoma.numbers import Estimate, undefined
from scotoma.numbers.inputs import booleans

FOUR_FIFTHS = 0.8
LEAST_SHARE = 0.02  # of the examples; smaller groups are counted and not judged

HIGHEST = "selected most"
TOO_SMALL = f"under {100 * LEAST_SHARE:g}% of the examples: not judged"
NOBODY = "a model selects nobody"
COUNTED = "counted among these examples: the selection rate has the interval"
STANDINGS = {  # how a group stands, and whether that is certain, in words
    ("highest", False): HIGHEST,
    ("below", True): "below 4/5",
    ("below", False): "below 4/5, may be chance",
    ("kept", True): "",
    ("kept", False): "4/5 within chance",
    ("too small", False): TOO_SMALL,
    ("no selection", False): NOBODY,
}

Standing = Literal["highest", "kept", "below", "too small", "no selection"]
ROUNDING = 1e-9  # a ratio of exactly four fifths may come out this much below


@dataclass(frozen=True)
class ImpactRatio:
    """How often one group is selected, beside the group that is selected most.

    Attributes:
        group: Its name.
        n: Its examples.
        share: Of the examples of known group, a fraction.
        selected: Its examples that are selected, mean over the models.
        rate: Selection rate with its interval.
        ratio: Rate over that of the group selected most, mean over the models; undefined for groups
            that are too small and where nobody is selected. The interval does not know that the
            other group was chosen for its high rate.
    """

    group: str
    n: int
    share: float
    selected: float
    rate: Estimate
    ratio: Estimate

    @property
    def numbers(self) -> dict[str, Estimate]:
        """All of it by what it is, as an audit's rows have it."""
        alone = undefined(COUNTED, n=self.n, members=self.rate.members, level=self.rate.level)
        counts = {"examples": self.n, "share": self.share, "selected": self.selected}
        known = {name: replace(alone, value=value) for name, value in counts.items()}
        return known | {"rate": self.rate, "ratio": self.ratio}


def standing(ratio: Estimate | Quantity) -> tuple[Standing, bool]:
    """How a group stands by its ratio, and whether the whole interval says so.

    `highest` is the group selected most, `kept` or `below` are sides of four fifths; groups under
    2% of the examples are `too small`, and where no group has a ratio there is `no selection`.

    >>> standing(Estimate(0.7, 0.6, 0.9, 50, 1, 9.0, 9.0, 0.95, scale="ratio"))
    ('below', False)
    """
    own, low, high = map(_side, (ratio.value, ratio.low, ratio.high))
    if own is None:
        return ("too small" if ratio.reason == TOO_SMALL else "no selection"), False
    return ("highest", False) if ratio.note == HIGHEST else (own, low == high == own)


def shown_ratio(ratio: Estimate | Quantity) -> Estimate | Quantity | int | None:
    """What a table shows of a ratio: 1 of the group selected most, nothing where it says so."""
    return 1 if ratio.note == HIGHEST else None if ratio.reason in (TOO_SMALL, NOBODY) else ratio


def impact_ratios(
    selected: npt.ArrayLike,
    groups: Mapping[str, npt.ArrayLike],
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[ImpactRatio]:
    """Compute the four-fifths table of groups that share no example.

    Args:
        selected: Whether each example is selected, bool, shape (N,), or (N, K), a column a model.
        groups: Name to who belongs to it, bool, shape (N,). Examples in no group are left out, and
            out of the shares.
        clusters: Id of each example's cluster, shape (N,); None where every example is its own.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        A row a group, in their order. Groups of less than 2% of the examples are counted, and
        neither judged nor compared with.

    Raises:
        DataError: No group, groups that share an example, or shapes that do not fit together.

    References:
        Uniform Guidelines on Employee Selection Procedures (1978), 29 CFR 1607.4 D, with questions
        and answers (1979); New York City, 6 RCNY 5-301 (2023).

    >>> selected = np.repeat([True, False, True, False], [60, 40, 45, 55])
    >>> a, b = impact_ratios(selected, {"a": np.arange(200) < 100, "b": np.arange(200) >= 100})
    >>> standing(a.ratio), round(b.ratio.value, 2), standing(b.ratio)
    (('highest', False), 0.75, ('below', False))
    >>> round(b.ratio.low, 2), round(b.ratio.high, 2)
    (0.57, 0.98)
    """
    hits = np.asarray(selected, bool)
    hits = hits.reshape(len(hits), -1)
    masks = {name: booleans(mask, "groups", (len(hits),)) for name, mask in groups.items()}
    if not masks:
        raise DataError("groups must hold at least one group, got none: name them")
    stacked = np.stack(list(masks.values()))
    if (stacked.sum(axis=0) > 1).any():
        raise DataError("groups must share no example: compare the values of one attribute")
    ids, known = None if clusters is None else np.asarray(clusters), int(stacked.sum())
    found = [
        one.rate for one in selection_rates(hits, stacked, list(masks), clusters=ids, level=level)
    ]
    sizes = stacked.sum(axis=1)
    judged = [n >= LEAST_SHARE * known and n > 0 for n in sizes.tolist()]
    large = [place for place, is_judged in enumerate(judged) if is_judged]
    top = max(large, key=lambda g: found[g].value, default=None)
    rows = []
    for place, (name, mask) in enumerate(masks.items()):
        n, rate = int(sizes[place]), found[place]
        missing = NOBODY if judged[place] else TOO_SMALL
        ratio = undefined(missing, n=rate.n, members=rate.members, level=level)
        if judged[place] and top is not None and found[top].value > 0:
            if place == top:
                ratio = replace(
                    ratio, value=1.0, low=1.0, high=1.0, scale="ratio", reason="", note=HIGHEST
                )
            else:  # Clarify's DI of a group against the one selected most, among both
                both = mask | stacked[top]
                ratio = all_metrics(
                    d=mask[both], p=hits[both], clusters=None if ids is None else ids[both],
                    level=level, only=["DI"],
                )["DI"]  # fmt: skip
        mean = float(hits[mask].mean(axis=1).sum())
        rows.append(ImpactRatio(name, n, n / max(known, 1), mean, rate, ratio))
    return rows


def _side(ratio: float | None) -> Standing | None:
    if ratio is None or math.isnan(ratio):
        return None
    return "below" if ratio < FOUR_FIFTHS - ROUNDING else "kept"
