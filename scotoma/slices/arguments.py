"""Which arguments does a search take, what are their defaults, and what is refused?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import StatisticsProtocol
from scotoma.printable import nearest
from scotoma.slices.evidence.interface import Direction
from scotoma.slices.evidence.outcomes import SliceMetric, metric_named
from scotoma.slices.judging.correction import Correction
from scotoma.slices.judging.protocols import Reference
from scotoma.slices.search.strategies import Mode

DEFAULTS: dict[str, dict[str, Any]] = {
    "sound": {"min_size": 30, "alpha": 0.05, "correction": "bh", "bootstrap": 200},
    "published": {"min_size": 1, "alpha": 0.01, "correction": "none", "bootstrap": 20},
}
CHOICES: dict[str, tuple[str, ...]] = {
    "mode": ("cover", "batch", "iterative", "priority"),
    "protocol": ("sound", "published"),
    "direction": ("higher", "lower", "both"),
    "reference": ("rest", "whole", "baseline"),
    "correction": ("bh", "by", "holm", "bonferroni", "none"),
    "order": ("p-value", "breadth-first", "random"),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a search with their defaults; attributes as in `find_slices`."""

    mode: Mode
    metric: str
    direction: Direction
    reference: Reference
    paired: bool
    protocol: StatisticsProtocol
    max_cross: int
    min_size: int
    alpha: float
    correction: Correction
    bootstrap: int
    level: float
    confirm: bool
    permutations: int
    seed: int
    max_categories: int
    bins: int


def resolve_settings(*, compared: bool, **arguments: Any) -> Settings:
    """Fill in the defaults of a search and refuse what it cannot do.

    Args:
        compared: Whether there is a baseline.
        **arguments: The fields of `Settings`; None for the default.

    Raises:
        DataError: An argument out of range, or one that contradicts another.

    >>> resolve_settings(compared=False, mode="cover", metric="error", direction=None,
    ...         reference=None, paired=False, protocol="sound", max_cross=3, min_size=None,
    ...         alpha=None, correction=None, bootstrap=None, level=0.95, confirm=True,
    ...         permutations=20, seed=0, max_categories=100, bins=10).min_size
    30
    """
    check_choices(**{name: arguments[name] for name in CHOICES.keys() & arguments.keys()})
    metric = metric_named(arguments["metric"])
    for name, default in DEFAULTS[arguments["protocol"]].items():
        if arguments[name] is None:
            arguments[name] = default
    check_numbers(**{name: arguments[name] for name in RULES.keys() & arguments.keys()})
    arguments["reference"] = _reference(
        arguments["reference"], arguments["protocol"], metric, compared
    )
    arguments["direction"] = arguments["direction"] or metric.worse
    arguments["confirm"] = arguments["confirm"] and arguments["mode"] == "cover"
    return Settings(**arguments)


def _reference(
    reference: Reference | None, protocol: StatisticsProtocol, metric: SliceMetric, baseline: bool
) -> Reference:
    whole = protocol == "published" or metric.kind == "auc"
    if reference is None:
        return "baseline" if baseline else ("whole" if whole else "rest")
    if reference == "baseline" and not baseline:
        raise DataError("reference 'baseline' needs a baseline, got none: pass baseline=")
    if reference == "whole" and (not whole or baseline):
        raise DataError(
            "reference 'whole' is for the published protocol and for auc, without a baseline, got "
            f"protocol {protocol!r} and metric {metric.name!r}: use reference='rest'"
        )
    if reference == "rest" and whole:
        raise DataError(
            "reference 'rest' is for the sound protocol and any metric but auc, got protocol "
            f"{protocol!r} and metric {metric.name!r}: leave reference out"
        )
    return reference


def ids_of(ids: npt.ArrayLike | None, total: int) -> npt.NDArray[np.generic]:
    """Check the ids of the examples, row numbers by default; refuse ids that repeat."""
    if ids is None:
        return np.arange(total)
    names = names_of(ids, "ids", total)
    values, counts = np.unique(names, return_counts=True)
    if values.size < total:
        raise DataError(
            f"ids must be unique, got {str(values[counts > 1][0])!r} {counts[counts > 1][0]} "
            "times: give every row an id of its own"
        )
    return names


def names_of(values: npt.ArrayLike, argument: str, total: int) -> npt.NDArray[np.generic]:
    """Check integers or strings, one a row; refuse others by the name of the argument."""
    names = np.asarray(values)
    if names.dtype.kind == "O":
        names = names.astype(str)
    if names.shape != (total,) or names.dtype.kind not in "iuU":
        raise DataError(
            f"{argument} must give one integer or string a row, got {names.dtype} of shape "
            f"{names.shape} for {total:,} rows: leave {argument} out if every row is its own"
        )
    return names


def check_space(mode: Mode, possible: int, most: int) -> None:
    """Refuse more candidates than may be searched; say how many there are and the ways out."""
    if mode != "priority" and possible > most:
        raise DataError(
            f"the search must stay within max_candidates={most:,}, got {possible:,} candidate "
            "slices: use mode='priority', lower max_cross, pass fewer features, or raise "
            "max_candidates"
        )


def check_choices(**arguments: str | None) -> None:
    """Refuse words that are none of the choices."""
    for name, value in arguments.items():
        if value is not None and value not in CHOICES[name]:
            raise DataError(
                f"{name} must be one of {', '.join(CHOICES[name])}, got {value!r}"
                f"{nearest(str(value), CHOICES[name])}"
            )


@dataclass(frozen=True)
class _Rule:
    says: str
    holds: Callable[[Any], bool]


RULES = {
    "max_cross": _Rule("between 1 and 4", lambda x: 1 <= x <= 4),
    "min_size": _Rule("at least 1", lambda x: x >= 1),
    "alpha": _Rule("a fraction in (0, 1)", lambda x: 0 < x < 1),
    "level": _Rule("a fraction in (0, 1)", lambda x: 0 < x < 1),
    "bootstrap": _Rule("at least 2", lambda x: x >= 2),
    "permutations": _Rule("at least 0", lambda x: x >= 0),
    "iterations": _Rule("at least 1", lambda x: x >= 1),
    "limit": _Rule("at least 1", lambda x: x >= 1),
    "budget": _Rule("at least 1", lambda x: x is None or x >= 1),
    "memory_gib": _Rule("above 0", lambda x: x > 0),
    "threads": _Rule("at least 1", lambda x: x is None or x >= 1),
}


def check_numbers(**arguments: Any) -> None:
    """Refuse numbers out of range."""
    for name, value in arguments.items():
        if not RULES[name].holds(value):
            raise DataError(
                f"{name} must be {RULES[name].says}, got {value}: leave it out for the default"
            )
