"""Which group does compression harm or change most, and which two does it part?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scotoma.audit.base import At, Row
from scotoma.audit.document import Audit
from scotoma.audit.groups import RATE_NAMES
from scotoma.document import show
from scotoma.numbers import holm
from scotoma.numbers.enough import FEW

MEANING = (
    "Most affected: the group whose error rises most, in points, of those that lose more than the "
    "rest; all examples where none does."
)


def worst_change(audit: Audit, variant: str, metric: str | None = None) -> At | None:
    """Find the most affected group: its rate rises most in points, and more than the rest's.

    Points, because relative changes favour groups whose rate was low. With a positive class it
    looks at error, FPR and FNR, without one at the error. Where all lose about the same, no group
    is named: the loss is shared.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        metric: Search this one only: `error`, `fpr` or `fnr`.

    Returns:
        Its rates: of those with at least 10 effective events after
        compression whose rate rises more than that of the other examples, after Holm's correction
        over them, the one whose absolute change has the highest lower end; where there is none,
        that of all examples. None if no rise is estimable, as without labels. Events before
        compression do not count: a group that goes from none to many is affected.
    """
    ats = [
        at
        for at in audit.at("rates", variant, class_name=None)
        if _has_events(at) and metric in (None, at["absolute"].metric)
    ]
    return _worst(audit, ats, "absolute")


def _worst(audit: Audit, ats: Sequence[At], what: str) -> At | None:
    """The address whose number surely rises most: of groups beyond the rest, else of everyone."""
    everyone = (audit.groups[0].key, audit.groups[0].name)  # a page calls groups by their names
    known = [at for at in ats if low_end(at, what) > -math.inf]
    whole = {at[what].metric: at for at in known if at[what].group in everyone}
    groups = [at for at in known if at[what].group not in everyone and at[what].metric in whole]
    p = [_p_beyond_rest(audit, at, whole[at[what].metric], what) for at in groups]
    tail = (1 - audit.level) / 2
    kept = [at for at, own in zip(groups, holm(p), strict=True) if own <= tail]
    return max(kept or whole.values(), key=lambda at: low_end(at, what), default=None)


def low_end(at: At, what: str = "worse") -> float:
    """How much a number surely rises; -inf where it has no interval."""
    low = at[what].number.low
    return -math.inf if low is None else low


def _p_beyond_rest(audit: Audit, own: At, whole: At, what: str = "absolute") -> float:
    """One-sided p-value that a group's rate rises no more than that of the other examples.

    The rise of all is w times the group's plus 1 - w times the rest's, so that the group's less
    that of all has the variance V(all) + (1 - 2 w) V(group), if the two share nothing. What they
    share, as training runs and clusters, makes it smaller.
    """
    (rise, n), (everyone, n_of_all) = (
        (at[what].number, at["dense"].number.n) for at in (own, whole)
    )
    sizes = {name: group.n for group in audit.groups for name in (group.key, group.name)}
    if audit.examples.clusters == audit.examples.test and n_of_all:
        share = n / n_of_all  # of the examples at risk
    else:  # n counts clusters, which may lie in several groups
        share = sizes[str(own[what].group)] / max(1, sizes[str(whole[what].group)])
    ends = (rise.value, everyone.value, rise.se, everyone.se)
    value, of_all, se, se_of_all = (end if isinstance(end, float) else math.nan for end in ends)
    variance = se_of_all**2 + (1 - 2 * share) * se**2
    if not (share < 1 and variance > 0):
        return 1.0
    z = (value - of_all) / math.sqrt(variance)
    return 1.0 if math.isnan(z) else 0.5 * math.erfc(z / math.sqrt(2))


def highest_error(audit: Audit, variant: str) -> At | None:
    """Find the group that errs most after compression, whether or not compression raised it.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.

    Returns:
        Its rates: of the errors with an interval and at least 10 effective
        events, the one with the highest compressed rate; None if there is none.
    """
    rates = [
        (number.value, at)
        for at in audit.at("rates", variant, class_name=None, metric="error")
        if (number := at["compressed"].number).value is not None
        and number.low is not None
        and _has_events(at)
    ]
    return max(rates, key=lambda pair: pair[0], default=(0.0, None))[1]


def turned_gaps(audit: Audit, variant: str) -> list[At]:
    """List the gaps of a variant, each turned so that the error rises more in group b.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
    """
    return [_turned(gap) for gap in audit.at("gaps", variant)]


def _turned(gap: At) -> At:
    row = gap["gap"]
    if (row.number.value or 0.0) >= 0:
        return gap
    ends = {"value": "value", "low": "high", "high": "low"}
    turned = {to: None if (end := getattr(row.number, name)) is None else -end
              for name, to in ends.items()}  # fmt: skip
    facts = row.facts | {"group_a": row.facts["group_b"], "group_b": row.facts["group_a"]}
    others = {"rise_a": gap["rise_b"], "rise_b": gap["rise_a"]}
    others["gap"] = row.model_copy(update={"number": row.number.model_copy(update=turned)})
    return {
        what: one.model_copy(update={"facts": facts}) for what, one in {**gap, **others}.items()
    }


def gap_groups(audit: Audit, gap: At) -> tuple[str, str]:
    """Name group b of a gap, whose error rises more once it is turned, and group a."""
    names, facts = audit.group_names, gap["gap"].facts
    b, a = (str(names.get(str(facts[key]), facts[key])) for key in ("group_b", "group_a"))
    return b, a


def largest_gap(audit: Audit, variant: str) -> At | None:
    """Find the gap between two groups that is surest to be large.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.

    Returns:
        The turned gap whose interval lies farthest from 0, or reaches least beyond it. None if no
        gap has an interval.
    """
    gaps = [gap for gap in turned_gaps(audit, variant) if gap["gap"].number.low is not None]
    return max(gaps, key=lambda gap: gap["gap"].number.low or 0.0, default=None)


def affected_words(audit: Audit, at: At) -> str:
    """Say whose rate it is that rises most: `FNR of male & old`, `error of all`.

    Args:
        audit: The audit.
        at: From `worst_change`.
    """
    metric, group = str(at["absolute"].metric), str(at["absolute"].group)
    return f"{RATE_NAMES[metric]} of {audit.group_names.get(group, group)}"


def shown_gaps(audit: Audit, variant: str) -> list[At]:
    """Find the gaps that stay significant after Holm's correction over all of the audit.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.

    Returns:
        Turned gaps. One of too few effective events, which no correction covers, is among them
        where it would be significant alone.
    """
    shown = []
    for gap in turned_gaps(audit, variant):
        p, adjusted = (gap[name].number.value for name in ("p", "p_adjusted"))
        p = p if adjusted is None else adjusted
        if p is not None and p <= 1 - audit.level:
            shown.append(gap)
    return shown


def gap_words(audit: Audit, gap: At) -> str:
    """Say how much more the error rises for one group; a gap that was not tested shows no harm.

    Args:
        audit: The audit.
        gap: From `shown_gaps`.
    """
    few, (harmed, other), number = "", gap_groups(audit, gap), gap["gap"].number
    if gap["p_adjusted"].number.value is None:
        rises = ((gap["rise_a"].number, other), (gap["rise_b"].number, harmed))
        fewer, group = min(rises, key=lambda pair: pair[0].effective_events or 0.0)
        few = f": too few to show harm ({fewer.n:,} examples of {group})"
    more = show(number, "extent").number
    return f"error rises {more} more for {harmed} than for {other}{few}"


def most_changed(audit: Audit, variant: str) -> Row:
    """Find the group of which most predictions change, which needs no labels.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.

    Returns:
        The share that changes: of the groups, or of all examples where there are none, the one
        whose interval lies highest.
    """
    everyone, *groups = audit.numbers("divergence", variant, what="ledger.changed")
    return max(groups or [everyone], key=lambda row: row.number.low or 0.0)


def _has_events(at: At) -> bool:
    return (at["compressed"].number.effective_events or 0.0) >= FEW


def worst_mean(audit: Audit, variant: str) -> At | None:
    """The group whose mean score surely gets worse most, and more than that of the rest.

    Args:
        audit: An audit of scores.
        variant: A compressed variant.

    Returns:
        Its rows by what they are; those of all examples where there are no groups, or all get worse
        alike; None where nothing has an interval.
    """
    return _worst(audit, audit.at("scores", variant, "means."), "worse")


def mean_score(audit: Audit, variant: str) -> Row:
    """The mean score of a variant over all examples; of every model too."""
    return next(row for row in audit.numbers("scores", variant) if row.what == "mean")
