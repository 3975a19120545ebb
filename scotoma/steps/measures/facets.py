"""Which two facets of an attribute does Clarify compare?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.group_keys import group_key, parse_group_key
from scotoma.answers.groups import Groups
from scotoma.datasets import AuditedExamples

REST = "the rest"


@dataclass(frozen=True, eq=False)
class FacetPair:
    """Two facets of an attribute that are compared.

    Attributes:
        attribute: The attribute.
        disadvantaged: Key of the group that is facet d, or `the rest`.
        advantaged: Key of facet a, or `the rest`.
        d: Members of facet d, shape (N,).
        strata: The values of all other attributes together, shape (N,); None without any.
    """

    attribute: str
    disadvantaged: str
    advantaged: str
    d: NDArray[np.bool_]
    strata: NDArray[np.intp] | None


def groups_of(groups: Groups, attribute: str) -> dict[str, NDArray[np.bool_]]:
    """Key of each group that one attribute forms to its members, shape (N,)."""
    own = zip(groups.by_key.items(), groups.attributes, strict=True)
    return {key: mask for (key, mask), of in own if of == (attribute,)}


def facet_pairs(
    examples: AuditedExamples,
    advantaged: Mapping[str, str] | None = None,
    training: AuditedExamples | None = None,
) -> list[FacetPair]:
    """List the facets of every attribute: of two values the rarer is d, of more each in turn.

    Args:
        examples: The test examples.
        advantaged: Attribute to the value that is facet a; all others together are d.
        training: The training examples, among which the rarer value is found; without any, among
            the test examples, which may hold as many of both.

    >>> import polars as pl
    >>> table = pl.DataFrame({"label": ["x"] * 3, "sex": ["m", "m", "f"]})
    >>> (pair,) = facet_pairs(AuditedExamples(table, ("x",), ("sex",), ()))
    >>> pair.disadvantaged, pair.advantaged
    ('sex=f', 'sex=m')
    """
    groups, pairs = examples.partition(), []
    for attribute, strata in zip(examples.attributes, strata_of(examples), strict=True):
        own = groups_of(groups, attribute)
        if advantaged and attribute in advantaged:
            favoured = group_key([(attribute, advantaged[attribute])])
            others = [key for key in own if key != favoured]
            d = others[0] if len(others) == 1 else REST
            pairs.append(FacetPair(attribute, d, favoured, ~groups.mask(favoured), strata))
        elif len(own) == 2:
            (rare, mask), (common, _) = sorted(
                own.items(), key=lambda group: _frequency(group, training)
            )
            pairs.append(FacetPair(attribute, rare, common, mask, strata))
        elif len(own) > 2:
            pairs += [FacetPair(attribute, key, REST, mask, strata) for key, mask in own.items()]
    return pairs


def _frequency(group: tuple[str, NDArray[np.bool_]], training: AuditedExamples | None) -> int:
    key, mask = group
    if training is None or not training.table.height:
        return int(mask.sum())
    return int(_holding(training, key).sum())


def _holding(examples: AuditedExamples, key: str) -> NDArray[np.bool_]:
    """Find the examples that have one value of an attribute, shape (N,)."""
    ((attribute, value),) = parse_group_key(key)
    return (examples.table[attribute] == value).to_numpy()


def strata_of(examples: AuditedExamples) -> Iterator[NDArray[np.intp] | None]:
    """Number, for each attribute, the values of all others together; None for a lone attribute.

    Strata are numbered in the order of their values. Those before an attribute and those behind it
    are numbered once for all, so that time grows with the number of attributes and not its square.
    """
    columns = [examples.table[name].rank("dense").to_numpy() for name in examples.attributes]
    everyone = np.zeros(examples.table.height, np.intp)
    behind = [everyone]
    for column in columns[:0:-1]:
        behind.append(_numbered(column, behind[-1]))
    before = everyone
    for column in columns:
        yield _numbered(before, behind.pop()) if len(columns) > 1 else None
        before = _numbered(before, column)


def _numbered(
    first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]]
) -> NDArray[np.intp]:
    """Number the pairs of two columns of numbers from 0, in their order."""
    pairs = first.astype(np.intp) * (int(second.max(initial=0)) + 1) + second
    return np.unique(pairs, return_inverse=True)[1].astype(np.intp)


def facet_rows(facet: FacetPair, key: str, examples: AuditedExamples) -> NDArray[np.bool_]:
    """Find the examples of one of the two facets, shape (N,)."""
    if key == REST:
        other = facet.advantaged if key == facet.disadvantaged else facet.disadvantaged
        return ~facet_rows(facet, other, examples)
    return _holding(examples, key)
