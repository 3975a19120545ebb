"""What an audit of these examples can find, group by group, before any model is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from scotoma.config import Config
from scotoma.datasets import Examples
from scotoma.power import Design, Detectable, smallest_amplification
from scotoma.uncertainty.rates import FEW, FEWEST

__all__ = ["POWER", "GroupOutlook", "group_outlooks"]

POWER = 0.8


@dataclass(frozen=True)
class GroupOutlook:
    """One group of the test split, and what can be said of it.

    Attributes:
        key: `all`, `sex.male`, `sex.male & age.old`.
        name: The same for people.
        n: Test examples.
        units: The same in independent units: sources, where rows share them.
        train: Training examples.
        positives: Test examples of the positive class; None without one.
        errors: Expected errors of one member.
        effective_events: Expected for the error (`n_effective`).
        independent: Smallest relative increase of the error that is found between independent
            populations, a fraction; None if there is none, or no such variant.
        paired: The same for variants made of the dense members.
        reason: Why there is none, as a sentence to print; empty otherwise.
    """

    key: str
    name: str
    n: int
    units: int
    train: int
    positives: int | None
    errors: float
    effective_events: float
    independent: float | None
    paired: float | None
    reason: str

    @property
    def estimable(self) -> bool:
        """Whether enough examples are expected to carry the rate for an interval to hold."""
        return self.effective_events >= FEWEST

    @property
    def few(self) -> bool:
        """Whether the audit would show it with a warning."""
        return self.effective_events < FEW


def group_outlooks(
    config: Config,
    examples: Examples,
    error: float,
    *,
    tick: Callable[[int, int], None] = lambda done, of: None,
) -> list[GroupOutlook]:
    """Sizes of the groups and the smallest amplification that is found in each.

    Args:
        config: Decides the members, the positive class, and whether variants are paired.
        examples: Both splits.
        error: Share of a group's examples on which dense members are taken to err, in (0, 1).
        tick: Called before each group with how many are done, of how many.

    Returns:
        The groups of the test split in the order of the audit. Rows of one source count as one
        example, as if they were right or wrong together.
    """
    test, train = examples.split("test"), examples.split("train")
    groups, trained = test.partition(), train.partition()
    sizes = dict(zip(trained.keys, trained.masks.sum(axis=1).tolist(), strict=True))
    clusters, positive = test.clusters, config.label.positive
    labels = test.table["label"].to_numpy() == str(positive)
    variants = config.resolved_variants[1:]
    designs = [
        None if not any(v.paired == paired for v in variants) else paired
        for paired in (False, True)
    ]

    @cache
    def found(units: int, paired: bool) -> Detectable:
        return smallest_amplification(
            group_n=units, rate=error, members=config.population.models, paired=paired, power=POWER
        )

    outlooks = []
    for done, (key, name, mask) in enumerate(
        zip(groups.keys, groups.names, groups.masks, strict=True)
    ):
        tick(done, len(groups.keys))
        n = int(mask.sum())
        units = n if clusters is None else len(np.unique(clusters[mask]))
        answers: list[float | None] = [None, None]
        effective_events, reason = 0.0, f"it has {n} test example{'' if n == 1 else 's'}"
        if units >= 2:
            effective_events = Design(
                group_n=units, rate=error, members=config.population.models
            ).effective_events()[0]
            asked = [None if paired is None else found(units, paired) for paired in designs]
            answers = [None if a is None or math.isnan(a.relative) else a.relative for a in asked]
            reason = next((a.reason for a in asked if a is not None and a.reason), "")
        outlooks.append(
            GroupOutlook(
                key=key,
                name=name,
                n=n,
                units=units,
                train=sizes.get(key, 0),
                positives=None if positive is None else int((labels & mask).sum()),
                errors=n * error,
                effective_events=effective_events,
                independent=answers[0],
                paired=answers[1],
                reason=reason,
            )
        )
    return outlooks
