"""What does a gate ask of an audit? A rule is a filter over rows and a margin: a table of kinds.

An entry says which rows of the audit a rule asks about, with which words, when a number rests on
too little to be judged (`why_too_small` says how little), and what to say where the audit has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scotoma.answers.group_keys import parse_group_key
from scotoma.audit.base import At, Row
from scotoma.audit.gate import Margins
from scotoma.audit.groups import RATE_NAMES
from scotoma.audit.previous import EXCESS
from scotoma.audit.robustness import ALL_KINDS
from scotoma.config.gate import GateRules, Rule, refuse_unfit_rules
from scotoma.config.gate_changes import (
    ChangedRule,
    ChangeRule,
    CieRule,
    ClassesRule,
    MaxIncrease,
    ScoreRule,
    SincePreviousRule,
    SlicesRule,
)
from scotoma.config.gate_levels import LevelRule
from scotoma.config.robustness import PicturesRule, RobustnessRule
from scotoma.numbers import Estimate, heterogeneity, undefined
from scotoma.numbers.enough import FEWEST_PICTURES, FEWEST_SCORES
from scotoma.verdict.evidence import AuditRows, Rise, known
from scotoma.verdict.levels import NO_ATTRIBUTES, level_questions
from scotoma.verdict.question import (
    Question,
    clearing_margin,
    rise_question,
    unanswered,
    why_too_small,
)
from scotoma.verdict.since_previous import Before

MANY_CLASSES = 20  # above it classes are judged by the spread of their losses
UNCONFIRMED = "slices.mode {} confirms no slice on other examples; slices.mode cover does"
NO_SLICES = "the audit measured no slices"
NO_PICTURES = (
    "the audit ran no model on corrupted pictures; add robustness to its configuration, and repeat "
    "the whole audit"
)
NO_TOP5 = "the audit does not know the five best classes; top: 5 is for more than ten classes"
NOT_ASKED = "the audit did not measure it for such groups; add confidence: true to robustness"
ANSWERED = "every example has an answer"


@dataclass(frozen=True)
class Asking:
    """One rule that asks about one variant.

    Attributes:
        rows: The rows of the audit.
        rule: The rule.
        rules: The gate.
        before: The audit beside the one before it; None where none was named.
    """

    rows: AuditRows
    rule: Any
    rules: GateRules
    before: Before | None

    def asks(self, row: Row) -> bool:
        """Whether the rule asks about an address, by what it says of groups and classes."""
        rule, everyone = self.rule, self.rows.audit.groups[0].key
        group, over = row.group or everyone, getattr(rule, "over", "slices")
        place = "groups" if group != everyone else "all" if row.class_name is None else "classes"
        if over == "slices" or place != over or place != "groups":
            return over in ("slices", place)
        parts = set(parse_group_key(group))
        of = getattr(rule, "attributes", None)
        if of is not None and not {attribute for attribute, _ in parts} <= set(of):
            return False
        left_out = any(set(parse_group_key(one)) <= parts for one in getattr(rule, "exclude", ()))
        return not left_out and self.rows.sizes[group] >= getattr(rule, "min_examples", 0)

    def must(self, key: str | None) -> bool:
        """Whether a group must be judged, however small: by its key, or its one attribute."""
        if key is None:
            return False
        attributes = [attribute for attribute, _ in parse_group_key(key)]
        must = self.rules.must
        return key in must or (len(attributes) == 1 and attributes[0] in must)

    def name(self, row: Row) -> str:
        """What readers call the group of a row."""
        return self.rows.names[row.group or self.rows.audit.groups[0].key]

    @property
    def margins(self) -> tuple[float | None, float | None]:
        """The margins of the rule, relative and absolute, as fractions."""
        rule = self.rule
        limits = getattr(rule, "max_increase", getattr(rule, "max_worse", None))
        if limits is None:
            return None, rule.margin if hasattr(rule, "margin") else rule.max
        if hasattr(limits, "points"):
            return None, limits.points / 100
        return limits.relative, limits.absolute


def _ask_rise(asking: Asking, kind: RuleKind, at: At) -> Question:
    row, (relative, absolute) = at[kind.whats["absolute"]], asking.margins
    change = Rise.of(at, kind.whats)
    change = change.negated() if kind.turned(asking) else change
    n, clearing, small = change.absolute.n, None, ""
    if n < kind.fewest and not asking.must(row.group):
        small = f"{kind.few.format(n)}, {kind.fewest} are needed"
    if kind.sampled is not None:
        rate, n = kind.sampled(at, change)
        clearing = clearing_margin(rate, n, absolute) if kind.finest else None
        widest = max((relative or 0.0) * rate, absolute or 0.0)
        if not asking.must(row.group):
            small = why_too_small(rate, n, margin=widest, coarsest=asking.rules.coarsest)
    return rise_question(
        asking.rule.id, asking.rule.metric, kind.words(asking, row), change,
        Margins(relative=relative, absolute=absolute, clearing=clearing),
        min_events=asking.rules.min.effective_events, group=row.group or "all",
        class_name=row.class_name, not_judged=small, too_small=bool(small),
    )  # fmt: skip


def _asked(asking: Asking, kind: RuleKind) -> list[Question]:
    return [_ask_rise(asking, kind, at) for at in _chosen(asking, kind)]


def _chosen(asking: Asking, kind: RuleKind) -> list[At]:
    what = kind.whats["absolute"]
    ats = asking.rows.at(kind.rows, what) if isinstance(kind.rows, str) else kind.rows(asking)
    return [at for at in ats if kind.asks(asking, at[what])]


@dataclass(frozen=True, kw_only=True)
class RuleKind:
    """One kind of rule.

    Attributes:
        rows: Question of the rows that it asks about, or what else lists them by address.
        whats: Which rows of an address are the evidence.
        words: Name the number.
        asks: Whether the rule asks about an address.
        turned: Whether a fall is harm.
        sampled: Dense rate that a PASS is sure of up to sampling, and its n; None for no such rate.
        finest: Whether a PASS has to rule out that sampling margin too.
        fewest: Examples that a group needs to be judged, where nothing else says so.
        few: What to say of fewer.
        nothing: Say why the audit has nothing of the kind; None asks nothing then.
        label: What it asks about, where the audit has nothing.
        own: Ask, with the numbers of the audit.
    """

    rows: str | Callable[[Asking], Iterable[At]] = ""
    whats: Mapping[str, str] = field(default_factory=dict)
    words: Callable[[Asking, Row], str] = lambda asking, row: str(row.fact("where"))
    asks: Callable[[Asking, Row], bool] = Asking.asks
    turned: Callable[[Asking], bool] = lambda asking: False
    sampled: Callable[[At, Rise], tuple[float, int]] | None = None
    finest: bool = True
    fewest: int = 0
    few: str = "too small to judge: {} examples"
    nothing: Callable[[Asking], str | None] = lambda asking: ""
    label: Callable[[Asking], str] = lambda asking: RATE_NAMES.get(
        asking.rule.metric, asking.rule.metric
    )
    own: Callable[[Asking, RuleKind], list[Question]] = _asked


def questions(rows: AuditRows, rules: GateRules, before: Before | None = None) -> list[Question]:
    """List the questions that the rules ask about one variant, in the order of the rules.

    Args:
        rows: The rows of a compressed variant.
        rules: The gate.
        before: The audit beside the one before it; None where none was named.

    Returns:
        At least one question a rule: one without evidence where the audit holds none. None for
        `since_previous` without another audit.

    Raises:
        DataError: The rules name an attribute or a group that the audit does not have, or need
            labels that it does not have.
    """
    audit = rows.audit
    scored = audit.scores is not None
    refuse_unfit_rules(rules, audit.group_names, labelled=audit.labelled, scored=scored)
    return [one for rule in rules.rules for one in _of_rule(Asking(rows, rule, rules, before))]


def _of_rule(asking: Asking) -> list[Question]:
    kind = KINDS[type(asking.rule)]
    kind = kind if isinstance(kind, RuleKind) else kind(asking)
    if own := kind.own(asking, kind):
        return own
    if (why := kind.nothing(asking)) is None:
        return []
    test = unanswered(asking.rule.id, asking.rule.metric, kind.label(asking))
    return [Question(test, reason=why, not_judged=why if why == ANSWERED else "")]


# --- rates of groups and classes ------------------------------------------------------------------


def _rate_words(asking: Asking, row: Row) -> str:
    parts = [f"class {row.class_name}"] if row.class_name is not None else []
    if row.group != "all" or not parts:
        parts.insert(0, asking.name(row))
    return f"{RATE_NAMES[asking.rule.metric]} {', '.join(parts)}"


def _no_rates(asking: Asking) -> str:
    rule, audit = asking.rule, asking.rows.audit
    if rule.metric == "unanswered":
        return ANSWERED
    if rule.over == "groups":
        return f"the audit has no {'such ' if len(audit.groups) > 1 else ''}groups"
    if rule.over == "classes" and audit.examples.positive is not None:
        return f"label.positive makes the {rule.metric} one rate; ask over groups or all"
    return f"without label.positive each class has its own {rule.metric}; ask over classes"


RATES = RuleKind(
    rows=lambda asking: asking.rows.at(
        "unanswered" if asking.rule.metric == "unanswered" else "rates", "absolute"
    ),
    whats={what: what for what in ("absolute", "relative", "dense", "compressed")},
    asks=lambda asking, row: row.metric == asking.rule.metric and asking.asks(row),
    words=_rate_words,
    sampled=lambda at, change: (known(at["dense"].number.value), at["dense"].number.n),
    nothing=_no_rates,
)


def _gaps(asking: Asking) -> Iterator[At]:
    """The gaps of groups, each beside the error of the group in question."""
    rates = {
        at["dense"].group: at
        for at in asking.rows.at("rates", "dense")
        if at["dense"].metric == "error" and at["dense"].class_name is None
    }
    for at in asking.rows.at("gaps", "gap"):
        gap = at["gap"].model_copy(update={"group": at["gap"].fact("group_b")})
        yield {"absolute": gap, "dense": rates[gap.group]["dense"]}


def _within_rate(asking: Asking, kind: RuleKind) -> list[Question]:
    """Ask of gaps, whose relative margin is a share of the error of the group in question."""
    asked = []
    for at in _chosen(asking, kind):
        relative, absolute = asking.margins
        margin = max(absolute or 0.0, (relative or 0.0) * (at["dense"].number.value or 0.0))
        rule = asking.rule.model_copy(update={"max_increase": MaxIncrease(absolute=margin)})
        asked.append(_ask_rise(replace(asking, rule=rule), kind, at))
    return asked


def _gap_words(asking: Asking, row: Row) -> str:
    other = row.fact("group_a")
    return f"error {asking.name(row)} beyond {asking.rows.names.get(other, other)}"


GAPS = RuleKind(
    rows=_gaps,
    whats={"absolute": "absolute", "dense": "dense"},
    words=_gap_words,
    sampled=lambda at, change: (known(at["dense"].number.value), change.absolute.n),
    nothing=lambda asking: "the audit compares no groups with each other",
    own=_within_rate,
    label=lambda asking: "gaps of error",
)

# --- examples that change -------------------------------------------------------------------------

EXCESSES = RuleKind(
    rows="divergence",
    whats={"absolute": "cie.excess"},
    words=lambda asking, row: "CIE excess",
)
CHANGED = RuleKind(
    rows="divergence",
    whats={"absolute": "ledger.changed"},
    words=lambda asking, row: f"changed labels of {asking.name(row)}",
    sampled=lambda at, change: (0.0, change.absolute.n),
    finest=False,
    nothing=lambda asking: "the audit has no groups",
)

# --- classes --------------------------------------------------------------------------------------


def _with_spread(asking: Asking, kind: RuleKind) -> list[Question]:
    """Of more than 20 classes no single one has to be cleared, though each can fail.

    The spread of their true losses is judged instead, which is the first question.
    """
    own = _asked(asking, kind)
    if len(own) <= MANY_CLASSES:
        return own
    together = f"judged with the other {len(own) - 1:,} classes by the spread of their losses"
    where = f"spread of the recall losses of {len(own):,} classes beyond accuracy's"
    rule, margins = asking.rule, Margins(relative=None, absolute=asking.rule.margin, clearing=None)
    spread = rise_question(
        rule.id, rule.metric, where, Rise(_spread(_chosen(asking, kind))), margins
    )
    return [spread, *(replace(one, not_judged=together, too_small=False) for one in own)]


def _spread(chosen: list[At]) -> Estimate:
    """How much the true losses of many classes differ: their standard deviation, tau."""
    effects, variances, shares, total = [], [], [], 0
    for at in chosen:
        loss, spread = at["beyond accuracy"].number, at["beyond accuracy"].spread
        if (n := loss.n) <= 1 or loss.value is None:
            continue
        hit = (known(at["dense"].number.value) + known(at["compressed"].number.value)) / 2
        # By binomial shares, with one error and one hit more, so that no class has none.
        missed = (n * (1 - hit) + 1) / (n + 2)
        examples, members, residual = (
            known(getattr(spread, part, None)) for part in ("examples", "members", "residual")
        )
        effects.append(loss.value)
        variances.append(max(examples + members - residual, examples, members))  # without floor
        shares.append(missed * (1 - missed) / n)
        total += n
    members = chosen[0]["beyond accuracy"].number.members
    if len(effects) <= MANY_CLASSES:
        return undefined(f"{len(effects)} classes have examples enough", n=total, members=members)
    return heterogeneity(effects, variances, shares, n=total, members=members)


CLASSES = RuleKind(
    rows="impact",
    whats={"absolute": "beyond accuracy"},
    words=lambda asking, row: f"recall loss of class {row.class_name} beyond accuracy's",
    sampled=lambda at, change: (1 - known(at["dense"].number.value), change.absolute.n),
    own=_with_spread,
)

# --- slices, of errors or of scores, and means of scores ------------------------------------------


def _no_slices(asking: Asking) -> str:
    search = asking.rows.audit.slices.get(asking.rows.variant)
    if search is None or search.settings.get("confirm", True):
        return NO_SLICES
    return UNCONFIRMED.format(search.settings.get("mode"))


def _sliced(asking: Asking, kind: RuleKind) -> list[Question]:
    """Ask of the slices that other examples confirm; where none stands out, of all examples."""
    unconfirmed = _no_slices(asking) != NO_SLICES
    return [] if unconfirmed else _asked(asking, kind) or _asked(asking, NO_SLICE)


def _number(asking: Asking) -> str:
    scores = asking.rows.audit.scores
    return "error" if scores is None else f"mean {scores.name}"


def _no_slices_of(asking: Asking) -> str:
    scores = asking.rows.audit.scores
    if scores is None:
        return str(asking.rule.metric)
    return "slices" if asking.rows.variant in asking.rows.audit.slices else scores.name


def _higher_is_better(asking: Asking) -> bool:
    scores = asking.rows.audit.scores
    return scores is not None and not scores.lower_is_better


NO_SLICE = RuleKind(
    rows="slices",
    whats={"absolute": "change"},
    words=lambda asking, row: f"{_number(asking)} of all examples, as no slice stands out",
    turned=_higher_is_better,
    nothing=_no_slices,
    label=_no_slices_of,
)
SLICES = replace(
    NO_SLICE,
    whats={"absolute": "slices.effect"},
    words=lambda asking, row: f"{_number(asking)} of slice {row.fact('text')}",
    own=_sliced,
)
MEANS = RuleKind(
    rows="scores",
    whats={
        "absolute": "means.worse", "relative": "means.relative", "dense": "means.dense",
        "compressed": "means.compressed",
    },
    words=lambda asking, row: f"{_number(asking)} of {asking.name(row)}",
    fewest=FEWEST_SCORES,
    nothing=lambda asking: "there are no groups",
    label=lambda asking: _number(asking).removeprefix("mean "),
)  # fmt: skip

# --- corrupted pictures ---------------------------------------------------------------------------


def _family(row: Row) -> str:
    return str(row.fact("family") or row.fact("pictures"))


def _asks_pictures(asking: Asking, row: Row) -> bool:
    family, kinds = _family(row), asking.rule.kinds
    among = family not in (ALL_KINDS, "clean") if kinds is None else family in kinds
    own = row.fact("measure") in (None, "confidence") and row.fact("name") is None
    return among and own and asking.asks(row)


def _asks_loss(asking: Asking, row: Row) -> bool:
    metric = "top5" if asking.rule.top == 5 else "error"
    return row.metric == metric and _asks_pictures(asking, row)


def _under(row: Row) -> str:
    return f" under {'corruption' if _family(row) == ALL_KINDS else _family(row)}"


def _loss_words(asking: Asking, row: Row) -> str:
    rule = asking.rule
    what = "relative robustness" if rule.scale == "relative" else "accuracy"
    return f"{'top-5 ' * (rule.top == 5)}{what} lost{_under(row)} by {asking.name(row)}"


def _no_losses(asking: Asking) -> str:
    """Say why the audit has nothing on corrupted pictures that a rule asks for."""
    audit, rule = asking.rows.audit, asking.rule
    if audit.robustness is None or not audit.robustness.corruptions:
        return NO_PICTURES
    if isinstance(rule, PicturesRule):
        return NOT_ASKED
    if rule.top == 5 and not any(row.metric == "top5" for row in audit.numbers("robustness")):
        return NO_TOP5
    return "the audit has no such groups or corruptions"


def _picture_words(asking: Asking, row: Row) -> str:
    beside = {
        "overconfidence": "confidence less accuracy",
        "unnoticed_pictures": "corrupted pictures that pass as familiar",
    }
    of = f" of {asking.name(row)}" if row.group != "all" else ""
    return f"{beside[asking.rule.metric]}{of}{_under(row)}"


OVERCONFIDENCE = RuleKind(
    rows="robustness",
    whats={"absolute": "confidence.rows.gap_change"},
    asks=_asks_pictures,
    words=_picture_words,
    fewest=FEWEST_PICTURES,
    few="{} corrupted examples",
    nothing=_no_losses,
)
UNNOTICED = replace(
    OVERCONFIDENCE,
    whats={"absolute": "confidence.detection.auroc_change"},
    turned=lambda asking: True,
)
LOSSES = {
    scale: replace(
        OVERCONFIDENCE, whats={"absolute": f"losses.{scale}"}, asks=_asks_loss, words=_loss_words
    )
    for scale in ("absolute", "relative")
}

# --- the audit before -----------------------------------------------------------------------------


def _asks_since(asking: Asking, row: Row) -> bool:
    by_error = asking.rows.audit.examples.positive is None
    return row.metric == EXCESS or (row.metric == "error") is by_error


def _since_words(asking: Asking, row: Row) -> str:
    name = "CIE excess"
    if row.metric != EXCESS:
        name = f"{RATE_NAMES[str(row.metric)]} {asking.name(row)}"
    return f"{name} since the previous audit"


SINCE = RuleKind(
    rows=lambda asking: asking.before.rows(asking.rows.variant) if asking.before else (),
    whats={"absolute": "change"},
    asks=_asks_since,
    words=_since_words,
    nothing=lambda asking: asking.before.nothing(asking.rows.variant) if asking.before else None,
    label=lambda asking: asking.before.label(asking.rows.variant) if asking.before else "",
)

# --- levels ---------------------------------------------------------------------------------------

LEVELS = RuleKind(
    own=lambda asking, kind: [*level_questions(asking.rows, asking.rule)],
    nothing=lambda asking: NO_ATTRIBUTES,
)

# A rule's class: its kind, or how its settings choose one.
KINDS: dict[type[Rule], RuleKind | Callable[[Asking], RuleKind]] = {
    ChangeRule: lambda asking: GAPS if asking.rule.metric == "error_gap" else RATES,
    CieRule: EXCESSES,
    ChangedRule: CHANGED,
    ClassesRule: CLASSES,
    SlicesRule: SLICES,
    SincePreviousRule: SINCE,
    LevelRule: LEVELS,
    ScoreRule: lambda asking: SLICES if asking.rule.over == "slices" else MEANS,
    RobustnessRule: lambda asking: LOSSES[asking.rule.scale],
    PicturesRule: lambda asking: (
        OVERCONFIDENCE if asking.rule.metric == "overconfidence" else UNNOTICED
    ),
}
