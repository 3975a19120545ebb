"""With whom are the groups of an attribute compared, and what changes if one is named?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.bias.gaps import gap_rows
from scotoma.datasets import AuditedExamples
from scotoma.steps.measures.clarify import facet_pairs

# Value: examples, errors of the dense model, errors of the compressed one.
SEX = {"female": (200, 20, 50), "male": (400, 40, 44)}  # +15.0 and +1.0 points
AGE = {"child": (100, 10, 30), "adult": (300, 30, 33), "old": (200, 20, 30)}  # +20, +1, +5


def world(counts: Mapping[str, tuple[int, int, int]]) -> tuple[AuditedExamples, Any, Any]:
    """Examples of one attribute, and the labels of a dense and a compressed model."""
    values = [value for value, (n, _, _) in counts.items() for _ in range(n)]
    dense, compressed = (
        np.concatenate([np.arange(row[0]) < row[which] for row in counts.values()])
        for which in (1, 2)
    )
    table = pl.DataFrame({"label": ["right"] * (len(values) - 1) + ["wrong"], "who": values})
    examples = AuditedExamples(table, ("right", "wrong"), ("who",), ())
    truth = examples.labels
    return examples, *((truth ^ wrong).astype(np.uint8)[:, None] for wrong in (dense, compressed))


def gaps(
    counts: Mapping[str, tuple[int, int, int]], advantaged: Mapping[str, str] | None
) -> dict[tuple[str, str], float]:
    """Gap in points by group compared with and group in question."""
    examples, dense, compressed = world(counts)
    rows = list(gap_rows(examples, advantaged or {}, dense, compressed, paired=True))
    assert {row["facts"]["attribute"] for row in rows} == {"who"}
    return {
        (row["facts"]["group_a"], row["facts"]["group_b"]): 100 * row["number"].value
        for row in rows
        if row["what"] == "gap"
    }


@pytest.mark.parametrize(
    ("advantaged", "expected"),
    [
        (None, {("who=female", "who=male"): 1.0 - 15.0}),
        ({"who": "male"}, {("who=male", "who=female"): 15.0 - 1.0}),
        ({"who": "female"}, {("who=female", "who=male"): 1.0 - 15.0}),
    ],
)
def test_of_two_values_the_advantaged_one_is_compared_with(
    advantaged: Mapping[str, str] | None, expected: dict[tuple[str, str], float]
) -> None:
    assert gaps(SEX, advantaged) == pytest.approx(expected)


def test_each_of_several_values_is_compared_with_the_advantaged_one_and_not_with_the_rest() -> None:
    assert gaps(AGE, {"who": "adult"}) == pytest.approx(
        {("who=adult", "who=child"): 20.0 - 1.0, ("who=adult", "who=old"): 5.0 - 1.0}
    )
    alone = gaps(AGE, None)
    assert set(alone) == {("the rest", f"who={value}") for value in AGE}
    # The rest of the children: 3 + 10 more errors among 500 examples.
    assert alone["the rest", "who=child"] == pytest.approx(20.0 - 100 * 13 / 500)


def test_an_attribute_without_an_advantaged_value_is_compared_as_before() -> None:
    assert gaps(AGE, {"other": "adult"}) == gaps(AGE, None)


def test_a_gap_turns_with_the_advantaged_group_and_keeps_its_width() -> None:
    examples, dense, compressed = world(SEX)
    one, other = (
        {
            row["what"]: row["number"]
            for row in gap_rows(examples, {"who": value}, dense, compressed, paired=True)
        }
        for value in ("male", "female")
    )
    assert one["gap"].low == pytest.approx(-other["gap"].high)
    assert one["gap"].high == pytest.approx(-other["gap"].low)
    assert one["rise_a"] == other["rise_b"]
    assert one["p"].value == pytest.approx(other["p"].value)


@pytest.mark.parametrize(
    ("counts", "advantaged", "d", "n"),
    [
        (SEX, {"who": "male"}, "who=female", 200),
        (SEX, {"who": "female"}, "who=male", 400),  # not the rarer one
        (AGE, {"who": "adult"}, "the rest", 300),
    ],
)
def test_facet_a_is_the_advantaged_group_and_d_all_others(
    counts: Mapping[str, tuple[int, int, int]], advantaged: Mapping[str, str], d: str, n: int
) -> None:
    (pair,) = facet_pairs(world(counts)[0], advantaged)
    assert (pair.disadvantaged, pair.advantaged) == (d, f"who={advantaged['who']}")
    assert int(pair.d.sum()) == n
