"""What does a gate ask about scores? How much worse the mean of each group, or slice, gets."""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.audit import Audit
from scotoma.audit.scores import ScoreChange, ScoreReport
from scotoma.bias.results import GroupChange
from scotoma.config.gate_scores import ScoreRule
from scotoma.group_keys import parse_group_key
from scotoma.numbers import Estimate
from scotoma.verdict.evidence import difference_alone, read_estimate, read_variance
from scotoma.verdict.question import Question

__all__ = ["FEWEST", "score_questions"]

FEWEST = 30  # examples, or clusters, of a group that a PASS may rest on
UNCONFIRMED = "slices.mode {} confirms no slice on other examples; slices.mode cover does"


def score_questions(
    audit: Audit, variant: str, rule: ScoreRule, must: frozenset[str]
) -> list[Question]:
    """Ask how much worse the mean of a score gets.

    Args:
        audit: An audit of scores.
        variant: Name of a compressed variant.
        rule: The rule.
        must: Keys of groups that are judged however small.

    Returns:
        A question a group or slice; one without evidence where there is none.
    """
    scores = audit.scores
    assert scores is not None  # other audits refuse the rule
    if rule.over == "slices":
        asked = list(_of_slices(audit, variant, rule, scores))
    else:
        everyone = audit.groups[0].key
        asked = [
            _of_group(audit, row, rule, scores, must)
            for row in scores.means[variant]
            if (row.group == everyone) is (rule.over == "all") and _chosen(row.group, rule)
        ]
    nothing = "the audit measured no slices" if rule.over == "slices" else "there are no groups"
    return asked or [
        Question(rule.id, rule.metric, "all", None, scores.name, None, None, None, nothing)
    ]


def _of_group(
    audit: Audit, row: ScoreChange, rule: ScoreRule, scores: ScoreReport, must: frozenset[str]
) -> Question:
    change = GroupChange(
        group=row.group,
        metric=rule.metric,
        class_id=None,
        dense=read_estimate(row.dense),
        compressed=read_estimate(row.compressed),
        relative=read_estimate(row.relative),
        absolute=read_estimate(row.worse),
        relative_variance=read_variance(row.relative_variance),
        absolute_variance=read_variance(row.absolute_variance),
    )
    small = ""
    if row.worse.n < FEWEST and row.group not in must:
        small = f"too small to judge: {row.worse.n} examples, {FEWEST} are needed"
    return Question(
        rule.id, rule.metric, row.group, None,
        f"mean {scores.name} of {audit.group_names[row.group]}",
        rule.max_worse.relative, rule.max_worse.absolute, change,
        not_judged=small, too_small=bool(small),
    )  # fmt: skip


def _of_slices(
    audit: Audit, variant: str, rule: ScoreRule, scores: ScoreReport
) -> Iterator[Question]:
    search = audit.slices.get(variant)
    if search is None:
        return
    if not search.settings.get("confirm", True):
        reason = UNCONFIRMED.format(search.settings.get("mode"))
        yield Question(rule.id, rule.metric, "all", None, "slices", None, None, None, reason)
        return

    def worse(effect: Estimate) -> Estimate:
        return effect if scores.lower_is_better else effect.negated()

    everyone = f"mean {scores.name} of all examples, as no slice stands out"
    rises = [(f"mean {scores.name} of slice {row.text}", row.effect) for row in search.slices]
    for where, effect in rises or [(everyone, search.change)]:
        change = difference_alone(rule.metric, "all", worse(read_estimate(effect)))
        yield Question(
            rule.id, rule.metric, "all", None, where, None, rule.max_worse.absolute, change
        )


def _chosen(key: str, rule: ScoreRule) -> bool:
    """Whether a rule asks about a group."""
    parts = set(parse_group_key(key))
    if rule.attributes is not None and not {name for name, _ in parts} <= set(rule.attributes):
        return False
    return not any(set(parse_group_key(one)) <= parts for one in rule.exclude)
