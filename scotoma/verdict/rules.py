"""What does a gate ask of an audit? A rule is a filter over rows and a margin: a table of kinds.

A kind says which rows of the audit a rule asks about, in which words, when a number rests on too
little to be judged (`why_too_small` says how little), and what to say where the audit has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from scotoma.answers.group_keys import parse_group_key
from scotoma.audit.base import At, Row
from scotoma.audit.gate import Margins
from scotoma.audit.groups import ENDING_NAMES, RATE_NAMES
from scotoma.audit.previous import EXCESS
from scotoma.audit.robustness import ALL_KINDS
from scotoma.config.gate import GateRules, Rule, refuse_unfit_rules
from scotoma.numbers import Estimate, heterogeneity, undefined
from scotoma.numbers.enough import FEWEST_PICTURES, FEWEST_SCORES, sampling_margin
from scotoma.questions import question_of
from scotoma.verdict.evidence import AuditRows, Rise, known
from scotoma.verdict.gate_test import (
    GateTest,
    clearing_margin,
    rise_test,
    unanswered,
    why_too_small,
)
from scotoma.verdict.levels import NO_ATTRIBUTES, level_sentence, level_tests
from scotoma.verdict.since_previous import Before

MOST_UNKNOWN = 0.01  # share of a group whose ending may be unknown in a PASS
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

    def margins(self, at: At) -> tuple[float | None, float | None]:
        """The margins of the rule, relative and absolute, as fractions."""
        rule = self.rule
        limits = getattr(rule, "max_increase", getattr(rule, "max_worse", None))
        if limits is None:
            return None, rule.margin if hasattr(rule, "margin") else rule.max
        if hasattr(limits, "points"):
            return None, limits.points / 100
        return limits.relative, limits.absolute


def _rows(**whats: str) -> Callable[[Asking], Iterator[At]]:
    """List the addresses of the rule's question: names of evidence, and what its rows are."""
    return lambda asking: (
        {name: at[what] for name, what in whats.items()}
        for at in asking.rows.at(question_of(asking.rule.metric), whats["absolute"])
    )


@dataclass(frozen=True, kw_only=True)
class RuleKind:
    """One kind of rule.

    Attributes:
        says: The rule as a sentence, see `gate_section.rule_words`.
        rows: List the addresses with evidence: a change called `absolute`, and what `Rise` names.
        words: Name the number.
        asks: Whether the rule asks about an address.
        margins: The margins of an address, relative and absolute.
        turned: Whether a fall is harm.
        dense_rate: Rate of the dense models that a PASS is sure of up to sampling; None for none.
        finest: Whether a PASS has to rule out that sampling margin too.
        fewest: Examples that a group needs to be judged, where nothing else says so.
        few: What to say of fewer.
        nothing: Say why the audit has nothing of the kind; None asks nothing then.
        label: What it asks about, where the audit has nothing.
        tests: List the tests, with the numbers of the audit.
    """

    says: str | Callable[[Any], str]
    rows: Callable[[Asking], Iterable[At]] = lambda asking: ()
    words: Callable[[Asking, Row], str] = lambda asking, row: ""
    asks: Callable[[Asking, Row], bool] = Asking.asks
    margins: Callable[[Asking, At], tuple[float | None, float | None]] = Asking.margins
    turned: Callable[[Asking], bool] = lambda asking: False
    dense_rate: Callable[[At], float] | None = None
    finest: bool = True
    fewest: int = 0
    few: str = "too small to judge: {} examples"
    nothing: Callable[[Asking], str | None] = lambda asking: ""
    label: Callable[[Asking], str] = lambda asking: RATE_NAMES.get(
        asking.rule.metric, asking.rule.metric
    )
    tests: Callable[[RuleKind, Asking], list[GateTest]] = lambda kind, asking: [
        kind.test(asking, at) for at in kind.chosen(asking)
    ]

    def chosen(self, asking: Asking) -> list[At]:
        """List the addresses that the rule asks about."""
        return [at for at in self.rows(asking) if self.asks(asking, at["absolute"])]

    def why_small(self, asking: Asking, at: At, rate: float, n: int) -> str:
        """Say why n examples of such a rate are too few for the margins of an address."""
        relative, absolute = self.margins(asking, at)
        widest = max((relative or 0.0) * rate, absolute or 0.0)
        return why_too_small(rate, n, margin=widest, coarsest=asking.rules.coarsest)

    def test(self, asking: Asking, at: At) -> GateTest:
        """Ask whether the number of an address rises beyond its margins."""
        row, (relative, absolute) = at["absolute"], self.margins(asking, at)
        change = Rise.of(at)
        change = change.negated() if self.turned(asking) else change
        n, must, clearing, small = change.absolute.n, asking.must(row.group), None, ""
        if self.dense_rate is not None:
            rate = self.dense_rate(at)
            clearing = clearing_margin(rate, n, absolute) if self.finest else None
            small = self.why_small(asking, at, rate, n)
        elif n < self.fewest:
            small = f"{self.few.format(n)}, {self.fewest} are needed"
        return rise_test(
            asking.rule.id, asking.rule.metric, self.words(asking, row), change,
            Margins(relative=relative, absolute=absolute, clearing=clearing),
            min_events=asking.rules.min.effective_events, group=row.group or "all",
            class_name=row.class_name, too_small="" if must else small,
        )  # fmt: skip


def gate_tests(rows: AuditRows, rules: GateRules, before: Before | None = None) -> list[GateTest]:
    """List the tests that the rules ask for of one variant, in the order of the rules.

    Args:
        rows: The rows of a compressed variant.
        rules: The gate.
        before: The audit beside the one before it; None where none was named.

    Returns:
        At least one test a rule: one without evidence where the audit holds none. None for
        `since_previous` without another audit.

    Raises:
        DataError: The rules name an attribute or a group that the audit does not have, or need
            labels that it does not have.
    """
    audit = rows.audit
    scored = audit.scores is not None
    refuse_unfit_rules(rules, audit.group_names, labelled=audit.labelled, scored=scored)
    return [one for rule in rules.rules for one in _of_rule(Asking(rows, rule, rules, before))]


def _of_rule(asking: Asking) -> list[GateTest]:
    kind = rule_kind(asking.rule)
    if own := kind.tests(kind, asking):
        return own
    if (why := kind.nothing(asking)) is None:
        return []
    test = unanswered(asking.rule.id, asking.rule.metric, kind.label(asking))
    return [GateTest(test, reason=why, not_judged=why if why == ANSWERED else "")]


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


def _dense(at: At) -> float:
    return known(at["dense"].number.value)


RATES = RuleKind(
    says="the {rate} of {over} rises {by}",
    rows=_rows(absolute="absolute", relative="relative", dense="dense", compressed="compressed"),
    asks=lambda asking, row: row.metric == asking.rule.metric and asking.asks(row),
    words=_rate_words,
    dense_rate=_dense,
    nothing=_no_rates,
)


def _ends(kind: RuleKind, asking: Asking) -> list[GateTest]:
    """Ask how answers ended; no PASS where more is not known than the rule lets rise."""
    asked, everyone = [], asking.rows.audit.groups[0].key
    rates = {at["absolute"].group: _dense(at) for at in kind.rows(asking)
             if at["absolute"].metric == asking.rule.metric}  # fmt: skip
    for at in kind.chosen(asking):
        unknown, (_, margin) = at["unknown"].number, asking.margins(at)
        one = kind.test(asking, at)
        most = max(min(MOST_UNKNOWN, margin or MOST_UNKNOWN), sampling_margin(0.0, unknown.n))
        if (share := known(unknown.value)) > most:
            why = f"{100 * share:.1f}% of {unknown.n:,} examples do not say how they ended"
            one = replace(one, clears=(), reason=why)
            if not kind.why_small(asking, at, rates[everyone], unknown.n):  # nor with all endings
                one = replace(one, not_judged="", too_small=False)
        asked.append(one)
    return asked


def _no_endings(asking: Asking) -> str:
    said = asking.rows.audit.numbers("endings", metric=asking.rule.metric)
    return _no_rates(asking) if said else "the answers do not say how they ended"


ENDINGS = replace(
    RATES,
    rows=_rows(
        absolute="absolute", relative="relative", dense="dense", compressed="compressed",
        unknown="unknown",
    ),
    words=lambda asking, row: f"{ENDING_NAMES[asking.rule.metric]} {asking.name(row)}",
    nothing=_no_endings,
    label=lambda asking: ENDING_NAMES[asking.rule.metric],
    tests=_ends,
)  # fmt: skip


def _gaps(asking: Asking) -> Iterator[At]:
    """The gaps of groups, each beside the error of the group in question."""
    rates = {
        at["dense"].group: at["dense"]
        for at in asking.rows.at("rates", "dense")
        if at["dense"].metric == "error" and at["dense"].class_name is None
    }
    for at in asking.rows.at("gaps", "gap"):
        gap = at["gap"].model_copy(update={"group": at["gap"].fact("group_b")})
        yield {"absolute": gap, "dense": rates[gap.group]}


def _within_rate(asking: Asking, at: At) -> tuple[None, float]:
    """Take the relative margin of a gap for a share of the error of the group in question."""
    relative, absolute = asking.margins(at)
    return None, max(absolute or 0.0, (relative or 0.0) * (at["dense"].number.value or 0.0))


def _gap_words(asking: Asking, row: Row) -> str:
    other = row.fact("group_a")
    return f"error {asking.name(row)} beyond {asking.rows.names.get(other, other)}"


GAPS = replace(
    RATES,
    rows=_gaps,
    asks=Asking.asks,
    margins=_within_rate,
    words=_gap_words,
    nothing=lambda asking: "the audit compares no groups with each other",
    label=lambda asking: "gaps of error",
)

# --- examples that change -------------------------------------------------------------------------

EXCESSES = RuleKind(
    says="CIEs beyond seed noise are more than {share} of the examples",
    rows=_rows(absolute="cie.excess"),
    words=lambda asking, row: "CIE excess",
)
CHANGED = RuleKind(
    says="more than {share} of the labels of {over} change",
    rows=_rows(absolute="ledger.changed"),
    words=lambda asking, row: f"changed labels of {asking.name(row)}",
    dense_rate=lambda at: 0.0,
    finest=False,
    nothing=lambda asking: "the audit has no groups",
)

# --- classes --------------------------------------------------------------------------------------


def _with_spread(kind: RuleKind, asking: Asking) -> list[GateTest]:
    """Of more than 20 classes no single one has to be cleared, though each can fail.

    The spread of their true losses is judged instead, which is the first test.
    """
    chosen = kind.chosen(asking)
    own = [kind.test(asking, at) for at in chosen]
    if len(own) <= MANY_CLASSES:
        return own
    together = f"judged with the other {len(own) - 1:,} classes by the spread of their losses"
    where = f"spread of the recall losses of {len(own):,} classes beyond accuracy's"
    rule, margins = asking.rule, Margins(relative=None, absolute=asking.rule.margin, clearing=None)
    spread = rise_test(rule.id, rule.metric, where, Rise(_spread(chosen)), margins)
    return [spread, *(replace(one, not_judged=together, too_small=False) for one in own)]


def _spread(chosen: list[At]) -> Estimate:
    """How much the true losses of many classes differ: their standard deviation, tau."""
    effects, variances, shares, total = [], [], [], 0
    for at in chosen:
        loss, spread = at["absolute"].number, at["absolute"].spread
        if (n := loss.n) <= 1 or loss.value is None:
            continue
        hit = (known(at["recall"].number.value) + known(at["recall after"].number.value)) / 2
        # By binomial shares, with one error and one hit more, so that no class has none.
        missed = (n * (1 - hit) + 1) / (n + 2)
        examples, members, residual = (
            known(getattr(spread, part, None)) for part in ("examples", "members", "residual")
        )
        effects.append(loss.value)
        variances.append(max(examples + members - residual, examples, members))  # without floor
        shares.append(missed * (1 - missed) / n)
        total += n
    members = chosen[0]["absolute"].number.members
    if len(effects) <= MANY_CLASSES:
        return undefined(f"{len(effects)} classes have examples enough", n=total, members=members)
    return heterogeneity(effects, variances, shares, n=total, members=members)


CLASSES = RuleKind(
    says="a class loses more recall than the model loses accuracy, by more than {points}",
    rows=_rows(**{"absolute": "beyond accuracy", "recall": "dense", "recall after": "compressed"}),
    words=lambda asking, row: f"recall loss of class {row.class_name} beyond accuracy's",
    dense_rate=lambda at: 1 - known(at["recall"].number.value),
    tests=_with_spread,
)

# --- slices, of errors or of scores, and means of scores ------------------------------------------


def _no_slices(asking: Asking) -> str:
    search = asking.rows.audit.slices.get(asking.rows.variant)
    if search is None or search.settings.get("confirm", True):
        return NO_SLICES
    return UNCONFIRMED.format(search.settings.get("mode"))


def _slices(asking: Asking) -> list[At]:
    """The slices that other examples confirm; where none stands out, all examples."""
    found: list[At] = []
    for what in ("slices.effect", "change") if _no_slices(asking) == NO_SLICES else ():
        found = found or [{"absolute": at[what]} for at in asking.rows.at("slices", what)]
    return found


def _number(asking: Asking) -> str:
    scores = asking.rows.audit.scores
    return "error" if scores is None else f"mean {scores.name}"


def _slice_words(asking: Asking, row: Row) -> str:
    text = row.fact("text")
    where = "all examples, as no slice stands out" if text is None else f"slice {text}"
    return f"{_number(asking)} of {where}"


def _no_slices_of(asking: Asking) -> str:
    scores = asking.rows.audit.scores
    if scores is None:
        return str(asking.rule.metric)
    return "slices" if asking.rows.variant in asking.rows.audit.slices else scores.name


def _higher_is_better(asking: Asking) -> bool:
    scores = asking.rows.audit.scores
    return scores is not None and not scores.lower_is_better


SLICES = RuleKind(
    says="the error rises by more than {points} on a slice that nobody named",
    rows=_slices,
    words=_slice_words,
    turned=_higher_is_better,
    nothing=_no_slices,
    label=_no_slices_of,
)
MEANS = RuleKind(
    says="the mean score of {over} gets worse {by}",
    rows=_rows(
        absolute="means.worse", relative="means.relative", dense="means.dense",
        compressed="means.compressed",
    ),
    words=lambda asking, row: f"{_number(asking)} of {asking.name(row)}",
    fewest=FEWEST_SCORES,
    nothing=lambda asking: "there are no groups",
    label=lambda asking: _number(asking).removeprefix("mean "),
)  # fmt: skip

# --- corrupted pictures ---------------------------------------------------------------------------


def _family(row: Row) -> str:
    return str(row.fact("family") or row.fact("pictures"))


def _asks_pictures(asking: Asking, row: Row) -> bool:
    rule, family = asking.rule, _family(row)
    among = family not in (ALL_KINDS, "clean") if rule.kinds is None else family in rule.kinds
    own = row.fact("measure") in (None, "confidence") and row.fact("name") is None
    metric = {None: None, 1: "error", 5: "top5"}[getattr(rule, "top", None)]
    return among and own and row.metric == metric and asking.asks(row)


def _losses(asking: Asking) -> Iterator[At]:
    return _rows(absolute=f"losses.{asking.rule.scale}")(asking)


def _no_losses(asking: Asking) -> str:
    """Say why the audit has nothing on corrupted pictures that a rule asks for."""
    audit, top = asking.rows.audit, getattr(asking.rule, "top", None)
    if audit.robustness is None or not audit.robustness.corruptions:
        return NO_PICTURES
    if top is None:
        return NOT_ASKED
    if top == 5 and not any(row.metric == "top5" for row in audit.numbers("robustness")):
        return NO_TOP5
    return "the audit has no such groups or corruptions"


def _under(row: Row) -> str:
    return f" under {'corruption' if _family(row) == ALL_KINDS else _family(row)}"


def _loss_words(asking: Asking, row: Row) -> str:
    rule = asking.rule
    what = "relative robustness" if rule.scale == "relative" else "accuracy"
    return f"{'top-5 ' * (rule.top == 5)}{what} lost{_under(row)} by {asking.name(row)}"


def _pictures(number: str, beside: str, **kind: Any) -> RuleKind:
    def words(asking: Asking, row: Row) -> str:
        of = f" of {asking.name(row)}" if row.group != "all" else ""
        return f"{number}{of}{_under(row)}"

    return replace(
        LOSSES, words=words, says=f"{{over}} fares worse than with dense models in {beside}"
        "{kinds}, {by}", **kind,
    )  # fmt: skip


LOSSES = RuleKind(
    says="{over} loses more {top}{what} under {under} than with dense models, {by}",
    rows=_losses,
    asks=_asks_pictures,
    words=_loss_words,
    fewest=FEWEST_PICTURES,
    few="{} corrupted examples",
    nothing=_no_losses,
)

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
    says="a group's rate or the CIE excess rose since the previous audit, by more than {points}",
    rows=lambda asking: asking.before.rows(asking.rows.variant) if asking.before else (),
    asks=_asks_since,
    words=_since_words,
    nothing=lambda asking: asking.before.nothing(asking.rows.variant) if asking.before else None,
    label=lambda asking: asking.before.label(asking.rows.variant) if asking.before else "",
)

# --- levels ---------------------------------------------------------------------------------------

LEVELS = RuleKind(
    says=level_sentence,
    tests=lambda kind, asking: [*level_tests(asking.rows, asking.rule)],
    nothing=lambda asking: NO_ATTRIBUTES,
)

# Of every metric that is no level.
KINDS = {
    **dict.fromkeys(("error", "fpr", "fnr", "unanswered"), RATES),
    "error_gap": GAPS,
    **dict.fromkeys(("cut_off", "refused", "tool_call"), ENDINGS),
    "output_tokens": replace(ENDINGS, dense_rate=None, fewest=FEWEST_SCORES),
    "cie_share_excess": EXCESSES,
    "labels_changed": CHANGED,
    "classes_hurt": CLASSES,
    "slices_hurt": SLICES,
    "since_previous": SINCE,
    "mean_score": MEANS,
    "mean_score over slices": replace(SLICES, says=MEANS.says),
    "robustness_loss": LOSSES,
    "overconfidence": _pictures(
        "confidence less accuracy", "confidence less accuracy",
        rows=_rows(absolute="confidence.rows.gap_change"),
    ),
    "unnoticed_pictures": _pictures(
        "corrupted pictures that pass as familiar", "telling clean pictures from corrupted ones",
        rows=_rows(absolute="confidence.detection.auroc_change"), turned=lambda asking: True,
    ),
}  # fmt: skip


def rule_kind(rule: Rule) -> RuleKind:
    """Choose the kind of a rule: that of its metric, over slices where there is one."""
    kind = KINDS.get(rule.metric, LEVELS)
    return KINDS.get(f"{rule.metric} over {getattr(rule, 'over', '')}", kind)
