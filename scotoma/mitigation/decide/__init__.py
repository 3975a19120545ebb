"""Which class does a model's output stand for: rules fitted on stored scores, kept as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from scotoma.errors import ConfigError, DataError
from scotoma.mitigation.decide.argmax import Argmax, fit_argmax
from scotoma.mitigation.decide.ensemble import Ensemble, fit_ensemble
from scotoma.mitigation.decide.group_heads import (
    OwnHead,
    SumOfHeads,
    fit_own_head,
    fit_sum_of_heads,
)
from scotoma.mitigation.decide.joint_softmax import (
    JointSum,
    PriorMaximum,
    PriorSum,
    fit_joint_sum,
    fit_prior_maximum,
    fit_prior_sum,
)
from scotoma.mitigation.decide.last_layer import LastLayer, fit_last_layer
from scotoma.mitigation.decide.offsets import Offsets, fit_offsets
from scotoma.mitigation.decide.reduce_amplification import (
    NotBalancedWarning,
    ReduceAmplification,
    fit_reduce_amplification,
)
from scotoma.mitigation.decide.rule import Needs, Rule
from scotoma.mitigation.decide.thresholds import Thresholds, fit_thresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "TECHNIQUES",
    "AnyRule",
    "Argmax",
    "Ensemble",
    "JointSum",
    "LastLayer",
    "Needs",
    "NotBalancedWarning",
    "Offsets",
    "OwnHead",
    "PriorMaximum",
    "PriorSum",
    "ReduceAmplification",
    "Rule",
    "SumOfHeads",
    "Thresholds",
    "fit",
    "read_rule",
    "rule_needs",
]

AnyRule: TypeAlias = Annotated[
    Argmax
    | Ensemble
    | JointSum
    | LastLayer
    | Offsets
    | OwnHead
    | PriorMaximum
    | PriorSum
    | ReduceAmplification
    | SumOfHeads
    | Thresholds,
    Field(discriminator="rule"),
]
_READ: TypeAdapter[Rule] = TypeAdapter(AnyRule)

TECHNIQUES: dict[str, tuple[type[Rule], Callable[..., Rule]]] = {
    "argmax": (Argmax, fit_argmax),
    "DD1": (JointSum, fit_joint_sum),
    "DD2": (PriorMaximum, fit_prior_maximum),
    "DD3": (PriorSum, fit_prior_sum),
    "DD4": (ReduceAmplification, fit_reduce_amplification),
    "DI1": (OwnHead, fit_own_head),
    "DI2": (SumOfHeads, fit_sum_of_heads),
    "thresholds": (Thresholds, fit_thresholds),
    "offsets": (Offsets, fit_offsets),
    "ensemble": (Ensemble, fit_ensemble),
    "dfr": (LastLayer, fit_last_layer),
}


def fit(
    technique: str,
    scores: NDArray[Any],
    labels: NDArray[Any],
    attributes: NDArray[Any] | None = None,
    **options: Any,
) -> Rule:
    """Fit one technique's rule.

    Args:
        technique: A key of `TECHNIQUES`.
        scores: What the model gives each example, float, shape (N, width): C scores a row; G * C
            for DD and DI, where group g's score of class y stands in column g * C + y; K members'
            scores, (K, N, C), for ensembles; the last layer's inputs, (N, features), for DFR.
        labels: Class ids, shape (N,).
        attributes: Group ids from 0, shape (N,), or None for a technique that needs none.
        **options: Passed to the technique's own function.

    Raises:
        ConfigError: No technique has this name.
        DataError: Arrays do not fit together, or a class and group have too few examples.

    >>> import numpy as np
    >>> rule = fit("DD3", np.zeros((4, 4)), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
    >>> rule.needs.attributes, rule(np.array([[0.0, 2.0, 0.0, 0.0]]))
    ('fit', array([1]))
    """
    return _technique(technique)[1](scores, labels, attributes, **options)


def rule_needs(technique: str) -> Needs:
    """Say what a technique's rule needs.

    >>> rule_needs("DI1").sentence
    "It reads each example's group whenever it decides."
    """
    return _technique(technique)[0].needs


def read_rule(text: str | bytes) -> Rule:
    """Read a rule that `Rule.model_dump_json` wrote.

    Raises:
        DataError: The text is not such a rule.
    """
    try:
        return _READ.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"a rule must be the JSON that fitting it wrote, got {first['msg'].lower()} at {where};"
            " fit it again"
        ) from None


def _technique(name: str) -> tuple[type[Rule], Callable[..., Rule]]:
    if name not in TECHNIQUES:
        raise ConfigError(f"technique must be one of {', '.join(TECHNIQUES)}, got {name!r}")
    return TECHNIQUES[name]
