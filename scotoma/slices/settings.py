"""Which settings does a search take, what are their defaults, and what is refused?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from scotoma.errors import DataError
from scotoma.numbers.inputs import StatisticsProtocol
from scotoma.numbers.multiplicity import Correction
from scotoma.printable import nearest
from scotoma.slices.judging.evidence import Direction
from scotoma.slices.outcomes import SLICE_METRICS, MetricName, SliceMetric

Mode = Literal["cover", "batch", "iterative", "priority"]
Order = Literal["p-value", "breadth-first", "random"]
Reference = Literal["rest", "whole", "baseline"]

PUBLISHED: dict[str, Any] = {
    "mode": "batch",
    "min_size": 1,
    "alpha": 0.01,
    "correction": "none",
    "bootstrap": 20,
}
UNTOLD = {"limit", "max_candidates", "memory_gib", "threads"}
VISITS = {"budget", "iterations", "order"}  # of priority mode alone


class SearchRules(BaseModel):
    """The keys of a search: their values, bounds and defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mode: Mode = "cover"
    metric: MetricName = "error"
    direction: Direction | None = None
    reference: Reference | None = None
    paired: bool = False
    protocol: StatisticsProtocol = "sound"
    max_cross: int = Field(3, ge=1, le=4)
    min_size: int = Field(30, ge=1)
    alpha: float = Field(0.05, gt=0, lt=1)
    correction: Correction = "bh"
    bootstrap: int = Field(200, ge=2)
    level: float = Field(0.95, gt=0, lt=1)
    confirm: bool = True
    permutations: int = Field(20, ge=0)
    seed: int = Field(0, ge=0)
    max_categories: int = Field(100, ge=1, le=250)
    bins: int = Field(10, ge=2, le=250)
    budget: int | None = Field(None, ge=1)
    iterations: int = Field(5, ge=1)
    order: Order = "p-value"
    limit: int = Field(1000, ge=1)
    max_candidates: int = Field(10**8, ge=1)
    memory_gib: float = Field(1.0, gt=0)
    threads: int | None = Field(None, ge=1)


class SearchSettings(SearchRules):
    """All that decides a search but its data; a setting that is None is the protocol's own.

    Attributes:
        metric: What is compared: `error`, `accuracy`, `flip`, `loss`, `taxicab`, `mean`, `fpr`,
            `fnr`, `recall`, `precision`, `f1` or `auc`.
        mode: `cover`: the most significant slice, then the most significant of the rows it leaves,
            and so on. `batch`: all significant slices that lie below no other. `iterative`: the
            same without children of significant or too small slices. `priority`: children of the
            slices with the smallest p-values first, within a budget. Published: `batch`.
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

    >>> SearchSettings().min_size, SearchSettings(protocol="published", alpha=None).alpha
    (30, 0.01)
    """

    def __init__(self, **values: Any) -> None:
        from scotoma.config.sheet import sentence

        chosen = {name: value for name, value in values.items() if value is not None}
        if chosen.get("protocol") == "published":
            chosen = PUBLISHED | chosen
        try:
            super().__init__(**chosen)
        except ValidationError as error:
            faults = [(".".join(map(str, one["loc"])), {**one}) for one in error.errors()]
            told = [_of_choices(path, fault) or sentence(path, fault) for path, fault in faults]
            raise DataError("; ".join(dict.fromkeys(told))) from error

    @property
    def measured(self) -> SliceMetric:
        """The metric."""
        return SLICE_METRICS[self.metric]

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
        idle = UNTOLD if self.mode == "priority" else UNTOLD | VISITS
        told = dict.fromkeys(VISITS) | self.model_dump(exclude=idle)
        decided = {"direction": self.side, "reference": self.compares_with(baseline)}
        return told | decided | {"confirm": self.confirms}


class SearchFile(SearchRules):
    """What `scotoma slices --settings` reads: the settings, and where the search runs.

    Attributes:
        runner: `beam` for tables that no machine holds; None for this machine.
        beam_options: Options of Apache Beam, such as `--runner=FlinkRunner`.
    """

    runner: Literal["beam"] | None = None
    beam_options: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        idle = VISITS & self.model_fields_set
        if idle and self.mode != "priority":
            raise ValueError(
                f"{min(idle)} is for mode: priority, got mode: {self.mode}; leave it out"
            )
        if self.beam_options and self.runner is None:
            raise ValueError("beam_options needs runner: beam; add it")
        return self


def load_settings(path: Path | None) -> SearchFile:
    """Read the file of a search; the defaults without one.

    Raises:
        ConfigError: The file cannot be read or breaks a rule; every fault is named with its line.
    """
    from scotoma.config.sheet import file_text

    return SearchFile() if path is None else parse_settings(file_text(path, "settings"), str(path))


def parse_settings(text: str, origin: str) -> SearchFile:
    r"""Check the text of such a file; `origin` is what messages call it.

    >>> parse_settings("mode: batch\nalpha: 5", "search.yaml")
    Traceback (most recent call last):
    ...
    scotoma.errors.ConfigError: search.yaml:2 alpha must be less than 1.0, got 5
    """
    from scotoma.config.sheet import checked

    return checked(
        text, origin, SearchFile, "the settings", {}, lambda key, _, fault: _of_choices(key, fault)
    )


def _of_choices(path: str, fault: Mapping[str, Any]) -> str:
    """What is wrong with a word that is none of those known; empty for other faults."""
    if fault["type"] != "literal_error":
        return ""
    known = [one.strip("'") for one in fault["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    value = fault["input"]
    return f"{path} must be one of {', '.join(known)}, got {value!r}{nearest(str(value), known)}"
