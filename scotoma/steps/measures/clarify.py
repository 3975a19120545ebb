"""Who gets the favourable outcome? Clarify's 21 metrics, dense beside compressed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.group_keys import group_key, parse_group_key
from scotoma.audit.base import rows_at
from scotoma.bias.clarify import METRICS, all_metrics, metric_changes
from scotoma.bias.clarify.arguments import standardised
from scotoma.bias.clarify.estimates import member_metrics
from scotoma.bias.four_fifths import impact_ratios
from scotoma.bias.gaps import REST, groups_of
from scotoma.datasets import AuditedExamples
from scotoma.numbers import Estimate, undefined


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


DATA = tuple(name for name, metric in METRICS.items() if metric.stage == "pre-training")
NO_TRAINING = "the audit has no training examples; source.training names a table of them"
MODELS = tuple(name for name in METRICS if name not in DATA)


@dataclass(frozen=True, eq=False)
class ClarifyMetrics:
    """The 21 metrics of one audit.

    Attributes:
        examples: The test examples.
        dense: Class ids of the dense members, shape (N, K).
        positive: Id of the favourable class; None where the configuration names none.
        seed: Of the bootstrap behind the upper bounds of distances.
        advantaged: Attribute to the value that is facet a.
        training: The training examples; there may be none.
        features: Columns of numbers by which FT finds an example's likes; none for no FT.
        of_labels: The attribute whose values are labels, where examples have several: it forms
            strata and no facets, for a label is nobody.
    """

    examples: AuditedExamples
    dense: NDArray[np.unsignedinteger]
    positive: int | None
    seed: int
    advantaged: Mapping[str, str] = field(default_factory=dict)
    training: AuditedExamples | None = None
    features: Sequence[str] = ()
    of_labels: str = ""

    def of_data(self) -> Iterator[dict[str, Any]]:
        """Measure the labels, which no compression changes: rows of a split, facet and metric.

        The metrics are about the data that trained the models; the test examples stand beside them.
        """
        if not self.examples.labelled:
            return
        for split, examples in (("training", self.training), ("test", self.examples)):
            strata = self._strata_of(examples)
            for facet in self._facets:
                measured = self._of_labels(facet, examples, strata.get(facet.attribute))
                for name, one in measured.items():
                    yield from self._rows(facet, name, {"labels": one}, split=split)

    def _strata_of(self, examples: AuditedExamples | None) -> dict[str, NDArray[np.intp] | None]:
        """Number the strata of each attribute, where a metric of the labels needs them."""
        if examples is None or self.positive is None:
            return {}
        return dict(zip(examples.attributes, strata_of(examples), strict=True))

    def _of_labels(
        self, facet: FacetPair, examples: AuditedExamples | None, strata: NDArray[np.intp] | None
    ) -> dict[str, Estimate]:
        """Measure the labels of a split, on those of its examples that belong to either facet."""
        if examples is None or not examples.table.height:
            return dict.fromkeys(DATA, undefined(NO_TRAINING, n=0, members=0))
        d, a = (facet_rows(facet, key, examples) for key in (facet.disadvantaged, facet.advantaged))
        kept = examples.keep(d | a)
        if not kept.table.height:
            return dict.fromkeys(DATA, undefined("undefined (no examples)", n=0, members=0))
        return all_metrics(
            d=d[d | a], y=self._hits(kept.labels), strata=None if strata is None else strata[d | a],
            labels=kept.labels, clusters=kept.clusters, seed=self.seed, only=DATA,
        )  # fmt: skip

    def metrics(self, predicted: NDArray[np.unsignedinteger]) -> list[dict[str, Estimate]]:
        """Measure predictions: metrics by name, one table per facet.

        Args:
            predicted: Class ids of a population, shape (N, K).
        """
        hits, wanted = self._hits(predicted), self._of_models
        return [
            all_metrics(**self._known(facet), p=hits, seed=self.seed, only=wanted)
            for facet in self._facets
        ]

    def of_dense(self) -> Iterator[dict[str, Any]]:
        """Measure every dense member, and whom they select."""
        yield from self._selection(self.dense)
        rows = self._population(self.dense, "dense", {"dense": self._before})
        yield from (row for row in rows if "models" in row)

    def of_compressed(
        self, predicted: NDArray[np.unsignedinteger], *, paired: bool
    ) -> Iterator[dict[str, Any]]:
        """Measure a compressed population: dense, compressed and the change, and whom it selects.

        Args:
            predicted: Class ids of its members, shape (N, K').
            paired: Member m of it derives from dense member m.
        """
        yield from self._selection(predicted)
        after = moved = self._before  # without an outcome, three times the same reason
        if self.positive is not None:
            after = self._metrics(predicted)
            moved = [
                metric_changes(
                    **self._known(facet), dense=self.dense == self.positive,
                    compressed=predicted == self.positive, paired=paired, only=self._of_models,
                )
                for facet in self._facets
            ]  # fmt: skip
        tables = {"dense": self._before, "compressed": after, "change": moved}
        yield from self._population(predicted, "compressed", tables)

    @cached_property
    def _before(self) -> list[dict[str, Estimate]]:
        return self._metrics(self.dense)

    def _metrics(self, predicted: NDArray[np.unsignedinteger]) -> list[dict[str, Estimate]]:
        """Measure predictions, shape (N, K): metrics by name, one table per facet."""
        hits, wanted = self._hits(predicted), self._of_models
        return [
            all_metrics(**self._known(facet), p=hits, seed=self.seed, only=wanted)
            for facet in self._facets
        ]

    def _population(
        self,
        predicted: NDArray[np.unsignedinteger],
        own: str,
        tables: Mapping[str, Sequence[Mapping[str, Estimate]]],
    ) -> Iterator[dict[str, Any]]:
        """Lay out tables, one a facet, and beside a population's own what each member has."""
        hits = self._hits(predicted)
        for place, facet in enumerate(self._facets):
            each = {} if hits is None else member_metrics(**self._known(facet), p=hits)
            for name in self._of_models:
                values, se = each.get(name, (np.array([]), np.array([])))
                models = {"models": values.tolist(), "models_se": se.tolist()}
                held = not (np.isnan(values).all() or self._lacking(facet, name))
                numbers = {what: table[place][name] for what, table in tables.items()}
                for row in self._rows(facet, name, numbers):
                    yield row | models if held and row["what"] == own else row

    def _selection(self, predicted: NDArray[np.unsignedinteger]) -> Iterator[dict[str, Any]]:
        """Lay out the four-fifths tables of one population, (N, K), if a class is favourable."""
        if self.positive is None:
            return
        selected = predicted == self.positive
        for attributes, masks in self.examples.partition().apart().items():
            if self.of_labels not in attributes:
                for one in impact_ratios(selected, masks, clusters=self.examples.clusters):
                    address = {"metric": "selected", "group": one.group}
                    facts = {"attribute": " & ".join(attributes)}
                    yield from rows_at(address | {"facts": facts}, one.numbers)

    @cached_property
    def _of_models(self) -> tuple[str, ...]:
        """Metrics of predictions; without labels those that can be computed without."""
        if self.examples.labelled:
            return MODELS
        absent = {"y", "features"} if self.positive is not None else {"p", "y", "features"}
        return tuple(name for name in MODELS if not absent & set(METRICS[name].needs))

    @cached_property
    def _facets(self) -> list[FacetPair]:
        pairs = facet_pairs(self.examples, self.advantaged, self.training)
        return [pair for pair in pairs if pair.attribute != self.of_labels]

    @cached_property
    def _numbers(self) -> NDArray[np.float64] | None:
        if not self.features or self.positive is None:
            return None
        return standardised(self.examples.features.select(self.features).to_numpy())

    def _hits(self, ids: NDArray[Any] | None) -> NDArray[np.bool_] | None:
        return None if ids is None or self.positive is None else ids == self.positive

    def _known(self, facet: FacetPair) -> dict[str, Any]:
        """What the metrics of a facet are computed from, but for the predictions."""
        return {
            "d": facet.d, "y": self._hits(self.examples.known_labels), "strata": facet.strata,
            "features": self._numbers, "clusters": self.examples.clusters,
        }  # fmt: skip

    def _rows(
        self, facet: FacetPair, name: str, numbers: Mapping[str, Estimate], **more: str
    ) -> Iterator[dict[str, Any]]:
        lacking = self._lacking(facet, name)
        facts = {
            "attribute": facet.attribute,
            "disadvantaged": facet.disadvantaged,
            "advantaged": facet.advantaged,
        }
        reason = f"not computed (needs {lacking})"
        known = {
            what: replace(one, reason=reason if lacking else one.reason)
            for what, one in numbers.items()
        }
        yield from rows_at({"metric": name, "facts": more | facts}, known)

    def _lacking(self, facet: FacetPair, name: str) -> str:
        """Name what the audit would need for a metric, in the words of its configuration."""
        absent = {} if self.features else {"features": "clarify.features"}
        if self.positive is None:
            absent |= dict.fromkeys(("y", "p"), "label.positive")
        if len(self.examples.attributes) == 1:
            absent["strata"] = "a second attribute"
        needs = [absent[need] for need in METRICS[name].needs if need in absent]
        return " and ".join(dict.fromkeys(needs))
