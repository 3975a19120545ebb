"""What changed since the last audit, and no more than two noisy audits differ by chance.

Each audit has models and examples of its own, so that both bring their uncertainty: the variances
add. Where both were measured on the same examples the interval is wider than it need be, for what
is difficult in one is difficult in the other; `scotoma diff` pairs these examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scotoma.config.gate import GateRules, SinceLastRule
from scotoma.errors import DataError
from scotoma.uncertainty import Estimate, holm, undefined
from scotoma.verdict.questions import LABELS, Question, alone, read_estimate

__all__ = [
    "Change",
    "Last",
    "changes",
    "difference",
    "judged",
    "kept",
    "not_compared",
    "since_last",
]

Word = Literal["better", "worse", "undecided"]
EXCESS = "cie_share_excess"
LABELLING = ("classes", "positive")
ROW = ("metric", "group", "class", "dense", "compressed")


@dataclass(frozen=True)
class Last:
    """The audit before this one.

    Attributes:
        audit: Content of its audit.json; None where there is none to compare with.
        of: What it is known by: its place, or its run in MLflow.
        sha256: Of its audit.json.
        reason: Why there is none, as a sentence to print; else empty.
        missing: There may be one, and it could not be had: a test that asks for it is UNSURE.
    """

    audit: Mapping[str, Any] | None
    of: str = ""
    sha256: str = ""
    reason: str = ""
    missing: bool = False


@dataclass(frozen=True)
class Change:
    """One number of one variant in two audits.

    Attributes:
        metric: `error`, `fpr`, `fnr` or `cie_share_excess`.
        group: Key of the group; `all` for all examples.
        before: The number in the earlier audit, a fraction.
        after: The number in the later one.
        change: after - before, with the uncertainty of both.
    """

    metric: str
    group: str
    before: Estimate
    after: Estimate
    change: Estimate


def difference(before: Estimate, after: Estimate) -> Estimate:
    """The rise of a number from one audit to another that shares no randomness with it.

    The standard error of a rate, which its audit gives on the logit scale, is carried over to the
    rate itself; of a rate that no example or every one shows it is the whole bound of the rule of
    three, which is more than its spread. Variances add; degrees of freedom are Welch's and
    Satterthwaite's.

    Args:
        before: A rate, or a difference of rates.
        after: The same in the later audit.

    Returns:
        `after` less `before`, a fraction; without interval where one of the two has none.

    References:
        Welch (1947), Biometrika 34:28-35.

    >>> before, after = (
    ...     Estimate.on_scale(rate, 0.01, 9.0, n=900, members=10) for rate in (0.10, 0.13)
    ... )
    >>> found = difference(before, after)
    >>> round(found.value, 4), round(found.se, 4), found.df
    (0.03, 0.0141, 18.0)
    """
    value = after.value - before.value
    rests: dict[str, Any] = {
        "n": min(before.n, after.n),
        "members": min(before.members, after.members),
        "events": float(np.fmin(before.events, after.events)),
    }
    variances = [_variance(estimate) for estimate in (before, after)]
    total = sum(variances)
    if math.isnan(value) or math.isnan(total) or not total > 0:
        reason = before.reason and f"last time: {before.reason}"
        return undefined(reason or after.reason or "nothing varies", value=value, **rests)
    free = [math.inf if math.isnan(one.df) else one.df for one in (before, after)]
    df_part = sum(own**2 / df for own, df in zip(variances, free, strict=True))
    df = total**2 / df_part if df_part else math.inf
    return Estimate.on_scale(value, math.sqrt(total), df, level=after.level, **rests)


def changes(before: Mapping[str, Any], after: Mapping[str, Any], variant: str) -> list[Change]:
    """Every rate of the groups, and the CIE excess, that two audits have of one variant.

    Args:
        before: Content of the earlier audit.json.
        after: That of the later one.
        variant: Its name; of `dense` there is no excess.

    Returns:
        Changes in the order of the later audit. Of one model a variant there is no excess.

    Raises:
        KeyError: An audit lacks a part.
    """
    earlier, later = _numbers(before, variant), _numbers(after, variant)
    return [
        Change(*key, earlier[key], found, difference(earlier[key], found))
        for key, found in later.items()
        if key in earlier
    ]


def not_compared(before: Mapping[str, Any], after: Mapping[str, Any], variant: str) -> list[str]:
    """What of a variant has no counterpart in the last audit: sentences, none where all has."""
    if why := _unlike(before, after, variant):
        return [f"{variant} is not compared with the last audit: {why}"]
    earlier, later = _numbers(before, variant), _numbers(after, variant)
    new = dict.fromkeys(group for metric, group in later if (metric, group) not in earlier)
    return [f"{variant}: the last audit had no group {group}" for group in new]


def kept(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an audit.json that a later audit is compared with.

    Raises:
        DataError: It is not what an audit writes.
    """
    try:
        return {
            "config_sha256": str(audit["config_sha256"]),
            "scope": str(audit["scope"]),
            "examples": {key: audit["examples"].get(key) for key in LABELLING},
            "variants": [{"name": variant["name"]} for variant in audit["variants"]],
            "subgroups": {
                name: [{key: row[key] for key in ROW} for row in rows]
                for name, rows in audit["subgroups"].items()
            },
            "divergence": {
                name: {"cie": {"excess": found["cie"]["excess"]}}
                for name, found in audit["divergence"].items()
            },
        }
    except (KeyError, TypeError, AttributeError) as error:
        found = f"no {error}" if isinstance(error, KeyError) else "something else"
        raise DataError(
            f"the last audit must hold what scotoma audit writes, got {found}; name another, or "
            "audit that one again with this version"
        ) from error


def since_last(
    audit: Mapping[str, Any], variant: str, rules: GateRules, last: Last | None
) -> Iterator[Question]:
    """What a gate asks of a variant beside the last audit.

    FPR and FNR of every group where there is a positive class, else its error; and the CIE excess.

    Args:
        audit: Content of audit.json.
        variant: A compressed variant.
        rules: The gate.
        last: The last audit; None where nobody named one.

    Yields:
        A question a number that both audits have; of a last audit that could not be had, one
        without evidence; none where there is nothing to compare with.
    """
    rates = {"error"} if audit["examples"]["positive"] is None else {"fpr", "fnr"}
    names = {group["key"]: group["name"] for group in audit["groups"]}
    for rule in rules.rules:
        if not isinstance(rule, SinceLastRule) or last is None:
            continue
        if last.missing:
            where = "change since the last audit"
            yield Question(rule.id, rule.metric, "all", None, where, None, None, None, last.reason)
        if last.audit is None or _unlike(last.audit, audit, variant):
            continue
        for found in changes(last.audit, audit, variant):
            if found.metric in rates | {EXCESS}:
                name = names.get(found.group, found.group)
                what = "CIE excess" if found.metric == EXCESS else f"{LABELS[found.metric]} {name}"
                yield Question(
                    rule.id, rule.metric, found.group, None, f"{what} since the last audit", None,
                    rule.margin, alone(found.metric, found.group, found.change),
                )  # fmt: skip


def judged(estimates: Sequence[Estimate], alpha: float) -> list[tuple[float, float, Word]]:
    """Better, worse or undecided: two-sided tests of no change, one family.

    Args:
        estimates: Changes of what should be small.
        alpha: Chance of any false word.

    Returns:
        P-value, the same adjusted by Holm, and the word, of each; nan where there is no interval.

    >>> found = [Estimate.on_scale(v, 0.005, 9.0, n=500, members=10) for v in (-0.02, 0.001)]
    >>> [word for _, _, word in judged(found, 0.05)]
    ['better', 'undecided']
    """
    p = np.array(
        [
            math.nan if math.isnan(found.low) else
            min(1.0, 2 * min(found.p_above(0.0), found.p_below(0.0)))
            for found in estimates
        ],
        dtype=float,
    )  # fmt: skip
    words: list[tuple[float, float, Word]] = []
    for found, own, adjusted in zip(estimates, p, holm(p), strict=True):
        decided = adjusted <= alpha  # nan compares false
        word: Word = ("worse" if found.value > 0 else "better") if decided else "undecided"
        words.append((float(own), float(adjusted), word))
    return words


def _unlike(before: Mapping[str, Any], after: Mapping[str, Any], variant: str) -> str:
    """Why the last audit says nothing about a variant; empty where it does."""
    if variant not in [one["name"] for one in before["variants"]]:
        return "it was not among its variants"
    if any(before["examples"].get(key) != after["examples"].get(key) for key in LABELLING):
        return "the classes, or the positive one, were others"
    return ""


def _numbers(audit: Mapping[str, Any], variant: str) -> dict[tuple[str, str], Estimate]:
    """Metric and group to number: the rates of a population, and its CIE excess."""
    side = "dense" if variant == "dense" else "compressed"
    rows = audit["subgroups"][next(iter(audit["subgroups"])) if side == "dense" else variant]
    found = {
        (row["metric"], row["group"]): read_estimate(row[side])
        for row in rows
        if row["class"] is None
    }
    if side == "compressed" and audit["scope"] != "shipped":  # whose flips have no floor
        found[EXCESS, "all"] = read_estimate(audit["divergence"][variant]["cie"]["excess"])
    return found


def _variance(estimate: Estimate) -> float:
    """Of the number itself; nan where its audit gives none."""
    if estimate.scale == "rule of three":  # 3/n and more of a tail than any that is asked for
        bounds = estimate.at(0.95)
        return max(bounds.value - bounds.low, bounds.high - bounds.value) ** 2
    if estimate.scale == "logit":
        return (estimate.se * estimate.value * (1 - estimate.value)) ** 2
    return estimate.se**2 if estimate.scale == "identity" else math.nan
