"""From what members say of clean and corrupted pictures to the section of audit.json."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.groups import Groups
from scotoma.audit.base import rows_at
from scotoma.audit.robustness import ALL_KINDS
from scotoma.corruptions import STANDARD, family_of
from scotoma.datasets import AuditedExamples
from scotoma.document.jsonable import jsonable
from scotoma.numbers import COMPRESSED, Estimate, Number, Units, Variance, undefined
from scotoma.numbers.inputs import Flags, Floats
from scotoma.processes import progress
from scotoma.published import load
from scotoma.robustness.confidence import Familiarity, SetAnswers, confidence_rows
from scotoma.robustness.losses import (
    ACCURACY,
    SCALES,
    RightAnswers,
    amplified_loss,
    group_contrast,
    group_tests,
    loss,
    misled_pairs,
    relative_robustness,
    variance_of_draws,
)
from scotoma.robustness.plan import RobustnessPlan

HALVES = 4  # dense members from which one half is compared with the other
NO_INTERVAL = "a p-value has no interval"
ALONE = "a number of these pictures and models alone"
PICTURES = "of these pictures and models: the interval is over examples alone"


@dataclass(frozen=True, eq=False)
class Seen:
    """What members said of the examples that were corrupted; draws of a severity are severities.

    Attributes:
        partition: The groups.
        positives: Which examples are of the positive class, shape (n,); None without one, or of
            more than two classes.
        right: Right answers by population: variants, then dense models on their way.
        top5: By variant, whether labels are among five classes; empty where that is not known.
        distances: Change and similarity of each picture, shape (C, S, n, 2).
        differing: By compressed variant and severity, how far labels differ on each picture from
            those of dense: by name of the measure, shape (n,).
        scores: `confidence` and `energy` to the scores of each variant; empty where not asked.
    """

    partition: Groups
    positives: Flags | None
    right: Mapping[str, RightAnswers]
    top5: Mapping[str, RightAnswers]
    distances: NDArray[np.float32]
    differing: Mapping[str, Mapping[int, Mapping[str, Floats]]]
    scores: Mapping[str, Mapping[str, Familiarity]]

    @property
    def units(self) -> Units:
        """Which examples are one unit."""
        return self.right["dense"].units

    def groups(self) -> Iterator[tuple[str, Flags]]:
        """Keys and members of the groups."""
        return zip(self.partition.keys, self.partition.masks, strict=True)


def measure_robustness(
    plan: RobustnessPlan, test: AuditedExamples, seen: Seen | None, sets: list[SetAnswers]
) -> dict[str, Any]:
    """Measure all that the section holds.

    Args:
        plan: What was run.
        test: All test examples.
        seen: What members said of the chosen pictures; None where none were.
        sets: What they said of other test sets.

    Returns:
        `audit.robustness.RobustnessSection` as JSON values.
    """
    report = {
        "profile": plan.profile.name if plan.profile else "predictions" if plan.kinds else None,
        "note": "" if plan.profile is None else plan.profile.note,
        "examples": len(plan.rows) // test.rows_an_image if plan.kinds else 0,
        "test": len(test.image_ids),
        "severities": plan.severities,
        "corruption_seeds": plan.draws,
        "members": plan.members,
        "corruptions": [
            {"kind": kind, "family": family_of(kind), "standard": kind in STANDARD}
            for kind in plan.kinds
        ],
        "left_out": plan.left_out,
        "sets": [one.described() for one in sets],
    }
    rows: list[dict[str, Any]] = []
    if seen is not None and plan.kinds:
        rows += _of_corrupted(plan, seen)
    if seen is not None and seen.scores:
        rows += confidence_rows(seen.scores, seen.right, plan.families, seen.partition)
    for one in sets:
        rows += one.rows(plan.axis)
    whole: dict[str, Any] = jsonable({"robustness": report, "rows": rows})
    return whole


def _of_corrupted(plan: RobustnessPlan, seen: Seen) -> Iterator[dict[str, Any]]:
    """Rows of what corrupted pictures show."""
    compressed = [name for name in plan.members if name != "dense"]
    yield from _curves(plan, seen)
    yield from _of_corruptions(plan, seen)
    progress.start("measure robustness", len(compressed))
    for name in compressed:
        yield from _losses(plan, seen, name)
        members = min(plan.members["dense"], plan.members[name])
        for severity, measures in seen.differing[name].items():
            yield from rows_at(
                {"variant": name, "facts": {"severity": severity}},
                {
                    measure: seen.units.mean(values).rate(ACCURACY, members=members, note=PICTURES)
                    for measure, values in measures.items()
                },
                "disagreement.",
            )
        progress.advance("measure robustness")
    yield from _floor(plan, seen.right["dense"])
    if plan.profile:
        yield from _distortion(plan, seen)
    yield from _matched(plan, seen)


def _losses(plan: RobustnessPlan, seen: Seen, variant: str) -> Iterator[dict[str, Any]]:
    """Compare losses of one variant with those of dense, with Holm over groups by families."""
    pair = seen.right["dense"], seen.right[variant]
    everyone: Flags = np.ones(len(pair[0].clean), np.bool_)
    kinds = {"error": (pair, everyone)}
    if seen.positives is not None:  # a missed negative is a false positive
        kinds |= {"fpr": (pair, ~seen.positives), "fnr": (pair, seen.positives)}
    if seen.top5:
        kinds["top5"] = ((seen.top5["dense"], seen.top5[variant]), everyone)
    numbers: dict[tuple[str, str, str], dict[str, Estimate | None]] = {}
    spreads: dict[tuple[str, str, str], dict[str, Variance]] = {}
    contrasts = {}
    for family, places in plan.families.items():
        under = {
            metric: [right.under(places) for right in own] for metric, (own, _) in kinds.items()
        }
        for key, group in seen.groups():
            for metric, (_, mask) in kinds.items():
                at, own = (family, key, metric), under[metric]
                sides = [each.means(group & mask) for each in own]
                found = {scale: amplified_loss(sides[0], sides[1], scale) for scale in SCALES}
                numbers[at] = {}
                for name, (clean, corrupted) in zip(("dense", "compressed"), sides, strict=True):
                    numbers[at][f"{name}_clean"] = clean.rate(ACCURACY)
                    numbers[at][name] = corrupted.rate(ACCURACY)
                numbers[at] |= {scale: one for scale, (one, _) in found.items()}
                spreads[at] = {scale: found[scale][1] for scale in SCALES[:2]}
                if metric != "error":
                    continue
                if key == "all":
                    numbers[at]["misled"] = misled_pairs(own[0], own[1])
                    draws = variance_of_draws(*pair, places, plan.draws)
                    if plan.draws > 1:
                        numbers[at]["draw_variance"] = _alone(draws, found["absolute"][0])
                else:
                    contrast = group_contrast(own[0], own[1], group)
                    numbers[at]["contrast"] = contrast
                    if family != ALL_KINDS:
                        contrasts[at] = contrast
    for at, ps in group_tests(contrasts).items():
        why = contrasts[at].reason or NO_INTERVAL
        for name, p in zip(("p", "p_adjusted"), ps, strict=True):
            numbers[at][name] = _alone(p, contrasts[at], why)
    for (family, key, metric), each in numbers.items():
        address = {"variant": variant, "metric": metric, "group": key, "facts": {"family": family}}
        yield from rows_at(address, each, "losses.", spreads[family, key, metric])


def _alone(value: float, beside: Estimate, reason: str = ALONE) -> Estimate:
    """A number without an interval, that rests on what another one rests on."""
    return undefined(reason, value=value, n=beside.n, members=beside.members)


def _curves(plan: RobustnessPlan, seen: Seen) -> Iterator[dict[str, Any]]:
    for variant in plan.members:
        own = seen.right[variant]
        for family, places in plan.families.items():
            for severity in (0, *plan.severities):
                of = (places, plan.draws_of(severity)) if severity else ()
                yield from rows_at(
                    {"variant": variant, "facts": {"family": family, "severity": severity}},
                    {"accuracy": own.accuracy(*of)},
                    "curves.",
                )


def _of_corruptions(plan: RobustnessPlan, seen: Seen) -> Iterator[dict[str, Any]]:
    """One address a variant and corruption, and one of all standard ones."""
    every = {kind: [place] for place, kind in enumerate(plan.kinds)}
    if standard := plan.families.get(ALL_KINDS):
        every[ALL_KINDS] = standard
    dense = seen.right["dense"]
    for variant in plan.members:
        own = seen.right[variant]
        for kind, places in every.items():
            numbers = _accuracies(own, places)
            if seen.top5:
                top5 = _accuracies(seen.top5[variant], places)
                numbers |= {f"top5_{name}": one for name, one in top5.items()}
            if variant != "dense":
                numbers["ce"] = corruption_error(dense, own, places)
                if kind != ALL_KINDS:
                    numbers["relative_ce"] = relative_corruption_error(dense, own, places[0])
            numbers["alexnet_ce"] = _over_alexnet(plan, own, places)
            yield from rows_at(
                {"variant": variant, "facts": {"kind": kind}}, numbers, "by_corruption."
            )


def _accuracies(own: RightAnswers, places: list[int]) -> dict[str, Estimate | None]:
    """Accuracy under some corruptions, and as a percentage of that on clean pictures."""
    members, accuracy = own.corrupted[places].mean(axis=(0, 2)).T, own.accuracy(places)
    relative = float(relative_robustness(members, own.clean.mean(axis=0)))
    why = "undefined (no right answer on clean pictures)" if math.isnan(relative) else ALONE
    return {"accuracy": accuracy, "relative_robustness": _alone(relative, accuracy, why)}


def _over_alexnet(plan: RobustnessPlan, own: RightAnswers, places: list[int]) -> Estimate | None:
    """Errors over those of AlexNet, where the pictures are those that it saw."""
    published = load("common_corruptions").alexnet.column("error")
    kinds = [plan.kinds[place] for place in places]
    if plan.config.published is None or not published.keys() >= set(kinds):
        return None
    if len(kinds) not in (1, len(published)):  # a mean over fewer is no mCE
        return None
    return errors_over(own, places, [float(published[kind] or 0) for kind in kinds])


def _floor(plan: RobustnessPlan, dense: RightAnswers) -> Iterator[dict[str, Any]]:
    """One half of the dense members beside the other, as if it were compressed."""
    members = dense.clean.shape[1]
    if members < HALVES:
        return
    half = members // 2
    first, second = (
        replace(dense, clean=dense.clean[:, own], corrupted=dense.corrupted[..., own], axis=axis)
        for own, axis in ((slice(half), dense.axis), (slice(half, 2 * half), COMPRESSED))
    )
    for family, own in plan.families.items():
        sides = first.under(own).means(), second.under(own).means()
        floor = amplified_loss(*sides, "absolute")[0]
        yield from rows_at({"facts": {"family": family}}, {"floor": floor})


def _distortion(plan: RobustnessPlan, seen: Seen) -> Iterator[dict[str, Any]]:
    for family, places in plan.families.items():
        each = seen.distances[places].mean(axis=(0, 1))
        for key, group in seen.groups():
            yield from rows_at(
                {"group": key, "facts": {"family": family}},
                {
                    name: seen.units.mean(each[:, part], group, flip=None).estimate(members=0)
                    for part, name in enumerate(("change", "similarity"))
                },
                "distortion.",
            )


def _matched(plan: RobustnessPlan, seen: Seen) -> Iterator[dict[str, Any]]:
    """Compare variants with what they were matched with, as if this were dense."""
    for variant, match in plan.matched:
        own, other = seen.right[variant], replace(seen.right[match], axis="matched")
        for family, places in plan.families.items():
            sides = other.under(places).means(), own.under(places).means()
            yield from rows_at(
                {"variant": variant, "facts": {"family": family, "matched": match}},
                {"clean": own.accuracy(), "matched_clean": other.accuracy()}
                | {str(scale): amplified_loss(*sides, scale)[0] for scale in SCALES},
                "matched.",
            )


def corruption_error(
    dense: RightAnswers, compressed: RightAnswers, corruptions: Sequence[int]
) -> Estimate:
    """Error summed over severities, over that of dense, mean over corruptions: CE of one, mCE.

    Args:
        dense: Right answers of the dense members.
        compressed: The same of the compressed members.
        corruptions: Places of the corruptions that count.

    Returns:
        A ratio (papers print 100 times as much), its interval on the log scale.

    References:
        Hendrycks and Dietterich (2019), section 4.

    >>> labels = np.zeros(40)
    >>> dense = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 8, labels)
    >>> both = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 16, labels)
    >>> round(corruption_error(dense, both, [0]).value, 12)
    2.0
    """
    below, above = ([_error(own, k) for k in corruptions] for own in (dense, compressed))
    for who, errors in (("dense", below), ("compressed", above)):
        if not all(error.value for error in errors):
            reason = f"undefined (the {who} models make no error under it)"
            members = min(one.members for one in (*below, *above))
            return undefined(reason, n=errors[0].n, members=members)
    ratio = _mean([c / d for d, c in zip(below, above, strict=True)])
    both = math.prod(float(np.mean([error.value for error in errors])) for errors in (below, above))
    return ratio.floored(ratio.value / math.sqrt(both)).estimate("ratio")


def relative_corruption_error(
    dense: RightAnswers, compressed: RightAnswers, corruption: int
) -> Estimate:
    """What a corruption adds to the clean error, over what it adds to that of dense.

    Returns:
        A plain ratio of differences: undefined where the interval of the dense one reaches 0.

    References:
        Hendrycks and Dietterich (2019), section 4.
    """
    below, above = (
        replace(loss(own.under([corruption]).means(), "absolute"), events=math.nan)
        for own in (dense, compressed)
    )
    if not below.estimate().low > 0:
        shown = f"{100 * below.value:.1f} points"
        reason = f"undefined (what it costs the dense models, {shown}, may be nothing)"
        return undefined(reason, n=below.n, members=min(below.members, above.members))
    return (above / below).floored(1 / below.value).estimate()


def errors_over(
    own: RightAnswers, corruptions: Sequence[int], reference: Sequence[float]
) -> Estimate:
    """Compute the mean corruption error over published errors of a reference model.

    Args:
        own: Right answers of one population at the severities of the reference.
        corruptions: Places of the corruptions; one gives its CE, all fifteen mCE.
        reference: Error of the reference model under each, a fraction.

    Returns:
        A ratio (papers print 100 times as much), its interval on the log scale.

    References:
        Hendrycks and Dietterich (2019), section 4, with AlexNet as the reference.

    >>> half = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 20,
    ...     np.zeros(40))
    >>> errors_over(half, [0], [0.8]).value
    0.625
    """
    ratio = _mean([_error(own, k) / e for k, e in zip(corruptions, reference, strict=True)])
    if not ratio.value:
        reason = "undefined (the models make no error under it)"
        return undefined(reason, n=ratio.n, members=ratio.members)
    return ratio.estimate("ratio")


def _error(own: RightAnswers, corruption: int) -> Number:
    """Error under a corruption; no number of events tells whether a ratio of such can be had."""
    return replace(1 - own.under([corruption]).means()[1], events=math.nan)


def _mean(numbers: Sequence[Number]) -> Number:
    return sum(numbers[1:], start=numbers[0]) / len(numbers)
