"""Fit a technique's rules on one half of an audit's examples, and decide on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scotoma import progress
from scotoma.config.techniques import AFTERWARDS
from scotoma.datasets import AuditedExamples
from scotoma.errors import ConfigError, DataError
from scotoma.mitigation import decide
from scotoma.mitigation.held_out import judged_half
from scotoma.numbers.inputs import Flags, Ints
from scotoma.printable import nearest, printable
from scotoma.processes import worker_pool
from scotoma.processes.machine import cores
from scotoma.run import Run
from scotoma.run.finished import compressed_variant
from scotoma.steps.mitigation.outputs import member_outputs
from scotoma.steps.mitigation.refusals import refuse_heads

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Mitigated", "apply_technique", "clusters_of_halves", "group_codes",
    "judged_examples", "refuse_empty",
]  # fmt: skip


@dataclass(frozen=True)
class Mitigated:
    """A variant whose members decide by fitted rules.

    Attributes:
        name: `VARIANT+TECHNIQUE`.
        variant: The variant before.
        technique: One of `AFTERWARDS`.
        attribute: Whose groups the rules were fitted with; empty where they need none.
        rules: One a model; of an ensemble one for all.
        judged: Whether each test example of the audit judges, shape (N,).
        clusters: Clusters among the examples that fit, and among those that judge.
        predicted: Class ids of the examples that judge, shape (judged, models).
        paired: Whether model k is made of member k.
    """

    name: str
    variant: str
    technique: str
    attribute: str
    rules: tuple[decide.Rule, ...]
    judged: Flags
    clusters: tuple[int, int]
    predicted: Ints
    paired: bool


def apply_technique(
    run: Run, technique: str, variant: str, attribute: str | None, *, together: int
) -> Mitigated:
    """Fit a rule for each member on one half of the test examples, and decide on the other.

    Args:
        run: A finished audit.
        technique: One of `AFTERWARDS`.
        variant: A compressed variant.
        attribute: Whose groups count, several joined by commas; None where there is one.
        together: Members of one ensemble.

    Raises:
        ConfigError: No such technique, variant or attribute, or too few members.
        DataError: The audit lacks what the technique needs.
    """
    _refuse_unknown(run, technique, variant)
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    if not examples.labelled:
        raise DataError("a rule is fitted on labels, and this audit has none; add label.column")
    if technique == "thresholds" and len(examples.classes) != 2:
        raise ConfigError(
            f"thresholds decide between two classes, and this audit has {len(examples.classes)}; "
            "take --technique offsets"
        )
    needs = decide.rule_needs(technique)
    by = _attributes(examples, attribute, technique) if needs.attributes != "never" else []
    names, group = group_codes(examples, by)
    labels, judged = examples.labels, judged_examples(run, examples)
    if by:
        refuse_empty(labels[~judged], group[~judged], names, examples.classes, technique)
    outputs = member_outputs(run, variant, features=technique == "dfr")
    fits = outputs[:, ~judged], labels[~judged], group[~judged]
    predicted, rules = _decided(technique, outputs[:, judged], group[judged], fits, together)
    return Mitigated(
        name=f"{variant}+{technique}",
        variant=variant,
        technique=technique,
        attribute=",".join(by),
        rules=rules,
        judged=judged,
        clusters=clusters_of_halves(examples, judged),
        predicted=predicted,
        paired=technique != "ensemble" and run.config.variant(variant).paired,
    )


def judged_examples(run: Run, examples: AuditedExamples) -> Flags:
    """Draw the test examples that judge: the same half, whatever is chosen on the other.

    Args:
        run: Its seed decides.
        examples: Its test examples, with labels.

    Returns:
        Whether each of them judges, shape (N,).
    """
    _, cell = group_codes(examples, list(examples.attributes))
    strata = cell * len(examples.classes) + examples.labels
    return judged_half(strata, examples.clusters, run.config.population.seed)


def clusters_of_halves(examples: AuditedExamples, judged: Flags) -> tuple[int, int]:
    """Count the clusters among the examples that fit or choose, and among those that judge."""
    ids = np.arange(len(judged)) if examples.clusters is None else examples.clusters
    return len(np.unique(ids[~judged])), len(np.unique(ids[judged]))


def _decided(
    technique: str,
    judged: NDArray[np.float32],
    group: Ints,
    fits: tuple[NDArray[np.float32], Ints, Ints],
    together: int,
) -> tuple[Ints, tuple[decide.Rule, ...]]:
    """Class ids of the judging half, shape (judged, models), and the rules that gave them."""
    outputs, labels, groups = fits
    if technique == "ensemble":
        count = len(judged) // together
        if together < 2 or count < 1:
            raise ConfigError(
                f"--together must be from 2 to the number of members, {len(judged)}, got {together}"
            )
        rule = decide.fit("ensemble", outputs[:together], labels)
        parts = [judged[at * together : (at + 1) * together] for at in range(count)]
        return np.stack([rule(part) for part in parts], axis=1), (rule,)
    progress.start("fit rules", len(outputs))
    rules, columns = [], []
    # in processes of one thread: a small matrix shared out among threads stalls on a busy machine
    with worker_pool(min(cores(), len(outputs))) as pool:
        futures = [
            pool.submit(
                _fit_member, technique, (fit, labels, groups), (own, group), task="fitting a rule"
            )
            for fit, own in zip(outputs, judged, strict=True)
        ]
        for future in futures:
            rule, predicted = future.result()
            rules.append(rule)
            columns.append(predicted)
            progress.advance("fit rules")
    return np.stack(columns, axis=1), tuple(rules)


def _fit_member(
    technique: str,
    fits: tuple[NDArray[np.float32], Ints, Ints],
    judged: tuple[NDArray[np.float32], Ints],
) -> tuple[decide.Rule, Ints]:
    """Fit one member's rule, and decide with it."""
    rule = decide.fit(technique, *fits)
    return rule, rule(*judged)


def _refuse_unknown(run: Run, technique: str, variant: str) -> None:
    if technique not in AFTERWARDS:
        raise ConfigError(
            f"--technique must be one of {', '.join(AFTERWARDS)}, got {printable(technique)!r}"
            f"{nearest(technique, AFTERWARDS)}"
        )
    refuse_heads(run.config, "mitigate")
    compressed_variant(run, variant)


def _attributes(examples: AuditedExamples, asked: str | None, technique: str) -> list[str]:
    known = list(examples.attributes)
    if not known:
        raise ConfigError(
            f"{technique} needs groups, and this audit has none; name an attribute under groups "
            "and audit again, or take --technique ensemble"
        )
    if asked is None and len(known) > 1:
        raise ConfigError(f"--attribute must name one of {', '.join(known)}; several by commas")
    chosen = known if asked is None else asked.split(",")
    for name in chosen:
        if name not in known:
            raise ConfigError(
                f"--attribute must name one of {', '.join(known)}, got {printable(name)!r}"
                f"{nearest(name, known)}"
            )
    return chosen


def group_codes(examples: AuditedExamples, by: list[str]) -> tuple[list[str], Ints]:
    """Names of the groups that attributes form, and each example's."""
    rows = examples.table.select(by).iter_rows() if by else [()] * len(examples.ids)
    values = [",".join(f"{a}={v}" for a, v in zip(by, row, strict=True)) for row in rows]
    names, group = np.unique(values, return_inverse=True)
    return names.tolist(), group.astype(np.int64)


def refuse_empty(
    labels: Ints,
    group: Ints,
    names: list[str],
    classes: tuple[str, ...],
    technique: str,
) -> None:
    """Refuse groups without a class, or one group only, by their names."""
    if len(names) < 2:
        raise DataError(f"{technique} needs two groups or more, got {names[0]} only")
    counts = np.zeros((len(names), len(classes)), np.int64)
    np.add.at(counts, (group, labels), 1)
    if not counts.all():
        g, y = np.argwhere(counts == 0)[0]
        raise DataError(
            f"{technique} needs examples of every class in every group, got none of class "
            f"{printable(classes[y])!r} with {printable(names[g])} among the {len(labels):,} that "
            "fit it; add some, or name another --attribute"
        )
