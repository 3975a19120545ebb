"""How well could a machine tell the arms of a study apart? Opens its files, and the key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.study.leak import REFUSED, machine_leak
from scotoma.study.pictures import encoding_of
from scotoma.study.plan import KeyEntry, MeasuredNumber, StudyFolder, StudyPlan
from scotoma.study.questions import CONTRASTS

__all__ = ["leaks_between", "leaks_of", "mean_places", "refuse_leaks"]


def leaks_of(folder: StudyFolder, plan: StudyPlan) -> dict[str, MeasuredNumber]:
    """Measure the machine leak of a study from its files.

    Args:
        folder: The study.
        plan: Its plan.
    """
    items = pl.read_parquet(folder.items_file, glob=False)
    places = mean_places([one.main for one in folder.every_order().values()])
    return leaks_between(items, folder.key(), places, plan.seed)


def mean_places(orders: list[tuple[str, ...]]) -> dict[str, float]:
    """Mean place of an item in the orders, by id."""
    total: dict[str, list[int]] = {}
    for order in orders:
        for place, one in enumerate(order):
            total.setdefault(one, []).append(place)
    return {one: float(np.mean(places)) for one, places in total.items()}


def leaks_between(
    items: pl.DataFrame, key: dict[str, KeyEntry], places: dict[str, float], seed: int
) -> dict[str, MeasuredNumber]:
    """Measure the leak of each contrast.

    Args:
        items: Ids, images and labels.
        key: What each item is.
        places: From `mean_places`.
        seed: Of the folds.
    """
    kept = items.filter(pl.col("id").is_in(list(key)))
    names = sorted({name for row in kept["labels"] for name in row})
    numbers = {name: number for number, name in enumerate(names)}
    labels = np.array([[numbers[name] for name in row] for row in kept["labels"].to_list()])
    arm = np.array([key[one].arm for one in kept["id"]])
    shown = np.array(
        [
            [places[one], len(image), *encoding_of(image)]
            for one, image in kept.select("id", "image").iter_rows()
        ],
        float,
    )
    found = {}
    for first, second in CONTRASTS:
        of = (arm == first) | (arm == second)
        leak = machine_leak(labels[of], shown[of], arm[of] == first, classes=len(names), seed=seed)
        found[f"{first}-{second}"] = MeasuredNumber(value=leak.auc, low=leak.low, high=leak.high)
    return found


def refuse_leaks(leaks: Mapping[str, MeasuredNumber], *, allowed: bool) -> None:
    """Refuse a study of which a machine tells the arms apart, unless that is allowed.

    Raises:
        DataError: The larger AUC is above 0.60.
    """
    worst = max(one.value for one in leaks.values())
    if worst > REFUSED and not allowed:
        raise DataError(
            f"a machine tells the arms apart without pixels (AUC {worst:.2f}, at most "
            f"{REFUSED:.2f}); plan it with another --seed or more images, or give --leaky"
        )
