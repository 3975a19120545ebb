"""Every estimate of an audit as one row: what it is about, its interval, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args

import polars as pl

from scotoma.audit.base import Part, Quantity, Row, Spread
from scotoma.audit.document import Audit

NUMBERS = "numbers.parquet"
QUESTIONS = (
    "accuracy", "divergence", "impact", "rates", "unanswered", "gaps", "clarify", "fairness",
    "slices", "labels", "boxes", "scores", "robustness",
)  # fmt: skip
# Section of audit.json that is no list of rows yet: the question that it answers.
SECTIONS = {
    "accuracy": "accuracy", "divergence": "divergence",
}  # fmt: skip
# What tells the rows of a section apart beside variant, metric, group and class.
CONDITIONS = (
    "attribute", "subset",
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
        cells(question, row) for question in QUESTIONS for row in estimate_rows(audit, question)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def cells(question: str, row: Row) -> tuple[Any, ...]:
    """The cells of `SCHEMA` of a row."""
    condition = ", ".join(f"{name}={value}" for name, value in row.facts.items()) or None
    number, spread = row.number, row.spread
    return (
        question, row.variant, row.metric, row.group, row.class_name, condition, row.what,
        number.value, number.low, number.high, number.level, number.n, number.members,
        number.effective_events, number.reason, number.note, number.se, number.df, number.scale,
        *(getattr(spread, part, None) for part in Spread.model_fields),
    )  # fmt: skip


def estimate_rows(audit: Audit, question: str, variant: str | None = None) -> Iterator[Row]:
    """Yield the estimates that answer a question, in the order of audit.json.

    Args:
        audit: The audit.
        question: One of `QUESTIONS`.
        variant: Leave out what stands below the name of another variant; None to leave out nothing.
    """
    for row in audit.numbers(question):
        if variant is None or row.variant in (None, variant):
            yield row
    variants = {one.name: variant in (None, one.name) for one in audit.variants}
    for section, own in SECTIONS.items():
        if own == question:
            yield from _below(getattr(audit, section) or {}, _Place(), variants)


def stored_rows(table: pl.DataFrame) -> Iterator[Row]:
    """Yield the rows of a table of `SCHEMA` that no condition tells apart, such as rates."""
    for cells in table.rename({"models": "members"}).iter_rows(named=True):
        number = {name: cells[name] for name in Quantity.model_fields}
        spread = {part: cells[f"variance_{part}"] for part in Spread.model_fields}
        yield Row.model_construct(
            **{part: cells[part] for part in ("variant", "metric", "group", "what")},
            class_name=cells["class"], facts={}, number=Quantity.model_construct(**number),
            spread=Spread.model_construct(**spread),
        )  # fmt: skip


class _Place(NamedTuple):
    """Where an estimate stands."""

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

    def row(self, number: Quantity, spread: Spread | None = None) -> Row:
        return Row.model_construct(
            **self._asdict() | {"facts": dict(self.facts)}, number=number, spread=spread
        )

    def within(self, name: str) -> _Place:
        return self._replace(what=f"{self.what}.{name}" if self.what else name)


@cache
def _fields(kind: type[Part]) -> tuple[list[str], list[str], list[tuple[str, str | None]]]:
    """Fields that name, that tell apart, and that hold estimates, with that of its variance."""
    own = kind.model_fields
    names = [name for name in own if name in ("variant", "metric", "group", "class_name")]
    facts = [name for name in CONDITIONS if name in own]
    spreads = {name: f"{name}_variance" for name in own}
    others = [
        (name, spreads[name] if spreads[name] in own else None)
        for name, field in own.items()
        if _holds_estimates(field.annotation)
    ]
    return names, facts, others


def _holds_estimates(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation is Quantity or bool(_fields(annotation)[2])
    return any(map(_holds_estimates, get_args(annotation)))


def _below(node: Any, place: _Place, variants: Mapping[str, bool]) -> Iterator[Row]:
    """Yield the estimates of a part; of variants, those of the ones that are asked for."""
    if isinstance(node, Quantity):
        yield place.row(node)
    elif isinstance(node, Part):
        names, conditions, others = _fields(type(node))
        own = place.named(node, names, conditions)
        for name, spread in others:
            value = getattr(node, name)
            if isinstance(value, Quantity):
                yield own.within(name).row(value, getattr(node, spread) if spread else None)
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
