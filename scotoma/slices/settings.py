"""Which settings does a search take, what are their defaults, and what is refused?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from scotoma.errors import DataError
from scotoma.numbers.inputs import StatisticsProtocol
from scotoma.printable import nearest
from scotoma.slices.judging.correction import Correction
from scotoma.slices.judging.evidence import Direction
from scotoma.slices.outcomes import SliceMetric, metric_named

__all__ = ["CHOICES", "Mode", "Order", "Reference", "SearchSettings"]

Mode = Literal["cover", "batch", "iterative", "priority"]
Order = Literal["p-value", "breadth-first", "random"]
Reference = Literal["rest", "whole", "baseline"]

PUBLISHED: dict[str, Any] = {"min_size": 1, "alpha": 0.01, "correction": "none", "bootstrap": 20}
CHOICES: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "protocol": get_args(StatisticsProtocol),
    "direction": get_args(Direction),
    "reference": get_args(Reference),
    "correction": get_args(Correction),
    "order": get_args(Order),
}
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "max_cross": ("between 1 and 4", lambda x: 1 <= x <= 4),
    "min_size": ("at least 1", lambda x: x >= 1),
    "alpha": ("a fraction in (0, 1)", lambda x: 0 < x < 1),
    "level": ("a fraction in (0, 1)", lambda x: 0 < x < 1),
    "bootstrap": ("at least 2", lambda x: x >= 2),
    "permutations": ("at least 0", lambda x: x >= 0),
    "budget": ("at least 1", lambda x: x is None or x >= 1),
    "iterations": ("at least 1", lambda x: x >= 1),
    "limit": ("at least 1", lambda x: x >= 1),
    "memory_gib": ("above 0", lambda x: x > 0),
    "threads": ("at least 1", lambda x: x is None or x >= 1),
}
UNTOLD = ("budget", "iterations", "order", "limit", "max_candidates", "memory_gib", "threads")


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """All that decides a search but its data.

    Attributes:
        metric: What is compared: `error`, `accuracy`, `flip`, `loss`, `taxicab`, `mean`, `fpr`,
            `fnr`, `recall`, `precision`, `f1` or `auc`.
        mode: `cover`: the most significant slice, then the most significant of the rows it leaves,
            and so on. `batch`: all significant slices that lie below no other. `iterative`: the
            same without children of significant or too small slices. `priority`: children of the
            slices with the smallest p-values first, within a budget.
        direction: `higher`, `lower` or `both`; None for the metric's worse side.
        reference: What a slice is compared with: the `rest` of the examples, the `whole`
            (published protocol, AUC), or the `baseline` on the same slice, which is the default
            where there is one. A `baseline` with `rest` asks where the change is worse than
            elsewhere.
        paired: Member m of the outcome derives from member m of the baseline.
        protocol: `published` for the rules of Liu et al. 2022; `sound` otherwise.
        max_cross: Largest number of predicates in a slice, 1 to 4.
        min_size: Smallest slice, in examples that count; published: 1.
        alpha: Level of the corrected p-values; published: 0.01.
        correction: Over all candidates tested: `bh`, `by`, `holm`, `bonferroni` or `none`;
            published: `none`.
        bootstrap: Draws, where the bootstrap serves; published: 20.
        level: Coverage of the intervals, a fraction in (0, 1).
        confirm: In cover mode: each half of the examples proposes slices, the other half decides.
        permutations: Searches of shuffled outcomes whose findings are printed beside the result;
            each costs about as much as the search itself.
        seed: Seed of halves, draws and permutations.
        max_categories: Values of a column with a predicate of their own, 1 to 250.
        bins: Bins of a numeric column, 2 to 250.
        budget: In priority mode: candidates an iteration; None for 12% of all, or 2,500 where
            `batch` would exceed `max_candidates`.
        iterations: In priority mode.
        order: In priority mode: whose children are visited first. `p-value`: those of the smallest;
            `breadth-first`: of the fewest predicates; `random`.
        limit: Slices that the report describes, the most significant first.
        max_candidates: Searches with more candidates are refused, save in priority mode.
        memory_gib: Bound on what the search holds at once beyond the data.
        threads: Blocks of candidates that are counted side by side; None for one a core in
            searches large enough to gain by it. No result depends on it.

    Raises:
        DataError: A value out of range, in one sentence.

    >>> SearchSettings().min_size, SearchSettings.of(protocol="published", alpha=None).alpha
    (30, 0.01)
    """

    mode: Mode = "cover"
    metric: str = "error"
    direction: Direction | None = None
    reference: Reference | None = None
    paired: bool = False
    protocol: StatisticsProtocol = "sound"
    max_cross: int = 3
    min_size: int = 30
    alpha: float = 0.05
    correction: Correction = "bh"
    bootstrap: int = 200
    level: float = 0.95
    confirm: bool = True
    permutations: int = 20
    seed: int = 0
    max_categories: int = 100
    bins: int = 10
    budget: int | None = None
    iterations: int = 5
    order: Order = "p-value"
    limit: int = 1000
    max_candidates: int = 10**8
    memory_gib: float = 1.0
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise DataError(
                    f"{name} must be one of {', '.join(choices)}, got {value!r}"
                    f"{nearest(str(value), choices)}"
                )
        metric_named(self.metric)
        for name, (rule, holds) in RULES.items():
            if not holds(getattr(self, name)):
                raise DataError(
                    f"{name} must be {rule}, got {getattr(self, name)}: leave it out for the "
                    "default"
                )

    @classmethod
    def of(cls, **options: Any) -> SearchSettings:
        """Collect settings by name; those that are None, or left out, are the protocol's own."""
        chosen = {name: value for name, value in options.items() if value is not None}
        defaults = PUBLISHED if chosen.get("protocol") == "published" else {}
        return cls(**(defaults | chosen))

    @property
    def measured(self) -> SliceMetric:
        """The metric."""
        return metric_named(self.metric)

    @property
    def side(self) -> Direction:
        """Which side counts."""
        return self.direction or self.measured.worse

    @property
    def confirms(self) -> bool:
        """Whether each half of the examples confirms what the other proposes."""
        return self.confirm and self.mode == "cover"

    def compares_with(self, baseline: bool) -> Reference:
        """Say what a slice is compared with, where there is a baseline or none.

        Raises:
            DataError: A reference that contradicts the metric, the protocol or the baseline.
        """
        whole = self.protocol == "published" or self.measured.kind == "auc"
        if self.reference is None:
            return "baseline" if baseline else ("whole" if whole else "rest")
        if self.reference == "baseline" and not baseline:
            raise DataError("reference 'baseline' needs a baseline, got none: pass baseline=")
        if self.reference == "whole" and (not whole or baseline):
            raise DataError(
                "reference 'whole' is for the published protocol and for auc, without a baseline, "
                f"got protocol {self.protocol!r} and metric {self.metric!r}: use reference='rest'"
            )
        if self.reference == "rest" and whole:
            raise DataError(
                "reference 'rest' is for the sound protocol and any metric but auc, got protocol "
                f"{self.protocol!r} and metric {self.metric!r}: leave reference out"
            )
        return self.reference

    def check_space(self, possible: int) -> None:
        """Refuse more candidates than may be searched; say how many there are and the ways out."""
        if self.mode != "priority" and possible > self.max_candidates:
            raise DataError(
                f"the search must stay within max_candidates={self.max_candidates:,}, got "
                f"{possible:,} candidate slices: use mode='priority', lower max_cross, pass fewer "
                "features, or raise max_candidates"
            )

    def as_dict(self, *, baseline: bool) -> dict[str, Any]:
        """Return what a report says of them, with what follows where there is a baseline or none.

        >>> SearchSettings().as_dict(baseline=True)["reference"]
        'baseline'
        """
        told = {name: value for name, value in asdict(self).items() if name not in UNTOLD}
        decided = {"direction": self.side, "reference": self.compares_with(baseline)}
        return told | decided | {"confirm": self.confirms}
