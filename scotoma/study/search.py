"""Which plan of a study is blind and balanced? Many are drawn; the first that is both is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.study.arms import MOST_IMBALANCE, Arms, choose_arms, matched_arms, mean_difference
from scotoma.study.leak import REFUSED

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
DRAWS = 25
# Below a quarter, a draw that passes would be one that luck has made look blind or balanced.
FEWEST_KEPT = 7
FEWEST = 5  # images an arm, unless fewer are asked for
ROUNDS = 20  # in which near duplicates are replaced


@dataclass(frozen=True, eq=False)
class Draw:
    """The arms of a plan.

    Attributes:
        arms: Rows of each arm.
        matched: Arm A holds the CIEs that have an equally contested non-CIE, not any CIEs.
        number: Which of the draws it was, counted from 0: seeds what else is random in a plan.
        kept: How many of the draws were blind and balanced.
    """

    arms: Arms
    matched: bool
    number: int
    kept: int


def draw_arms(
    cie: Flags,
    classes: Ints,
    agreement: Floats,
    per_arm: int,
    *,
    seed: int,
    leaks: Callable[[Sequence[tuple[int, Arms]]], Sequence[float]],
    clashes: Callable[[Ints], Flags],
    allow_imbalance: bool = False,
    leaky: bool = False,
) -> Draw:
    """Find arms that a machine cannot tell apart and on which models agree as much.

    Arm A is drawn at random from the CIEs; where that leaves arm C less contested than arm A, it
    holds the CIEs that have an equally contested non-CIE. A rule counts if a quarter of its draws
    are blind and balanced: a seed that merely looks so is not searched for.

    Args:
        cie: Whether an example is a CIE, shape (N,).
        classes: Stratum of each example, shape (N,).
        agreement: Largest share of all votes on one class, shape (N,).
        per_arm: Examples an arm, at most.
        seed: Same seed, same arms.
        leaks: The largest AUC by which a machine tells arms apart, of each numbered draw.
        clashes: Which of some rows are the same image as one before them, or nearly so.
        allow_imbalance: Take arms of any agreement.
        leaky: Take arms of any leak.

    Raises:
        DataError: There are no such arms.
    """
    if not cie.any():
        raise DataError(
            "no example changes (there are no CIEs), so there is nothing to study; choose a "
            "stronger compression with --variant"
        )
    refused = np.zeros(len(cie), bool)

    def first_kept() -> Draw:
        fewest, largest, blind = min(FEWEST, per_arm), 0, 0
        for rule in (choose_arms, matched_arms):
            drawn = [
                rule(cie, classes, agreement, per_arm, seed=(seed, number), refused=refused)
                for number in range(DRAWS)
            ]
            balanced = [
                (number, arms)
                for number, arms in enumerate(drawn)
                if len(arms.a) >= fewest and (allow_imbalance or _is_balanced(arms, agreement))
            ]
            largest = max(largest, *(len(arms.a) for _, arms in balanced), 0)
            if len(balanced) < FEWEST_KEPT:
                continue
            measured = [0.0] * len(balanced) if leaky else leaks(balanced)
            kept = [one for one, leak in zip(balanced, measured, strict=True) if leak <= REFUSED]
            blind = max(blind, len(kept))
            if len(kept) >= FEWEST_KEPT:
                number, arms = kept[0]
                return Draw(arms, rule is matched_arms, number, len(kept))
        if largest:
            raise DataError(
                "a machine tells the arms apart without pixels (AUC above "
                f"{REFUSED:.2f}) in all but {blind} of {DRAWS} draws; give --labels true, whose "
                "labels depend on no model, or --leaky"
            )
        lacking, way = "two unchanged ones", ""
        if not allow_imbalance:
            lacking, way = "an equally contested unchanged one", ", or give --allow-imbalance"
        raise DataError(
            f"of {int(cie.sum()):,} changed examples fewer than {fewest} have {lacking} of their "
            f"class; choose another --variant{way}"
        )

    for _ in range(ROUNDS):
        draw = first_kept()
        rows = np.concatenate([draw.arms.a, draw.arms.b, draw.arms.c])
        again = clashes(rows)
        if not again.any():
            return draw
        refused[rows[again]] = True
    raise DataError(
        f"too many images are near duplicates of each other for {per_arm:,} an arm, got more after "
        f"{ROUNDS} rounds; lower --per-arm"
    )


def _is_balanced(arms: Arms, agreement: Floats) -> bool:
    return abs(mean_difference(agreement[arms.a], agreement[arms.c])) <= MOST_IMBALANCE
