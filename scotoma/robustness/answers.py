"""What do the files of a run hold of what its members said of clean, corrupted, other pictures?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.errors import DataError
from scotoma.numbers import Units
from scotoma.numbers.inputs import Array, Floats
from scotoma.predictions import Predictions
from scotoma.robustness.confidence import Familiarity, SetAnswers, TwoSets
from scotoma.robustness.losses import RightAnswers
from scotoma.robustness.measure import Seen
from scotoma.robustness.plan import RobustnessPlan, clean_energies_file, corrupted_file, set_file
from scotoma.robustness.predict import read_checkpoints
from scotoma.run import Run

Populations = Mapping[str, Array]


def open_seen(run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> Seen | None:
    """Read what members said of the examples that were corrupted; None where none was asked about.

    Args:
        run: Whose predictions are read, on clean and on corrupted pictures.
        plan: What was run.
        examples: The test examples.
    """
    if not plan.kinds and not plan.config.confidence:
        return None
    kept = examples.keep(np.isin(np.arange(len(examples.ids)), plan.rows))
    said = {name: Predictions.read(run.predictions(name), top5=True) for name in plan.members}
    clean: dict[str, Array] = {
        name: said[name].predicted[plan.rows, :members] for name, members in plan.members.items()
    }
    clean |= read_checkpoints(run, plan.on_the_way)
    corrupted, units = _corrupted(run, plan, "predicted"), Units.of(len(kept.ids), kept.clusters)

    def right(name: str, of_clean: Array, of_corrupted: Array) -> RightAnswers:
        return RightAnswers(of_clean, of_corrupted, units, plan.axis(name))

    truth, top5 = kept.labels[:, None], {}
    schemas = [pl.read_parquet_schema(corrupted_file(run, one)) for one in plan.conditions]
    if schemas and all("top5" in schema for schema in schemas):
        for name, under in _corrupted(run, plan, "top5").items():
            if name in said and (best := said[name].top5) is not None:
                of_clean = best[plan.rows, : plan.members[name]] == truth[:, None]
                top5[name] = right(name, of_clean.any(axis=2), under)
    positive = run.config.label.positive
    return Seen(
        partition=kept.partition(),
        positives=None
        if positive is None or len(kept.classes) > 2
        else kept.labels == kept.classes.index(str(positive)),
        right={name: right(name, clean[name] == truth, corrupted[name] == truth) for name in clean},
        top5=top5 if len(top5) == len(plan.members) else {},
        distances=np.stack(
            [_conditions(run, plan, name) for name in ("change", "similarity")], axis=-1
        ),
        differing={
            name: dict(_differing(plan, name, clean, corrupted, len(kept.classes)))
            for name in plan.members
            if name != "dense" and plan.kinds
        },
        scores=_scores(run, plan, said) if plan.config.confidence else {},
    )


def _conditions(run: Run, plan: RobustnessPlan, column: str) -> Array:
    """A column under each corruption and severity, shape (C, S, n, ...)."""
    paths = [corrupted_file(run, condition) for condition in plan.conditions]
    each = [pl.read_parquet(path, columns=[column])[column].to_numpy() for path in paths]
    members = sum((plan.members | plan.on_the_way).values())
    every = np.stack(each) if each else np.zeros((0, len(plan.rows), members))
    return every.reshape(len(plan.kinds), len(plan.severities) * plan.draws, *every.shape[1:])


def _corrupted(run: Run, plan: RobustnessPlan, column: str) -> dict[str, Array]:
    """The same by population."""
    return plan.by_population(_conditions(run, plan, column))


def _differing(
    plan: RobustnessPlan, variant: str, clean: Populations, corrupted: Populations, classes: int
) -> Iterator[tuple[int, dict[str, Floats]]]:
    """By severity, how far two populations differ on each picture, means over the corruptions."""
    for severity in (0, *plan.severities):
        dense, compressed = (
            corrupted[name][:, plan.draws_of(severity)].reshape(-1, *clean[name].shape)
            if severity
            else clean[name][None]
            for name in ("dense", variant)
        )
        each = [
            _apart(*pair, classes, paired=variant in plan.paired)
            for pair in zip(dense, compressed, strict=True)
        ]
        yield severity, {name: np.mean([one[name] for one in each], axis=0) for name in each[0]}


def _apart(dense: Array, compressed: Array, classes: int, *, paired: bool) -> dict[str, Floats]:
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


def _scores(
    run: Run, plan: RobustnessPlan, said: Mapping[str, Predictions]
) -> dict[str, dict[str, Familiarity]]:
    """How familiar pictures were to each member; minus the energy where models were run here."""
    measures = {"confidence": "score"} | ({} if plan.config.files else {"energy": "energy"})
    found = {}
    for measure, column in measures.items():
        if column == "energy":
            frame = pl.read_parquet(clean_energies_file(run), columns=[column])
            clean = plan.by_population(frame[column].to_numpy())
        else:
            clean = {name: _clean_scores(plan, name, said[name]) for name in plan.members}
        corrupted = _corrupted(run, plan, column)
        sets = {
            one.name: plan.by_population(
                pl.read_parquet(set_file(run, one), columns=[column])[column].to_numpy()
            )
            for one in plan.config.sets
        }
        found[measure] = {
            name: Familiarity(
                clean[name].astype(np.float64),
                corrupted[name].astype(np.float64),
                {key: own[name].astype(np.float64) for key, own in sets.items()},
            )
            for name in plan.members
        }
    return found


def _clean_scores(plan: RobustnessPlan, name: str, said: Predictions) -> Array:
    if said.scores is None:
        raise DataError(
            f"predictions of {name} hold no scores, which robustness.confidence needs; repeat "
            "the audit with keep_scores: true in another folder"
        )
    return said.scores[plan.rows, : plan.members[name]]


def open_sets(run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> Iterator[SetAnswers]:
    """Read what members said of other test sets, and of CIEs that others of them have chosen.

    Args:
        run: Whose predictions are read.
        plan: The sets and the members.
        examples: The test examples.
    """
    asked = [one for one in plan.config.sets if not one.foreign]
    if not asked and not plan.config.hard_sets:
        return
    said = {
        name: Predictions.read(run.predictions(name)).predicted[:, :members]
        for name, members in plan.members.items()
    }
    test = {name: own == examples.labels[:, None] for name, own in said.items()}
    for one in asked:
        frame = pl.read_parquet(set_file(run, one))
        labels = frame["label"].to_numpy()
        other = plan.by_population(frame["predicted"].to_numpy() == labels[:, None])
        yield SetAnswers(
            one.name,
            len(np.unique(labels)),
            one.mask,
            one.selected_against,
            {name: (test[name], other[name]) for name in plan.members},
            TwoSets.of(len(examples.labels), len(labels), examples.clusters),
        )
    for chosen in plan.config.hard_sets:
        # Models that chose the examples are at a floor there, whatever they are: only those of the
        # other seeds say how hard these are.
        half = min(said[name].shape[1] for name in ("dense", chosen)) // 2
        hard = score(said["dense"][:, :half], said[chosen][:, :half], len(examples.classes)).cie
        clusters = None if examples.clusters is None else examples.clusters[hard]
        yield SetAnswers(
            f"CIEs of {chosen}",
            len(np.unique(examples.labels[hard])),
            False,
            f"{half} models of dense and {half} of {chosen}",
            {
                name: (own[:, half:], own[hard, half:])
                for name, own in test.items()
                if own.shape[1] > half
            },
            TwoSets.of(len(hard), int(hard.sum()), examples.clusters, clusters),
        )
