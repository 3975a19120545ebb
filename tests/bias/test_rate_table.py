"""Rates laid out at once are those that are computed one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scotoma.bias import tally
from scotoma.bias.counting import metrics
from scotoma.bias.rate_table import PARTS, WHATS, rate_columns
from scotoma.bias.subgroup import change_at
from scotoma.numbers import ChangeEvidence

FIELDS = {
    name: name
    for name in ("value", "low", "high", "n", "reason", "note", "se", "df", "scale")
} | {"models": "members", "effective_events": "events"}  # fmt: skip


@pytest.mark.parametrize(
    ("n", "classes", "models", "paired", "level"),
    [
        (300, 3, (1, 1), False, 0.95),
        (400, 4, (5, 3), False, 0.95),
        (60, 2, (6, 6), True, 0.99),
        (40, 5, (2, 2), True, 0.95),
    ],
)
def test_every_field_is_that_of_one_rate(
    n: int, classes: int, models: tuple[int, int], paired: bool, level: float
) -> None:
    rng = np.random.default_rng(n)
    labels = rng.integers(classes, size=n)
    labels[labels == classes - 1] = 0  # nobody is of the last class
    dense, compressed = (
        np.where(rng.random((n, k)) < wrong, rng.integers(classes, size=(n, k)), labels[:, None])
        for k, wrong in zip(models, (0.15, 0.25), strict=True)
    )
    place = rng.integers(13, size=n) ** 2 // 13  # the rarest hold one example, or nobody
    names = [f"place={value}" for value in range(13)]
    masks = np.arange(13)[:, None] == place
    known = ChangeEvidence.of_tally(
        tally(labels, dense, compressed, masks, n_classes=classes, paired=paired)
    )
    kinds = metrics(classes, None)
    columns = rate_columns(known, names, kinds, level=level)
    reasons = set()
    for g, name in enumerate(names):
        for e, kind in enumerate(kinds):
            change = change_at(known, (g, e), name, kind, level)
            for w, what in enumerate(WHATS):
                row, own = len(WHATS) * (g * len(kinds) + e) + w, getattr(change, what)
                reasons.add(own.reason.partition("(")[0])
                for column, field in FIELDS.items():
                    assert same(columns[column][row], getattr(own, field)), (what, name, column)
                for part in PARTS if what in ("relative", "absolute") else ():
                    cell = columns[f"variance_{part}"][row]
                    assert same(cell, getattr(getattr(change, f"{what}_variance"), part)), part
    assert {"", "undefined ", "relative change not estimable "} <= reasons


def same(cell: object, value: object) -> bool:
    nothing = isinstance(value, float) and math.isnan(value)
    return (isinstance(cell, float) and math.isnan(cell)) if nothing else cell == value
