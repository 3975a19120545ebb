"""From predictions on corrupted pictures to the section of audit.json that sums them up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma import progress
from scotoma.answers.groups import Groups
from scotoma.audit.robustness import ALL_KINDS
from scotoma.config import Config
from scotoma.corruptions import STANDARD, family_of
from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.inputs import Floats
from scotoma.jsonable import jsonable
from scotoma.numbers import Estimate
from scotoma.predictions import Predictions
from scotoma.published import common_corruptions
from scotoma.robustness import (
    RightAnswers,
    amplified_loss,
    corruption_errors,
    errors_over,
    example_mean,
    relative_robustness,
)
from scotoma.run import Run
from scotoma.stages.measures.confidence import confidence_report
from scotoma.stages.measures.family_losses import family_loss_rows
from scotoma.stages.measures.matched import matched_rows
from scotoma.stages.measures.other_sets import hard_set_reports, other_set_reports
from scotoma.stages.robustness.checkpoints import read_checkpoints

if TYPE_CHECKING:
    from scotoma.stages.robustness.plan import RobustnessPlan

__all__ = ["measure_robustness"]

HALVES = 4  # dense members from which one half is compared with the other
PICTURES = "of these pictures and models: the interval is over examples alone"
NOTHING_CORRUPTED: dict[str, Any] = {
    **dict.fromkeys(("curves", "by_corruption", "distortion"), ()),
    **{key: {} for key in ("losses", "floor", "disagreement")},
}
Labels = NDArray[np.unsignedinteger[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Answers:
    """Everything that members said, on the examples that were corrupted.

    Attributes:
        labels: True class ids, shape (n,).
        clusters: Id of each example's cluster; None where every row is its own.
        partition: The groups.
        positive: Id of the positive class; None without one, or of more than two classes.
        clean: By population, class ids on clean pictures, shape (n, K).
        corrupted: The same under each corruption and severity, shape (C, S, n, K); draws of one
            severity are further severities.
        distances: Change and similarity of each picture, shape (C, S, n, 2).
    """

    labels: NDArray[np.int64]
    clusters: NDArray[np.int64] | None
    partition: Groups
    positive: int | None
    clean: dict[str, Labels]
    corrupted: dict[str, Labels]
    distances: NDArray[np.float32]

    def right(self, population: str) -> RightAnswers:
        clean, corrupted = self.clean[population], self.corrupted[population]
        return RightAnswers.of(clean, corrupted, self.labels)

    def at_risk(self) -> dict[str, Mask]:
        """The examples at risk of each error; a missed negative is a false positive."""
        everyone = np.ones(len(self.labels), np.bool_)
        if self.positive is None:
            return {"error": everyone}
        positives = self.labels == self.positive
        return {"error": everyone, "fpr": ~positives, "fnr": positives}


def measure_robustness(run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> dict[str, Any]:
    """Measure all that the section holds.

    Args:
        run: Whose predictions are read, on clean and on corrupted pictures.
        plan: What was run.
        examples: The test examples.

    Returns:
        `audit.robustness.RobustnessReport` as JSON values.
    """
    content = {
        "profile": plan.profile.name if plan.profile else "predictions" if plan.kinds else None,
        "note": "" if plan.profile is None else plan.profile.note,
        "examples": len(plan.rows) if plan.kinds else 0,
        "test": len(examples.ids),
        "severities": plan.severities,
        "corruption_seeds": plan.draws,
        "members": plan.members,
        "corruptions": [
            {"kind": kind, "family": family_of(kind), "standard": kind in STANDARD}
            for kind in plan.kinds
        ],
        "left_out": plan.left_out,
        **(_of_corrupted(run, plan, examples) if plan.kinds else NOTHING_CORRUPTED),
        **({} if plan.kinds else {"confidence": _of_clean(run, plan, examples)}),
        "sets": [
            *other_set_reports(run, plan, examples),
            *hard_set_reports(run, plan, examples),
        ],
    }
    whole: dict[str, Any] = jsonable(content)
    return whole


def _of_corrupted(run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> dict[str, Any]:
    """Measure the fields of the section that corrupted pictures fill."""
    answers = _read(run, plan, examples)
    config, families = run.config, _families(plan)
    right = {name: answers.right(name) for name in plan.members}
    compressed = [v for v in config.resolved_variants if v.name != "dense"]
    progress.start("measure robustness", len(compressed))
    ranked = _top5(run, plan, answers)
    losses, differing = {}, {}
    rows = list(_of_corruptions(plan, answers, right, ranked, config))
    for variant in compressed:
        losses[variant.name] = family_loss_rows(
            (right["dense"], right[variant.name]),
            (ranked["dense"], ranked[variant.name]) if ranked else None,
            families,
            answers.partition,
            answers.at_risk(),
            clusters=answers.clusters,
            draws=plan.draws,
            paired=variant.paired,
        )
        differing[variant.name] = _disagreement(
            answers, variant.name, plan, len(examples.classes), paired=variant.paired
        )
        progress.advance("measure robustness")
    confidence = None
    if plan.config.confidence:
        confidence = confidence_report(
            run, plan, right, families, answers.partition, answers.clusters
        )
    return {
        "curves": list(_curves(plan, answers, right, families)),
        "by_corruption": rows,
        "losses": losses,
        "floor": _floor(answers, right["dense"], families),
        "distortion": list(_distortion(answers, families)) if plan.profile else [],
        "disagreement": differing,
        "confidence": confidence,
        "matched": list(matched_rows(plan, answers.right, families, answers.clusters)),
    }


def _of_clean(run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> dict[str, Any] | None:
    """Measure how sure models are of clean pictures and of other sets, where none is corrupted."""
    if not plan.config.confidence:
        return None
    kept = examples.keep(np.isin(np.arange(len(examples.ids)), plan.rows))
    right = {}
    for name, members in plan.members.items():
        clean = Predictions.read(run.predictions(name)).predicted[plan.rows, :members]
        own = clean == kept.labels[:, None]
        right[name] = RightAnswers(own, np.zeros((0, 0, *own.shape), np.bool_))
    return confidence_report(run, plan, right, {}, kept.partition(), kept.clusters)


def _read(run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> _Answers:
    from scotoma.stages.robustness.corrupted import corrupted_file

    chosen = np.zeros(len(examples.ids), np.bool_)
    chosen[plan.rows] = True
    kept = examples.keep(chosen)
    clean = {
        name: Predictions.read(run.predictions(name)).predicted[plan.rows, :members]
        for name, members in plan.members.items()
    }
    clean |= read_checkpoints(run, plan.on_the_way)
    frames = [pl.read_parquet(corrupted_file(run, condition)) for condition in plan.conditions]
    of_each = len(plan.severities) * plan.draws
    shape = (len(plan.kinds), of_each, len(plan.rows))
    predicted = np.stack([frame["predicted"].to_numpy() for frame in frames]).reshape(*shape, -1)
    distances = np.stack([frame.select("change", "similarity").to_numpy() for frame in frames])
    positive = run.config.label.positive
    return _Answers(
        labels=kept.labels,
        clusters=kept.clusters,
        partition=kept.partition(),
        positive=None
        if positive is None or len(kept.classes) > 2
        else kept.classes.index(str(positive)),
        clean=clean,
        corrupted=plan.by_population(predicted),
        distances=distances.reshape(*shape, 2),
    )


def _top5(run: Run, plan: RobustnessPlan, answers: _Answers) -> dict[str, RightAnswers]:
    """Whether labels are among five classes, by variant; empty where any of these is not known."""
    from scotoma.stages.robustness.corrupted import corrupted_file

    clean = {name: Predictions.read(run.predictions(name), top5=True).top5 for name in plan.members}
    paths = [corrupted_file(run, condition) for condition in plan.conditions]
    frames = [pl.scan_parquet(path) for path in paths]
    there = all("top5" in frame.collect_schema() for frame in frames)
    if not there or any(best is None for best in clean.values()):
        return {}
    every = np.stack([frame.select("top5").collect()["top5"].to_numpy() for frame in frames])
    every = every.reshape(*answers.distances.shape[:3], -1)
    corrupted, truth = plan.by_population(every), answers.labels[:, None, None]
    return {
        name: RightAnswers((best[plan.rows, :members] == truth).any(axis=2), corrupted[name])
        for (name, members), best in zip(plan.members.items(), clean.values(), strict=True)
        if best is not None
    }


def _families(plan: RobustnessPlan) -> dict[str, list[int]]:
    """Places of the corruptions of each family, and of all standard ones."""
    families: dict[str, list[int]] = {}
    for place, kind in enumerate(plan.kinds):
        families.setdefault(family_of(kind), []).append(place)
        if kind in STANDARD:
            families.setdefault(ALL_KINDS, []).append(place)
    order = [name for name in families if name != ALL_KINDS]
    return {name: families[name] for name in ([ALL_KINDS] if ALL_KINDS in families else []) + order}


def _severity(plan: RobustnessPlan, severity: int) -> list[int]:
    """Places of the draws of one severity."""
    draws = plan.draws
    first = plan.severities.index(severity) * draws
    return list(range(first, first + draws))


def _curves(
    plan: RobustnessPlan,
    answers: _Answers,
    right: Mapping[str, RightAnswers],
    families: Mapping[str, list[int]],
) -> Iterator[dict[str, Any]]:
    for variant, own in right.items():
        clean = own.accuracy([], clusters=answers.clusters)
        for family, places in families.items():
            yield {"variant": variant, "family": family, "severity": 0, "accuracy": clean}
            for severity in plan.severities:
                accuracy = own.accuracy(
                    places, _severity(plan, severity), clusters=answers.clusters
                )
                point = {"variant": variant, "family": family, "severity": severity}
                yield point | {"accuracy": accuracy}


def _of_corruptions(
    plan: RobustnessPlan,
    answers: _Answers,
    right: Mapping[str, RightAnswers],
    ranked: Mapping[str, RightAnswers],
    config: Config,
) -> Iterator[dict[str, Any]]:
    """One row a variant and corruption, and one of all standard ones."""
    standard = [place for place, kind in enumerate(plan.kinds) if kind in STANDARD]
    everything = {kind: [place] for place, kind in enumerate(plan.kinds)}
    everything |= {ALL_KINDS: standard} if standard else {}
    for variant, own in right.items():
        errors = None
        if variant != "dense":
            paired = config.variant(variant).paired
            errors = corruption_errors(
                right["dense"], own, range(len(plan.kinds)), clusters=answers.clusters,
                paired=paired,
            )  # fmt: skip
            of_all = corruption_errors(
                right["dense"], own, standard, clusters=answers.clusters, paired=paired
            ) if standard else None  # fmt: skip
        for place, (kind, places) in enumerate(everything.items()):
            every = kind == ALL_KINDS
            accuracy, relative = _accuracies(own, places, answers)
            top5, top5_relative = (
                _accuracies(ranked[variant], places, answers) if ranked else (None, None)
            )
            ce = None
            if errors is not None:
                ce = of_all.mce if every and of_all is not None else errors.ce[place]
            yield {
                "variant": variant,
                "kind": kind,
                "accuracy": accuracy,
                "relative_robustness": relative,
                "top5_accuracy": top5,
                "top5_relative_robustness": top5_relative,
                "ce": ce,
                "relative_ce": None if errors is None or every else errors.relative_ce[place],
                "alexnet_ce": _over_alexnet(plan, own, places, answers.clusters),
            }


def _accuracies(own: RightAnswers, places: list[int], answers: _Answers) -> tuple[Estimate, float]:
    """Accuracy under some corruptions, and as a percentage of that on clean pictures."""
    members = own.corrupted[places].mean(axis=(0, 2)).T
    relative = float(relative_robustness(members, own.clean.mean(axis=0)))
    return own.accuracy(places, clusters=answers.clusters), relative


def _over_alexnet(
    plan: RobustnessPlan, own: RightAnswers, places: list[int], clusters: NDArray[np.int64] | None
) -> Estimate | None:
    """Errors over those of AlexNet, where the pictures are those that it saw."""
    published = common_corruptions().alexnet.column("error")
    kinds = [plan.kinds[place] for place in places]
    if plan.config.published is None or not published.keys() >= set(kinds):
        return None
    if len(kinds) not in (1, len(published)):  # a mean over fewer is no mCE
        return None
    reference = [float(published[kind] or 0) for kind in kinds]
    return errors_over(own, places, reference, clusters=clusters)


def _floor(
    answers: _Answers, dense: RightAnswers, families: Mapping[str, list[int]]
) -> dict[str, Any]:
    """One half of the dense members beside the other, as if it were compressed."""
    half = dense.members // 2
    if dense.members < HALVES:
        return {}
    parts = [
        RightAnswers(dense.clean[:, members], dense.corrupted[..., members])
        for members in (slice(half), slice(half, 2 * half))
    ]
    return {
        family: amplified_loss(
            parts[0].under(places), parts[1].under(places), clusters=answers.clusters
        ).estimates["absolute"]
        for family, places in families.items()
    }


def _distortion(answers: _Answers, families: Mapping[str, list[int]]) -> Iterator[dict[str, Any]]:
    for family, places in families.items():
        each = answers.distances[places].mean(axis=(0, 1))
        for key, group in zip(answers.partition.keys, answers.partition.masks, strict=True):
            change, similarity = (
                example_mean(each[:, part], group, clusters=answers.clusters, members=0)
                for part in (0, 1)
            )
            yield {"group": key, "family": family, "change": change, "similarity": similarity}


def _disagreement(
    answers: _Answers, variant: str, plan: RobustnessPlan, classes: int, *, paired: bool
) -> list[dict[str, Any]]:
    """CIEs, taxicab and flips by severity, means over the corruptions."""
    dense, compressed = (
        (answers.clean[name], answers.corrupted[name]) for name in ("dense", variant)
    )
    members = min(own[0].shape[1] for own in (dense, compressed))
    rows = []
    for severity in (0, *plan.severities):
        if severity:
            places = _severity(plan, severity)
            pairs = [
                (before, after)
                for before, after in zip(
                    dense[1][:, places].reshape(-1, *dense[0].shape),
                    compressed[1][:, places].reshape(-1, *compressed[0].shape),
                    strict=True,
                )
            ]
        else:
            pairs = [(dense[0], compressed[0])]
        each = [_differing(*pair, classes, paired=paired) for pair in pairs]
        means = {
            name: example_mean(
                np.mean([one[name] for one in each], axis=0), clusters=answers.clusters,
                members=members, note=PICTURES, share=True,
            )
            for name in each[0]
        }  # fmt: skip
        rows.append({"severity": severity} | means)
    return rows


def _differing(
    dense: Labels, compressed: Labels, classes: int, *, paired: bool
) -> dict[str, Floats]:
    """How far two populations differ on each picture, fractions; flips by pair of members."""
    scores = score(dense, compressed, classes)
    if not paired:
        dense, compressed = dense[:, :, None], compressed[:, None, :]
    apart = dense != compressed
    return {
        "cie_share": scores.cie.astype(np.float64),
        "taxicab": scores.taxicab / (2 * scores.dense_members),
        "flips": apart.reshape(len(apart), -1).mean(axis=1),
    }
