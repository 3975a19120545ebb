"""Every estimate of an audit as one row: what it is about, its interval, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args

import polars as pl

from scotoma.audit.base import Part, Quantity, Spread
from scotoma.audit.document import Audit
from scotoma.audit.groups import ClassRow

__all__ = [
    "ADDRESS",
    "NUMBERS",
    "QUESTIONS",
    "SCHEMA",
    "Row",
    "audit_rows",
    "estimate_rows",
    "stored_rows",
]

NUMBERS = "numbers.parquet"
# Section of audit.json: the question that it answers.
QUESTIONS = {
    "accuracy": "accuracy", "divergence": "divergence", "classes": "impact", "subgroups": "rates",
    "unanswered": "rates", "gaps": "gaps", "clarify": "clarify", "run_to_run": "fairness",
    "slices": "slices", "labels": "labels", "precision": "boxes", "scores": "scores",
    "robustness": "robustness",
}  # fmt: skip
# What tells the rows of a section apart beside variant, metric, group and class.
CONDITIONS = (
    "attribute", "disadvantaged", "advantaged", "group_a", "group_b", "split", "subset", "text",
    "label", "name", "kind", "family", "severity", "share", "pictures", "other_set", "measure",
    "matched",
)  # fmt: skip
ADDRESS = ("question", "variant", "metric", "group", "class", "condition", "what")
VARIANCE = tuple(f"variance_{part}" for part in Spread.model_fields)
SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(ADDRESS, pl.String),
    **dict.fromkeys(("value", "low", "high", "level"), pl.Float64),
    **dict.fromkeys(("n", "models"), pl.Int64),
    "effective_events": pl.Float64,
    **dict.fromkeys(("reason", "note"), pl.String),
    **dict.fromkeys(("se", "df"), pl.Float64),
    "scale": pl.String,
    **dict.fromkeys(VARIANCE, pl.Float64),
}


class Row(NamedTuple):
    """One estimate and its address.

    Attributes:
        question: What is asked: `rates`, `divergence`, `impact`, ...
        variant: The variant; None where it is of none.
        metric: The metric; None where the question has one.
        group: Key of the group; None where it is of none.
        class_name: The class; None where it is of none.
        facts: What else tells it apart, names and values.
        what: Which of the estimates at an address it is: `dense`, `absolute`, ...
        number: The estimate.
        spread: Its variance, where the audit has the parts.
    """

    question: str
    variant: str | None
    metric: str | None
    group: str | None
    class_name: str | None
    facts: tuple[tuple[str, str | int | float], ...]
    what: str
    number: Quantity
    spread: Spread | None

    def fact(self, name: str) -> Any:
        """Look up what tells it apart; None where nothing is called so."""
        return dict(self.facts).get(name)

    @property
    def cells(self) -> tuple[Any, ...]:
        """The cells of `SCHEMA`."""
        condition = ", ".join(f"{name}={value}" for name, value in self.facts) or None
        number, spread = self.number, self.spread
        return (
            *self[:5], condition, self.what, number.value, number.low, number.high, number.level,
            number.n, number.members, number.effective_events, number.reason, number.note,
            number.se, number.df, number.scale,
            *(getattr(spread, part, None) for part in Spread.model_fields),
        )  # fmt: skip


def audit_rows(audit: Audit) -> pl.DataFrame:
    """Lay out every estimate of an audit.

    Args:
        audit: The audit.

    Returns:
        The columns of `SCHEMA`. `what` says which of the estimates at an address it is, such as
        `dense`, `compressed`, `absolute` (the change) and `relative`; `condition` what else tells
        it apart. A value or an end of an interval that is missing is null, and `reason` says why.
    """
    rows = [
        row.cells
        for question in dict.fromkeys(QUESTIONS.values())
        for row in estimate_rows(audit, question)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def estimate_rows(audit: Audit, question: str, variant: str | None = None) -> Iterator[Row]:
    """Yield the estimates that answer a question, in the order of audit.json.

    Args:
        audit: The audit.
        question: One of the values of `QUESTIONS`.
        variant: Leave out what stands below the name of another variant; None to leave out nothing.
    """
    variants = {one.name: variant in (None, one.name) for one in audit.variants}
    for section, own in QUESTIONS.items():
        if own == question:
            yield from _below(getattr(audit, section) or {}, _Place(question), variants)


def stored_rows(table: pl.DataFrame) -> Iterator[Row]:
    """Yield the rows of a table of `SCHEMA` that no condition tells apart, such as rates."""
    for cells in table.rename({"models": "members"}).iter_rows(named=True):
        number = {name: cells[name] for name in Quantity.model_fields}
        spread = {part: cells[f"variance_{part}"] for part in Spread.model_fields}
        place = _Place(
            cells["question"], cells["variant"], cells["metric"], cells["group"], cells["class"],
            (), cells["what"],
        )  # fmt: skip
        yield Row(*place, Quantity.model_construct(**number), Spread.model_construct(**spread))


class _Place(NamedTuple):
    """Where an estimate stands."""

    question: str
    variant: str | None = None
    metric: str | None = None
    group: str | None = None
    class_name: str | None = None
    facts: tuple[tuple[str, str | int | float], ...] = ()
    what: str = ""

    def named(self, part: Part, names: list[str], conditions: list[str]) -> _Place:
        """The place of the estimates of a part, by its fields that are no estimates."""
        own = {name: value for name in names if isinstance(value := getattr(part, name), str)}
        facts = tuple(
            (name, value)
            for name in conditions
            if isinstance(value := getattr(part, name), str | int | float) and value is not False
        )
        return self._replace(**own, facts=self.facts + facts)

    def within(self, name: str) -> _Place:
        return self._replace(what=f"{self.what}.{name}" if self.what else name)


@cache
def _fields(kind: type[Part]) -> tuple[list[str], list[str], list[tuple[str, str | None]]]:
    """Fields that name, that tell apart, and that hold estimates, with that of its variance."""
    own = kind.model_fields
    names = [name for name in own if name in ("variant", "metric", "group", "class_name")]
    facts = [name for name in CONDITIONS if name in own]
    spreads = {name: f"{'absolute' if name == 'worse' else name}_variance" for name in own}
    others = [
        (name, spreads[name] if spreads[name] in own else None)
        for name, field in own.items()
        if _holds_estimates(field.annotation)
    ]
    return names, facts, others


def _holds_estimates(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation in (Quantity, ClassRow) or bool(_fields(annotation)[2])
    return any(map(_holds_estimates, get_args(annotation)))


def _below(node: Any, place: _Place, variants: Mapping[str, bool]) -> Iterator[Row]:
    """Yield the estimates of a part; of variants, those of the ones that are asked for."""
    if isinstance(node, Quantity):
        yield Row(*place, node, None)
    elif isinstance(node, ClassRow):
        yield from _of_class(node, place)
    elif isinstance(node, Part):
        names, conditions, others = _fields(type(node))
        own = place.named(node, names, conditions)
        for name, spread in others:
            value = getattr(node, name)
            if isinstance(value, Quantity):
                yield Row(*own.within(name), value, getattr(node, spread) if spread else None)
            elif value is not None:
                yield from _below(value, own.within(name), variants)
    elif isinstance(node, tuple):
        for value in node:
            yield from _below(value, place, variants)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key not in variants:
                yield from _below(value, place.within(str(key)), variants)
            elif variants[key]:
                yield from _below(value, place._replace(variant=key), variants)


def _of_class(row: ClassRow, place: _Place) -> Iterator[Row]:
    """The recall of a class before and after, and what it loses beyond accuracy: fractions."""
    at = place._replace(metric="recall", class_name=row.class_name)
    alone = dict.fromkeys(("low", "high", "se", "df", "effective_events")) | {
        "note": "", "reason": "only its change has an interval",
    }  # fmt: skip
    for what, recall in (("dense", row.dense_recall), ("compressed", row.compressed_recall)):
        number = row.loss.model_copy(update={"value": recall} | alone)
        yield Row(*at._replace(what=what), number, None)
    yield Row(*at._replace(what="beyond accuracy"), row.loss, row.loss_variance)
