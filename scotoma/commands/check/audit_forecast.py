"""What is foreseen of an audit: facts and estimates, as `--json` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from scotoma.commands.check.forecast_groups import POWER, GroupForecast
from scotoma.costs.estimate import WITHIN, AuditSize, StepCost
from scotoma.costs.images import ImageFacts
from scotoma.costs.measure import NetworkCost
from scotoma.costs.measuring import MeasuringCost
from scotoma.datasets.join import Join
from scotoma.document.jsonable import jsonable
from scotoma.steps.robustness.forecast import RobustnessForecast

__all__ = ["AuditForecast"]

TIMED = ("train", "prune", "predict", "robustness")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class AuditForecast:
    """Facts and estimates about an audit before it runs.

    Attributes:
        project: Name of the audit.
        origin: What its data are called.
        newest: Data and models that are the newest now; None where the source names them.
        size: Examples and classes.
        clusters: Independent test examples.
        labelled: Whether they have labels.
        members: Members of a variant.
        independent: Whether a variant is compared with dense members that it is not made of.
        derived: Whether a variant is made of the dense members.
        notes: Notes on the data.
        join: Match of a table and a folder; None where images travel with their rows.
        images: Their size.
        assumed_error: Error that the dense members are assumed to make, a fraction; None where
            their predictions were read.
        error: That error, or the one that they make.
        groups: Groups of the test split.
        steps: Costs of the pipeline's steps, by name; empty where the data cannot be audited.
        skipped: Names of the steps with nothing to do.
        network: What was measured.
        measuring: What the steps after the predictions take.
        free_memory: Bytes; None where the system does not tell.
        robustness: What is seen on corrupted pictures; None where none are made.
    """

    project: str
    origin: str
    newest: str | None
    size: AuditSize
    clusters: int
    labelled: bool
    members: int
    independent: bool
    derived: bool
    notes: tuple[str, ...]
    join: Join | None
    images: ImageFacts
    assumed_error: float | None
    error: float
    groups: list[GroupForecast]
    steps: dict[str, StepCost]
    skipped: frozenset[str]
    network: NetworkCost
    measuring: MeasuringCost
    free_memory: int | None
    robustness: RobustnessForecast | None = None

    @property
    def has_training(self) -> bool:
        """Whether there are training examples; audits of predictions have none."""
        return self.size.train > 0

    @property
    def seconds(self) -> float | None:
        """Time to train and predict; None where it is not known."""
        return _total([self.steps[name].seconds for name in TIMED if name in self.steps])

    @property
    def disk_bytes(self) -> int | None:
        """Images, models and predictions; None where those of a step are not known."""
        return _total([step.disk_bytes for step in self.steps.values()])

    @property
    def memory_bytes(self) -> int | None:
        """All processes that train; None where that is not known."""
        peak = self.network.peak_bytes
        return None if peak is None else peak * self.network.workers

    @property
    def temporary_bytes(self) -> int:
        """Decoded images, of the split that has most of them."""
        splits = (self.size.train_images, self.size.test_images) if self.steps else ()
        return max((self.images.decoded_bytes(split) or 0 for split in splits), default=0)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as `--json` prints it."""
        test = {"test": self.size.test, "clusters": self.clusters, "train": self.size.train}
        return {
            "version": 1,
            "project": self.project,
            "source": self.origin,
            "newest": self.newest,
            "examples": {**test, "classes": self.size.classes, "notes": list(self.notes)},
            "join": jsonable(self.join),
            "images": jsonable(self.images)
            | {
                "decoded_bytes": self.images.decoded_bytes(
                    self.size.train_images + self.size.test_images
                )
            },
            "assumed": {"error": self.assumed_error, "power": POWER, "members": self.members},
            "error": self.error,
            "groups": [
                jsonable(group) | {"estimable": group.estimable, "few": group.few}
                for group in self.groups
            ],
            "steps": [{"step": name, **jsonable(cost)} for name, cost in self.steps.items()],
            "total": {
                "seconds": self.seconds,
                "within_factor": WITHIN,
                "disk_bytes": self.disk_bytes,
                "memory_bytes": self.memory_bytes,
                "free_memory_bytes": self.free_memory,
                "temporary_bytes": self.temporary_bytes,
            },
            "network": jsonable(self.network),
            "measuring": jsonable(self.measuring) | {"within_factor": WITHIN},
            **({"robustness": jsonable(self.robustness)} if self.robustness else {}),
        }


def _total(values: list[Number | None]) -> Number | None:
    """Add values; None where there is none, or one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if values and len(known) == len(values) else None
