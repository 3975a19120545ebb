"""What every part of audit.json and gate.json is made of: numbers, intervals, variances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Protocol

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

Count = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Fraction = Annotated[float, Field(strict=True, ge=0, le=1)]
Level = Annotated[float, Field(strict=True, gt=0, lt=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
# JSON has no infinity: its name stands for it. The bound lets infinities pass and nan not.
Real = Annotated[
    float,
    Field(ge=float("-inf")),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}]}),
]


class Plain(Protocol):
    """What gives its fields as JSON values, as `numbers.Estimate` does."""

    def as_dict(self) -> dict[str, Any]:
        """Every field, nan as None."""


class Part(BaseModel):
    """A part of a file that a program writes: frozen, and without keys that nobody knows."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, defer_build=True,
        ser_json_inf_nan="constants",
    )  # fmt: skip


class Quantity(Part):
    """One number, its interval, and what both rest on.

    The interval answers "another training run, another test set of this kind". It does not cover a
    test set of another kind, wrong labels, or a group that is not in the data.
    """

    value: Real | None = Field(description="The number; null where it is undefined.")
    low: Real | None = Field(description="Lower end of the interval; null where there is none.")
    high: Real | None = Field(description="Upper end of the interval; null where there is none.")
    level: Level = Field(description="Coverage of the interval: 0.95 for 95%.")
    n: Count = Field(
        description="Examples at risk; where rows belong together in clusters, clusters."
    )
    members: Count = Field(description="Models in the smaller population that it rests on.")
    effective_events: Real | None = Field(
        description="Kish's effective number of examples that carry the value. Below 5 no "
        "relative change is given; from 5 to 10 it is marked \u201cfew events\u201d. Null where "
        "that has no meaning."
    )
    reason: str = Field(
        description="Why the number or its interval is missing, as a sentence; else empty."
    )
    note: str = Field(description="What to know beside the number, such as \u201cfew events\u201d.")
    se: Real | None = Field(description="Standard error on `scale`; null where there is none.")
    df: Real | None = Field(
        description="Degrees of freedom of the t interval; null where there is none."
    )
    scale: Literal["identity", "logit", "log", "ratio", "rule of three", "q-profile"] = Field(
        description="Where the interval is symmetric: `identity` for differences, `logit` for "
        "rates, `log` for relative changes (ratio - 1), `ratio` for a ratio itself. `rule of "
        "three` marks bounds where no event was seen, `q-profile` the spread of many effects."
    )

    @classmethod
    def of(cls, estimate: Plain) -> Quantity:
        """Convert an estimate: nan becomes None.

        >>> from scotoma.numbers import undefined
        >>> Quantity.of(undefined("no negatives", n=0, members=5)).value is None
        True
        """
        return cls.model_validate(estimate.as_dict())


class Spread(Part):
    """A variance and its parts, on the scale of its quantity."""

    total: Real | None = Field(description="max(examples + members - residual, each part) + floor.")
    examples: Real | None = Field(description="What another test set would change.")
    members: Real | None = Field(
        description="What other training runs would change; 0 below 5 models."
    )
    residual: Real | None = Field(
        description="Chance of one model on one example, counted in both parts."
    )
    floor: Real | None = Field(
        description="What examples that did not change here may still change: four flips more; 0 "
        "where no flips carry the number."
    )
    df: Real | None = Field(description="Satterthwaite's degrees of freedom of `total`.")


class Row(Part):
    """One number and its address: what it is of, and which of the numbers there it is."""

    variant: str | None = Field(None, description="The variant; absent where it is of none.")
    metric: str | None = Field(None, description="The metric; absent where there is one only.")
    group: str | None = Field(None, description="Key of the group; absent where it is of none.")
    class_name: str | None = Field(
        None, alias="class", description="The class or label; absent where it is of none."
    )
    facts: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="What else tells it apart, by name, such as `attribute`; absent where nothing "
        "does.",
    )
    what: str = Field(description="Which number: `dense`, `compressed`, `change`, `p`, ...")
    number: Quantity = Field(description="The number.")
    spread: Spread | None = Field(
        None, description="Its variance; absent where the parts are not kept."
    )
    models: tuple[Number | None, ...] = Field(
        (),
        description="The same number of every model, in the order of their seeds; absent where it "
        "is not kept.",
    )
    models_se: tuple[Number | None, ...] = Field(
        (),
        description="Standard error over examples of each of them. Examples of a cluster count as "
        "one that stands for all of them, which is cautious.",
    )

    @property
    def undefined(self) -> str:
        """Why there is no number; empty where there is one, though without an interval."""
        return self.number.reason if self.number.value is None else ""

    def fact(self, name: str) -> Any:
        """Look up what tells it apart; None where nothing is called so."""
        return self.facts.get(name)

    @property
    def address(self) -> tuple[Any, ...]:
        """What it shares with the other numbers of its address."""
        own = (self.variant, self.metric, self.group, self.class_name)
        return *own, *self.facts.items()

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value not in (None, {}, [])}


At = Mapping[str, Row]  # the rows of one address, by what they are


def by_address(rows: Iterable[Row], part: str = "") -> list[At]:
    """Put the rows of each address together.

    Args:
        rows: The rows.
        part: How what they are begins, which is then left out: `losses.` of `losses.absolute`;
            others are left out.
    """
    addresses: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        if row.what.startswith(part):
            addresses.setdefault(row.address, {})[row.what.removeprefix(part)] = row
    return list(addresses.values())


def cells_at(at: At) -> dict[str, Quantity]:
    """The numbers of an address, by what they are."""
    return {what: row.number for what, row in at.items()}


def rows_at(
    address: Mapping[str, Any],
    numbers: Mapping[str, Plain | None],
    part: str = "",
    spreads: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """Lay out the numbers of one address, but for None: fields of `Row`.

    Args:
        address: Fields of the address.
        numbers: Estimates by what they are.
        part: How what they are begins.
        spreads: Variances, by the same names; None where the parts are not kept.
    """
    for what, number in numbers.items():
        if number is not None:
            spread = {"spread": spreads[what]} if spreads and what in spreads else {}
            yield {**address, "what": part + what, "number": number, **spread}
