"""What is foreseen of an audit before it runs: what it sees, what it can find, what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from scotoma.config import Config
from scotoma.costs.estimate import WITHIN, AuditSize, StepCost
from scotoma.costs.images import ImageFacts
from scotoma.costs.measure import NetworkCost
from scotoma.costs.measuring import MeasuringCost
from scotoma.document.jsonable import jsonable
from scotoma.power.groups import POWER, GroupForecast
from scotoma.sources.reading import Survey

TIMED = ("train", "prune", "predict", "robustness")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class RobustnessForecast:
    """What the step on corrupted pictures and other test sets does, costs and finds.

    Attributes:
        examples: Test examples that are corrupted.
        conditions: Corruptions times severities times draws.
        models: Members of all variants that are run.
        on_the_way: Dense models on their way that are run on corrupted pictures, too, at most.
        cost: Its time and disk.
        smallest: The extra loss of each group, a fraction, that one family shows in 90% of audits;
            None where the group or the rest is too small to be compared.
        left_out: Corruptions that are not made.
        sets: Pictures of each other test set, by its name.
        external: Whether predictions on corrupted pictures are read, and no model is run.
    """

    examples: int
    conditions: int
    models: int
    on_the_way: int
    cost: StepCost
    smallest: dict[str, float | None]
    left_out: tuple[str, ...]
    sets: dict[str, int]
    external: bool


@dataclass(frozen=True)
class Plan:
    """Facts and estimates about an audit before it runs.

    Attributes:
        config: What is audited.
        survey: Its examples, without images.
        newest: Data and models that are the newest now; None where the source names them.
        size: Examples and classes.
        images: Their size.
        assumed: Error that the dense members are assumed to make, a fraction; None where their
            predictions were read.
        error: That error, or the one that they make.
        groups: Groups of the test split.
        steps: Costs of the pipeline's steps, by name; empty where the data cannot be audited.
        skipped: Names of the steps with nothing to do.
        network: What was measured.
        measuring: What the steps after the predictions take.
        free_memory: Bytes; None where the system does not tell.
        robustness: What is seen on corrupted pictures; None where none are made.
    """

    config: Config
    survey: Survey
    newest: str | None
    size: AuditSize
    images: ImageFacts
    assumed: float | None
    error: float
    groups: list[GroupForecast]
    steps: dict[str, StepCost]
    skipped: frozenset[str]
    network: NetworkCost
    measuring: MeasuringCost
    free_memory: int | None
    robustness: RobustnessForecast | None = None

    @property
    def clusters(self) -> int:
        """Independent test examples."""
        clusters = self.survey.examples.split("test").clusters
        return self.size.test if clusters is None else int(clusters.max()) + 1

    @property
    def notes(self) -> list[str]:
        """Notes on the data."""
        examples = self.survey.examples
        return [*examples.notes, *(note.sentence for note in examples.admission)]

    @property
    def totals(self) -> dict[str, Any]:
        """Time to train and predict, disk, memory; None where one is not known."""
        splits = (self.size.train_images, self.size.test_images) if self.steps else ()
        peak = self.network.peak_bytes
        return {
            "seconds": _total([self.steps[name].seconds for name in TIMED if name in self.steps]),
            "within_factor": WITHIN,
            "disk_bytes": _total([step.disk_bytes for step in self.steps.values()]),
            "memory_bytes": None if peak is None else peak * self.network.workers,
            "free_memory_bytes": self.free_memory,
            "temporary_bytes": max(
                (self.images.decoded_bytes(split) or 0 for split in splits), default=0
            ),
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything, as `--json` prints it."""
        size, images = self.size, self.images
        decoded = images.decoded_bytes(size.train_images + size.test_images)
        return {
            "version": 1,
            "project": self.config.project,
            "source": self.survey.origin,
            "newest": self.newest,
            "examples": {
                "test": size.test, "clusters": self.clusters, "train": size.train,
                "classes": size.classes, "notes": self.notes,
            },
            "join": jsonable(self.survey.join),
            "images": jsonable(images) | {"decoded_bytes": decoded},
            "assumed": {
                "error": self.assumed, "power": POWER, "members": self.config.population.models
            },
            "error": self.error,
            "groups": [
                jsonable(group) | {"estimable": group.estimable, "few": group.few}
                for group in self.groups
            ],
            "steps": [{"step": name, **jsonable(cost)} for name, cost in self.steps.items()],
            "total": self.totals,
            "network": jsonable(self.network),
            "measuring": jsonable(self.measuring) | {"within_factor": WITHIN},
            **({"robustness": jsonable(self.robustness)} if self.robustness else {}),
        }  # fmt: skip


def _total(values: list[Number | None]) -> Number | None:
    """Add values; None where there is none, or one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if values and len(known) == len(values) else None
