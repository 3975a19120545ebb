"""How sure are models of their answers, and do they notice pictures that are other ones?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from scotoma.answers.groups import Groups
from scotoma.audit.base import rows_at
from scotoma.numbers import DENSE, Estimate, Number, Units, Words, undefined
from scotoma.numbers.inputs import Flags, Floats, cluster_ids
from scotoma.robustness.losses import SCALES, RightAnswers, Scale, Sides, loss, why_undefined

PICTURES = Words("right answer", "pictures", "this set")


@dataclass(frozen=True, eq=False)
class TwoSets:
    """The pictures of the test set and, below them, those of another one; members are the same.

    Attributes:
        units: Which of all these pictures are one unit.
        first: Which are of the test set, shape (n + n',).
    """

    units: Units
    first: Flags

    @classmethod
    def of(
        cls,
        n: int,
        others: int,
        clusters: npt.ArrayLike | None = None,
        other_clusters: npt.ArrayLike | None = None,
    ) -> TwoSets:
        """Stack n pictures and others; no cluster lies in both.

        >>> TwoSets.of(2, 3, [5, 5]).units.clusters.tolist()
        [0, 0, 1, 2, 3]
        """
        codes = [
            np.arange(rows) if (own := cluster_ids(ids, rows)) is None else own
            for rows, ids in ((n, clusters), (others, other_clusters))
        ]
        codes[1] = codes[1] + codes[0].max(initial=-1) + 1
        return cls(Units.of(n + others, np.concatenate(codes)), np.arange(n + others) < n)

    def means(
        self, first: npt.ArrayLike, second: npt.ArrayLike, axis: str = DENSE
    ) -> tuple[Number, Number]:
        """Mean of the values in either set, shape (n, K) and (n', K)."""
        every: Floats = np.concatenate([np.asarray(part, np.float64) for part in (first, second)])
        one, other = (
            self.units.mean(every, which, axis=axis) for which in (self.first, ~self.first)
        )
        return one, other


@dataclass(frozen=True, eq=False)
class SetAnswers:
    """Right answers to the test set and to another one.

    Attributes:
        name: What the set is called.
        classes: Classes that it has pictures of.
        masked: Whether models chose among these alone.
        selected_against: The model that failed on these pictures, if they were chosen for that.
        right: By variant, whether each member is right in the test set, shape (n, K), and in the
            other one, shape (n', K).
        sets: The pictures of both.
    """

    name: str
    classes: int
    masked: bool
    selected_against: str | None
    right: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]
    sets: TwoSets

    def described(self) -> dict[str, Any]:
        """Fields of `audit.robustness.TriedSet`."""
        return {
            "name": self.name,
            "n": int((~self.sets.first).sum()),
            "classes": self.classes,
            "masked": self.masked,
            "selected_against": self.selected_against,
        }

    def rows(self, axis: Callable[[str], str]) -> Iterator[dict[str, Any]]:
        """Compare every compressed variant with dense.

        Args:
            axis: Gives the axis of the members of a variant.

        Returns:
            Fields of `audit.base.Row`; of dense alone where there is no picture.
        """
        dense, facts = self.sets.means(*self.right["dense"]), {"name": self.name}
        accuracies = {"dense": dense[1].rate(PICTURES), "dense_test": dense[0].rate(PICTURES)}
        yield from rows_at({"facts": facts}, accuracies, "sets.")
        scales = () if self.selected_against else SCALES
        for name, right in self.right.items():
            if name != "dense" and not self.sets.first.all():
                own = self.sets.means(*right, axis(name))
                lost = {"accuracy": own[1].rate(PICTURES)} | lost_elsewhere(dense, own, scales)
                yield from rows_at({"variant": name, "facts": facts}, lost, "sets.rows.")


def lost_elsewhere(
    dense: Sides, compressed: Sides, scales: tuple[Scale, ...] = SCALES
) -> dict[str, Estimate]:
    """Compare two populations on the test set and on another set of other pictures.

    Args:
        dense: Accuracy of the dense members on the test set and on the other one (`TwoSets.means`).
        compressed: The same of the compressed members.
        scales: On which losses are compared; none where the set was selected against a model.

    Returns:
        `difference`, the accuracy on the set, compressed minus dense, a fraction; by scale what is
        lost from the test set to the other one, compressed minus dense.

    >>> test, hard = [[True], [True], [True], [False]], [[True], [False]]
    >>> sets = TwoSets.of(4, 2)
    >>> found = lost_elsewhere(sets.means(test, hard), sets.means(test, [[False], [False]], "c"))
    >>> found["difference"].value, found["absolute"].value
    (-0.5, 0.5)
    """
    rises = [after.since(before) for before, after in zip(dense, compressed, strict=True)]
    difference = replace(rises[1], events=rises[1].changed)
    losses: dict[str, Estimate] = {}
    for scale in scales:
        if reason := why_undefined(dense, scale) or why_undefined(compressed, scale):
            losses[scale] = undefined(reason, n=difference.n, members=difference.members)
            continue
        # Each set has a floor of its own: flips in one say nothing of the other's pictures.
        units = np.abs(np.prod([_moved(own, scale) for own in (dense, compressed)], axis=0))
        floor = float(units @ [rise.floor for rise in rises])
        apart = loss(compressed, scale) - loss(dense, scale)
        found = replace(apart, floor=floor, events=difference.events).estimate()
        losses[scale] = replace(found, n=difference.n)
    return {"difference": difference.estimate(), **losses}


def _moved(sides: Sides, scale: Scale) -> list[float]:
    """What a picture moves of a loss that flips in the test set, and one in the other set."""
    clean, other = sides
    flips = (clean, replace(other, flip=None)), (replace(clean, flip=None), other)
    return [float(loss(pair, scale).flip or 0.0) for pair in flips]


CLEAN = "clean"  # in the place of a family
NO_SCORES = "undefined (no scores)"


@dataclass(frozen=True, eq=False)
class Familiarity:
    """How familiar pictures are to each member of a population: confidence, or minus the energy.

    Attributes:
        clean: Of clean pictures, shape (n, K).
        corrupted: Under each corruption and severity, shape (C, S, n, K).
        sets: By name, of the pictures of another set, shape (m, K).
    """

    clean: Floats
    corrupted: Floats
    sets: Mapping[str, Floats]


def energy(scores: npt.ArrayLike) -> Floats:
    """Compute minus the energy of pictures: high where a picture is familiar to a model.

    Args:
        scores: Familiarity before softmax, shape (n, C).

    Returns:
        The logarithm of the sum of their exponentials, shape (n,).

    References:
        Liu et al. (2020), Energy-based Out-of-distribution Detection.

    >>> energy([[2.0, 0.0]]).round(3).tolist()
    [2.127]
    """
    return np.asarray(logsumexp(np.asarray(scores, np.float64), axis=1))


def overconfidence(excess: Floats, units: Units, axis: str = DENSE) -> Number:
    """Mean confidence minus accuracy, a fraction: above 0 where models are too sure.

    Args:
        excess: Probability of the predicted class less whether it is the label, of each example and
            member, shape (n, K).
        units: Which examples are one unit.
        axis: Of the members.

    >>> right = np.array([[1], [1], [1], [0]])
    >>> round(overconfidence(0.9 - right, Units.of(4)).value, 3)
    0.15
    """
    return units.mean(excess, axis=axis, flip=None) if _known(excess) else _unknown(units, excess)


def auroc(
    clean: Floats, other: Floats, clusters: npt.ArrayLike | None = None, axis: str = DENSE
) -> Number:
    """Chance that a clean picture is more familiar than another one; ties count half.

    It is the area under the ROC curve of each member, averaged. Its variance is that of DeLong's
    placements, an example's clean and corrupted ones together (Obuchowski), crossed with members.

    Args:
        clean: Familiarity of clean pictures, shape (n, K).
        other: Of corrupted versions of the same pictures, shape (C, n, K), or of pictures of
            another set, shape (m, K).
        clusters: Id of each clean example's cluster, shape (n,); None leaves every one its own.
        axis: Of the members.

    Returns:
        A fraction: 0.5 where nothing is told apart; nan where a score is no number.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44:837-845; Obuchowski (1997),
        Biometrics 53:567-578.

    >>> auroc(np.array([[0.9], [0.8]]), np.array([[[0.1], [0.85]]])).value
    0.75
    """
    units = Units.of(len(clean), clusters)
    if not (_known(clean) and _known(other)):
        return _unknown(units, clean)
    above, below = np.empty(clean.shape), np.empty(other.shape)
    for member in range(clean.shape[1]):
        one, every = clean[:, member], other[..., member].ravel()
        above[:, member] = _share_below(one, every)
        below[..., member] = 1 - _share_below(every, one).reshape(other.shape[:-1])
    if other.ndim == 3:  # versions of the clean pictures; the mean of each part is the area
        events = above + below.mean(axis=0) - above.mean(axis=0)
        return units.mean(events, axis=axis, flip=None)
    # The members are the same in both sets, so that what sets one apart may enter once only.
    sets = TwoSets.of(len(clean), len(other), clusters)
    area, nothing = sets.means(above, below - below.mean(axis=0), axis)
    return replace(area + nothing, events=math.nan)


def confidence_rows(
    measures: Mapping[str, Mapping[str, Familiarity]],
    right: Mapping[str, RightAnswers],
    families: Mapping[str, list[int]],
    partition: Groups,
) -> Iterator[dict[str, Any]]:
    """Measure how sure every population is, and whether it notices other pictures.

    Args:
        measures: `confidence`, and `energy` where it is known, to the scores of each variant.
        right: Right answers by variant.
        families: Places of the corruptions of each family.
        partition: Groups of the corrupted examples.

    Returns:
        Fields of `audit.base.Row`.
    """
    masks = dict(zip(partition.keys, partition.masks, strict=True))
    clusters = right["dense"].units.clusters
    ids = {key: None if clusters is None else clusters[group] for key, group in masks.items()}
    n = {
        key: int(group.sum()) if clusters is None else len(np.unique(clusters[group]))
        for key, group in masks.items()
    }

    def gap(family: str, key: str, name: str) -> Number:
        said, truth = measures["confidence"][name], right[name]
        excess = (said.clean - truth.clean)[None]
        if family != CLEAN:
            places = families[family]
            excess = said.corrupted[places] - truth.corrupted[places]
        own = excess[..., masks[key], :].reshape(-1, int(masks[key].sum()), excess.shape[-1])
        return overconfidence(own.mean(axis=0), Units.of(own.shape[1], ids[key]), truth.axis)

    def area(measure: str, pictures: str, key: str, name: str) -> Number:
        own, group = measures[measure][name], masks[key]
        if pictures in families:
            other = own.corrupted[families[pictures]][:, :, group]
            other = other.reshape(-1, *other.shape[2:])
            return auroc(own.clean[group], other, ids[key], right[name].axis)
        return auroc(own.clean, own.sets[pictures], clusters, right[name].axis)

    for name, family, key in product(measures["confidence"], (CLEAN, *families), masks):
        yield from rows_at(
            {"variant": name, "group": key, "facts": {"family": family}},
            _beside_dense("gap", partial(gap, family, key), name, n[key], 1.0),
            "confidence.rows.",
        )
    for measure, scores in measures.items():
        for name, pictures, key in (
            *product(scores, families, masks),
            *((name, one, "all") for one in scores["dense"].sets for name in scores),
        ):
            of = "pictures" if pictures in families else "name"
            yield from rows_at(
                {"variant": name, "group": key, "facts": {of: pictures, "measure": measure}},
                _beside_dense("auroc", partial(area, measure, pictures, key), name, n[key]),
                "confidence.detection.",
            )


def _beside_dense(
    what: str, number: Callable[[str], Number], name: str, n: int, flip: float = 0.0
) -> dict[str, Estimate]:
    """A number of a variant on n units, and that less that of dense."""
    own = {what: number(name)}
    if name != "dense":
        change = own[what] - number("dense")
        own[f"{what}_change"] = change.floored(flip or 1 / max(n, 1))
    reason = NO_SCORES if n else "undefined (no examples)"
    return {key: replace(one.estimate(reason=reason), n=n) for key, one in own.items()}


def _share_below(values: Floats, others: Floats) -> Floats:
    """Share of the others that are below each value; ties count half."""
    order = np.sort(others)
    low, high = (np.searchsorted(order, values, side=side) for side in ("left", "right"))
    return np.asarray((low + high) / (2 * len(order)))


def _unknown(units: Units, scores: Floats) -> Number:
    return units.mean(np.zeros(scores.shape), flip=None) * math.nan


def _known(scores: Floats) -> bool:
    """Whether there are pictures, and numbers of all."""
    return bool(scores.size and np.isfinite(scores).all())
