"""How much more does the error of one group rise than that of another?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.groups import Groups
from scotoma.bias.gaps import Contrast, Rates
from scotoma.datasets import AuditedExamples
from scotoma.group_keys import group_key
from scotoma.numbers import COMPRESSED, DENSE

__all__ = ["Gaps"]

MOST_KEPT_BYTES = 200_000_000  # of the dense population under all contrasts
Contrasts = Iterator[tuple[str, Contrast, Rates]]


@dataclass(frozen=True, eq=False)
class Gaps:
    """The dense population under every contrast of an audit, to compare compressed ones with.

    Attributes:
        examples: The test examples.
        advantaged: Attribute to the value that its others are compared with, each in turn. Without
            one, two values are compared with each other, and each of more with the rest.
        dense: Class ids of the dense members, shape (N, K).
    """

    examples: AuditedExamples
    advantaged: Mapping[str, str]
    dense: NDArray[np.unsignedinteger]

    def under(
        self, compressed: NDArray[np.unsignedinteger], *, paired: bool
    ) -> list[dict[str, Any]]:
        """Compute the gaps of a compressed population, each with its two-sided p-value.

        Args:
            compressed: Class ids of its members, shape (N, K').
            paired: Member m of it derives from dense member m.
        """
        axis, rows = DENSE if paired else COMPRESSED, []
        for attribute, contrast, was in self._kept or self._contrasts():
            gap = contrast.gap(was, contrast.rates(compressed, axis))
            p = np.minimum(1.0, 2 * min(gap.gap.p_above(0.0), gap.gap.p_below(0.0)))
            rows.append({"attribute": attribute, "p": p} | gap.as_dict())
        return rows

    @cached_property
    def _kept(self) -> list[tuple[str, Contrast, Rates]]:
        """The dense population under all contrasts; empty where that is more than fits."""
        each = 8 * self.examples.table.height * (2 * self.dense.shape[1] + 4)
        fits = each * len(self.examples.partition().keys) <= MOST_KEPT_BYTES
        return list(self._contrasts()) if fits else []

    def _contrasts(self) -> Contrasts:
        for attribute, contrast in _contrasts(
            self.examples, self.examples.partition(), self.advantaged
        ):
            yield attribute, contrast, contrast.rates(self.dense, DENSE)


def _contrasts(
    examples: AuditedExamples, groups: Groups, advantaged: Mapping[str, str]
) -> Iterator[tuple[str, Contrast]]:
    """Pair the groups of every attribute: each with the advantaged one, the other or the rest."""
    labels, clusters, n_classes = examples.labels, examples.clusters, len(examples.classes)

    def contrast(a: NDArray[np.bool_], b: NDArray[np.bool_], names: tuple[str, str]) -> Contrast:
        return Contrast.of(labels, a, b, names=names, n_classes=n_classes, clusters=clusters)

    for attribute in examples.attributes:
        keys = [
            key
            for key, of in zip(groups.keys, groups.attributes, strict=True)
            if of == (attribute,)
        ]
        if attribute in advantaged:
            favoured = group_key([(attribute, advantaged[attribute])])
            for key in keys:
                if key != favoured:
                    masks = groups.mask(favoured), groups.mask(key)
                    yield attribute, contrast(*masks, (favoured, key))
            continue
        if len(keys) == 2:
            first, second = map(groups.mask, keys)
            yield attribute, contrast(first, second, (keys[0], keys[1]))
            continue
        for key in keys:
            yield attribute, contrast(~groups.mask(key), groups.mask(key), ("the rest", key))
