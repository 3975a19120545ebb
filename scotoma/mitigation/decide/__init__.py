"""Which class does a model's output stand for: rules fitted on stored scores, kept as JSON."""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from pkgutil import resolve_name
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from scotoma.config.techniques import RULES
from scotoma.errors import ConfigError, DataError
from scotoma.mitigation.decide.last_layer import LastLayer
from scotoma.mitigation.decide.reduce_amplification import NotBalancedWarning, ReduceAmplification
from scotoma.mitigation.decide.rule import Needs, Rule
from scotoma.numbers.inputs import Array

__all__ = [
    "LastLayer",
    "NotBalancedWarning",
    "ReduceAmplification",
    "Rule",
    "fit",
    "read_rule",
    "rule_needs",
]


@cache
def _reader() -> TypeAdapter[Rule]:
    union: Any = reduce(or_, map(_technique, RULES))
    return TypeAdapter(Annotated[union, Field(discriminator="rule")])


def fit(
    technique: str, scores: Array, labels: Array, attributes: Array | None = None, **options: Any
) -> Rule:
    """Fit one technique's rule.

    Args:
        technique: A key of `config.techniques.RULES`.
        scores: What the model gives each example, float, shape (N, width): C scores a row; G * C
            for DD and DI, where group g's score of class y stands in column g * C + y; K members'
            scores, (K, N, C), for ensembles; the last layer's inputs, (N, features), for DFR.
        labels: Class ids, shape (N,).
        attributes: Group ids from 0, shape (N,), or None for a technique that needs none.
        **options: Passed to the technique's own `fit`.

    Raises:
        ConfigError: No technique has this name.
        DataError: Arrays do not fit together, or a class and group have too few examples.

    >>> import numpy as np
    >>> rule = fit("DD3", np.zeros((4, 4)), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
    >>> rule.needs.attributes, rule(np.array([[0.0, 2.0, 0.0, 0.0]]))
    ('fit', array([1]))
    """
    return _technique(technique).fit(scores, labels, attributes, **options)


def rule_needs(technique: str) -> Needs:
    """Say what a technique's rule needs.

    >>> rule_needs("DI1").sentence
    "It reads each example's group whenever it decides."
    """
    return _technique(technique).needs


def read_rule(text: str | bytes) -> Rule:
    """Read a rule that `Rule.model_dump_json` wrote.

    Raises:
        DataError: The text is not such a rule.
    """
    try:
        return _reader().validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"a rule must be the JSON that fitting it wrote, got {first['msg'].lower()} at {where};"
            " fit it again"
        ) from None


def _technique(name: str) -> type[Rule]:
    if name not in RULES:
        raise ConfigError(f"technique must be one of {', '.join(RULES)}, got {name!r}")
    rule: type[Rule] = resolve_name(f"{__name__}.{RULES[name]}")
    return rule
