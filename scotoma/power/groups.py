"""How small a rise of its error can an audit find in each group, before any model is trained?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from scotoma.config import Config
from scotoma.datasets import AuditedExamples
from scotoma.numbers import Estimate
from scotoma.numbers.enough import FEW, FEWEST
from scotoma.power.forecast import forecast
from scotoma.power.model import Design

POWER = 0.8
NO_LABELS = "the examples have no labels"


@dataclass(frozen=True)
class GroupForecast:
    """One group of the test split, and what an audit can find in it.

    Attributes:
        key: Key of the group, as in audit.json.
        name: The same for people.
        n: Test examples.
        clusters: Independent ones among them: examples of one cluster count once.
        train: Training examples.
        positives: Test examples of the positive class; None without one.
        errors: Expected errors of one member; 0 where no label tells them.
        effective_events: Effective number of clusters that are expected to carry the error.
        independent: Smallest relative rise of the error that is found between independent
            populations, a fraction; None if there is none, or no such variant.
        paired: The same for variants made of the dense members.
        reason: Why there is none, as a sentence to print; empty otherwise.
    """

    key: str
    name: str
    n: int
    clusters: int
    train: int
    positives: int | None
    errors: float
    effective_events: float
    independent: float | None
    paired: float | None
    reason: str

    @property
    def estimable(self) -> bool:
        """Whether the audit is expected to show an interval."""
        return self.effective_events >= FEWEST

    @property
    def few(self) -> bool:
        """Whether the audit is expected to show a warning, or no interval."""
        return self.effective_events < FEW


def forecast_groups(
    config: Config,
    examples: AuditedExamples,
    error: float | NDArray[np.float64],
    *,
    tick: Callable[[int, int], None] = lambda done, of: None,
) -> list[GroupForecast]:
    """Compute the sizes of the groups and the smallest rise that is found in each.

    Args:
        config: Decides the members, the positive class, and whether variants are paired.
        examples: Both splits.
        error: Error that the dense members are assumed to make in every group, in (0, 1); or the
            error that they make on each test example, shape (N,).
        tick: Called before each group and after the last with how many are done, and of how many.

    Returns:
        The groups of the test split in the order of the audit. Examples of one cluster count as
        one, as if they were right or wrong together. Without labels no rise can be found.
    """
    test, train = examples.split("test"), examples.split("train")
    groups, trained = test.partition(), train.partition()
    sizes = dict(zip(trained.keys, trained.masks.sum(axis=1).tolist(), strict=True))
    cluster_ids, positive = test.clusters, config.label.positive
    labels = None
    if positive is not None and test.labelled:
        labels = test.table["label"].to_numpy() == str(positive)
    variants = config.resolved_variants[1:]
    members = config.population.models

    @cache
    def smallest(clusters: int, rate: float, paired: bool) -> Estimate | None:
        if not any(variant.paired == paired for variant in variants):
            return None
        design = Design(group_n=clusters, rate=rate, members=members, paired=paired)
        return forecast(design, power=POWER)

    forecasts = []
    for done, (key, name, mask) in enumerate(
        zip(groups.keys, groups.names, groups.masks, strict=True)
    ):
        tick(done, len(groups.keys))
        n = int(mask.sum())
        clusters = n if cluster_ids is None else len(np.unique(cluster_ids[mask]))
        rate = error if isinstance(error, float) else float(error[mask].mean()) if n else 0.0
        rises: list[float | None] = [None, None]
        effective_events, reason = 0.0, f"it has {n} test example{'' if n == 1 else 's'}"
        if not test.labelled:
            reason = NO_LABELS
        elif clusters >= 2 and not 0 < rate < 1:
            reason = f"the dense members err on {'none' if rate == 0 else 'all'} of its examples"
        elif clusters >= 2:
            design = Design(group_n=clusters, rate=rate, members=members)
            effective_events = design.effective_events()[0]
            answers = [smallest(clusters, rate, paired) for paired in (False, True)]
            rises = [None if a is None or math.isnan(a.value) else a.value for a in answers]
            reason = next((a.reason for a in answers if a is not None and a.reason), "")
        forecasts.append(
            GroupForecast(
                key=key,
                name=name,
                n=n,
                clusters=clusters,
                train=sizes.get(key, 0),
                positives=None if labels is None else int((labels & mask).sum()),
                errors=n * rate if test.labelled else 0.0,
                effective_events=effective_events,
                independent=rises[0],
                paired=rises[1],
                reason=reason,
            )
        )
    tick(len(groups.keys), len(groups.keys))
    return forecasts
