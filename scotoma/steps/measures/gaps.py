"""How much more does the error of one group rise than that of another?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.group_keys import group_key
from scotoma.answers.groups import Groups
from scotoma.bias.counting import metrics
from scotoma.bias.gaps import group_gap, rise
from scotoma.datasets import AuditedExamples
from scotoma.numbers import Number, Units
from scotoma.steps.measures.facets import REST, groups_of


def gap_rows(
    examples: AuditedExamples,
    advantaged: Mapping[str, str],
    dense: NDArray[np.unsignedinteger],
    compressed: NDArray[np.unsignedinteger],
    *,
    paired: bool,
) -> list[dict[str, Any]]:
    """Compute the gaps of a compressed population, each with its two-sided p-value.

    Args:
        examples: The test examples.
        advantaged: Attribute to the value that its others are compared with, each in turn. Without
            one, two values are compared with each other, and each of more with the rest.
        dense: Class ids of the dense members, shape (N, K).
        compressed: Class ids of the compressed members, shape (N, K').
        paired: Member m of it derives from dense member m.
    """
    groups, truth = examples.partition(), examples.labels[:, None]
    units = Units.of(len(truth), examples.clusters)
    was, now = dense != truth, compressed != truth
    error = metrics(len(examples.classes), None)[0]

    @cache
    def rise_of(key: str, but: str = "") -> Number:
        mask = ~groups.mask(but) if key == REST else groups.mask(key)
        return rise(units, was, now, mask, paired=paired)

    rows = []
    for attribute, a, b in _contrasts(groups, examples.attributes, advantaged):
        gap = group_gap(error, (a, b), (rise_of(a, b if a == REST else ""), rise_of(b)))
        p = np.minimum(1.0, 2 * min(gap.gap.p_above(0.0), gap.gap.p_below(0.0)))
        rows.append({"attribute": attribute, "p": p} | vars(gap))
    return rows


def _contrasts(
    groups: Groups, attributes: tuple[str, ...], advantaged: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Pair the groups of every attribute: each with the advantaged one, the other or the rest."""
    for attribute in attributes:
        keys = list(groups_of(groups, attribute))
        if attribute in advantaged:
            favoured = group_key([(attribute, advantaged[attribute])])
            yield from ((attribute, favoured, key) for key in keys if key != favoured)
        elif len(keys) == 2:
            yield attribute, keys[0], keys[1]
        else:
            yield from ((attribute, REST, key) for key in keys)
