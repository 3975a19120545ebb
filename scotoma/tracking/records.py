"""What MLflow is to hold of an audit: runs with names, numbers and tags, from audit.json."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scotoma._version import __version__
from scotoma.answers.group_keys import parse_group_key
from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.base import At, Row
from scotoma.audit.document import AuditedVariant
from scotoma.audit.gate import JudgedVariant
from scotoma.document import Unit, in_words
from scotoma.impact.worst_change import (
    gap_groups,
    highest_error,
    largest_gap,
    mean_score,
    most_changed,
    worst_change,
    worst_mean,
)
from scotoma.printable import printable

NOTE = "mlflow.note.content"
KIND = "scotoma.kind"  # a tag: what a run is of
AUDIT, VARIANT, MODEL = "audit", "variant", "model"  # its values
TEXT_LENGTH = 5000  # of a tag; the server takes 8000
HEAD = 25  # metrics that stand first, under names of one word
DETAIL = "detail"
POINTS = 100

# Of the runs of one variant, dense first. MLflow's own go by the run's id: two of three are alike
# now and then. Okabe and Ito (2008) chose these for eyes that take red for green.
DENSE_COLOUR = "#595959"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")

RISES = {"absolute": "rise", "relative": "rise_relative"}  # of a rate
COMPARED = (["losses"], ["means"], ["quantiles"])  # sections of rows with rises
VERDICTS = ("PASS", "UNSURE", "FAIL")


@dataclass
class RunRecord:
    """What one MLflow run holds.

    Attributes:
        name: Name of the run.
        tags: Name to text, unchanged: `texts` has them as they are written.
        params: Name to number or word.
        metrics: Name, value and step, in the order in which MLflow's page of the run shows them.
        examples: Number of examples of each split that it rests on.
        samples: How busy the machine was over time, see `machine_sampled`.

    >>> record = RunRecord("dense", {"variant": "dense"}, {})
    >>> record.number("accuracy", 0.9), record.number("cie_share", None)
    (True, False)
    >>> record.metrics
    [('accuracy', 0.9, 0)]
    """

    name: str
    tags: dict[str, str]
    params: dict[str, Any]
    metrics: list[tuple[str, float, int]] = field(default_factory=list)
    examples: dict[str, int] = field(default_factory=dict)
    samples: Sequence[Mapping[str, float]] = ()

    def key(self, tags: Mapping[str, str] | None = None) -> tuple[str | None, ...]:
        """Identify the run by its tags, or by others."""
        values = self.tags if tags is None else tags
        names = ("scotoma.variant", "scotoma.result", "scotoma.member", "scotoma.weights")
        return tuple(values.get(name) for name in names)

    def texts(self) -> dict[str, str]:
        """The tags, with a space for whatever could steer a terminal or break a database."""
        lines = {
            key: text.split("\n") if key == NOTE else [text] for key, text in self.tags.items()
        }
        return {key: "\n".join(map(printable, texts))[:TEXT_LENGTH] for key, texts in lines.items()}

    def number(self, name: str, value: Any) -> bool:
        """A metric, where there is a finite number; numbers.parquet says why there is none."""
        if finite := _is_finite(value):
            self.metrics.append((name, float(value), 0))
        return finite

    def quantity(self, name: str, quantity: Quantity) -> None:
        """A number, and beside it the ends of its interval as `_low` and `_high`."""
        ends = (quantity.low, quantity.high)
        if self.number(name, quantity.value) and all(map(_is_finite, ends)):
            for side, end in zip(("low", "high"), ends, strict=True):
                self.number(f"{name}_{side}", end)


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


# --- the audit and its variants -------------------------------------------------------------------


def audit_records(
    audit: Audit, gate: GateResult | None, date: str, tags: Mapping[str, str]
) -> tuple[RunRecord, list[RunRecord]]:
    """Describe the run of an audit, and those of its variants that MLflow nests below it.

    Args:
        audit: The audit.
        gate: The verdict on it; None for none.
        date: Day or month by which a reader knows the audit.
        tags: What each run is told of where the audit lies.

    Returns:
        The audit's record, with the headline of the variant that decides, and a record a variant,
        dense last: the run that is logged last is listed first. The first 25 metrics of a variant
        have names of one word, all others stand below `detail/`; rates and their rises are
        fractions.
    """
    # Judged otherwise it is another result.
    judged = "".join(part.model_dump_json() for part in (audit, gate) if part)
    shared = _shared(audit, tags) | {
        "scotoma.result": hashlib.sha256(judged.encode()).hexdigest(),
        "scotoma.setup": audit.fingerprint.setup,
    }
    shared = {name: text for name, text in shared.items() if text}
    verdicts = {one.name: one for one in gate.variants} if gate else {}
    names = [variant.name for variant in audit.variants]
    variants = [_variant(audit, name, verdicts.get(name), date, shared) for name in reversed(names)]
    return _parent(audit, gate, variants, date, shared), variants


def _shared(audit: Audit, tags: Mapping[str, str]) -> dict[str, str]:
    """Tags of every run of an audit, of its members too."""
    return {
        "scotoma.audit": audit.config_sha256,
        "scotoma.dataset": audit.examples.dataset_sha256,
        "scotoma.version": __version__,
        "mlflow.source.name": "scotoma",
        "mlflow.source.type": "LOCAL",
        **tags,
    }


def _params(variant: AuditedVariant) -> dict[str, Any]:
    """How a variant was compressed, as far as it is known."""
    known = {key: getattr(variant, key) for key in ("sparsity", "bits")}
    return {key: value for key, value in known.items() if value is not None}


def _parent(
    audit: Audit,
    gate: GateResult | None,
    variants: Sequence[RunRecord],
    date: str,
    shared: Mapping[str, str],
) -> RunRecord:
    """The run of the audit: its verdict, and the headline of the variant that decides it."""
    decides = max(variants, key=_severity)
    word = gate.verdict if gate else ""
    record = RunRecord(
        name=" · ".join(filter(None, (date, word))),
        tags=dict(shared) | {KIND: AUDIT},
        params={
            **({"verdict": word} if word else {}),
            "variant": printable(decides.tags["scotoma.variant"]),
            **{key: decides.params[key] for key in ("worst_group", "worst_rise", "members")
               if key in decides.params},
            "examples": audit.examples.test,
        },
        metrics=[one for one in decides.metrics if "/" not in one[0]],
        examples=variants[0].examples,
    )  # fmt: skip
    note = [f"**{word or 'not judged'}** {escape_markdown(audit.project)}", ""]
    if gate:
        record.tags["scotoma.verdict"] = word
        for one in gate.variants:
            sentences = " ".join(map(escape_markdown, one.sentences))
            note.append(f"- **{one.verdict}** {escape_markdown(one.name)}: {sentences}")
    record.tags[NOTE] = "\n".join(note)
    return record


def _severity(record: RunRecord) -> tuple[float, ...]:
    """How much a variant weighs in the verdict on its audit."""
    metrics = {name: value for name, value, _ in record.metrics}
    verdict = record.params.get("verdict")
    rank = VERDICTS.index(verdict) if verdict in VERDICTS else -1
    compressed = record.tags["scotoma.variant"] != "dense"
    rise = metrics.get("error_rise_worst_low", metrics.get("changed_worst", -math.inf))
    return compressed, rank, rise


def _variant(
    audit: Audit, name: str, judged: JudgedVariant | None, date: str, shared: Mapping[str, str]
) -> RunRecord:
    """Everything that the run of a variant holds."""
    place = [variant.name for variant in audit.variants].index(name)
    variant = audit.variants[place]
    word = judged.verdict if judged else ""
    record = RunRecord(
        name=" · ".join(filter(None, (date, printable(name), word))),
        tags=dict(shared)
        | {KIND: VARIANT, "scotoma.variant": name, "mlflow.runColor": _colour(place)},
        params=_params(variant) | {"members": variant.members},
        examples={"train": audit.examples.train, "test": audit.examples.test},
    )
    if word:
        record.params["verdict"] = word
        record.tags["scotoma.verdict"] = word
    headline = _headline(audit, name)
    scored = f" {escape_markdown(audit.scores.unit)}".rstrip() if audit.scores else ""
    models = f"{variant.members} model{'s' * (variant.members != 1)}"
    note = [f"**{word or 'baseline'}** {escape_markdown(name)}: {models}", ""]
    note += [f"- {escape_markdown(line)}" for line in judged.sentences] if judged else []
    for key, quantity, where, unit in headline:
        if len(record.metrics) + 3 <= HEAD:
            record.quantity(key, quantity)
        shown, named = in_words(quantity, unit), scored * (unit == "score")
        known = f"{shown}{named}, n = {quantity.n:,}"
        shown = escape_markdown(shown) if quantity.value is None else known
        note.append(f"- {key}: {shown}" + f" in {escape_markdown(where)}" * bool(where))
    worst = next(((q, where, unit) for _, q, where, unit in headline if where), None)
    if worst is not None:
        record.params["worst_group"] = printable(worst[1])
        record.params["worst_rise"] = printable(in_words(worst[0], worst[2]))[:TEXT_LENGTH]
    if judged is not None and len(record.metrics) < HEAD:
        counted = [test.verdict for test in judged.counted]
        record.number("tests_failed", counted.count("FAIL"))
    _details(record, audit, name, judged)
    if not audit.labelled and audit.examples.unlabelled:
        note.append(f"- {escape_markdown(audit.examples.unlabelled)}")
    record.tags[NOTE] = "\n".join(note)
    return record


def _colour(place: int) -> str:
    return COLOURS[(place - 1) % len(COLOURS)] if place else DENSE_COLOUR


def _headline(audit: Audit, name: str) -> list[tuple[str, Quantity, str, Unit]]:
    """The numbers that a reader looks for: name, number, whose it is, and its unit in words."""
    rows: list[tuple[str, Quantity, str, Unit]] = []
    named = audit.group_names

    def tell(key: str, at: At | None, what: str, unit: Unit) -> None:
        if at and what in at:
            group = named[str(at[what].group)] if key.endswith("_worst") else ""
            rows.append((key, at[what].number, group, unit))

    if audit.scores is not None:
        if means := audit.at("scores", name, "means."):
            worst = worst_mean(audit, name)
            tell("worse_relative_worst", worst, "relative", "percent")
            tell("worse_worst", worst, "worse", "score")
            tell("worse_relative", means[0], "relative", "percent")
        tell("mean_score", {"mean": mean_score(audit, name)}, "mean", "score")
        return rows
    changes = {metric: worst_change(audit, name, metric) for metric in ("error", "fpr", "fnr")}
    tell("error_rise_worst", changes.pop("error"), "absolute", "points")
    cies, accuracy, overall = (
        next(iter(ats), None)
        for ats in (
            audit.at("divergence", name, "cie."),
            audit.at("accuracy", name),
            audit.at("rates", name, class_name=None),
        )
    )
    if cies and not audit.labelled:
        tell("changed_worst", {"changed": most_changed(audit, name)}, "changed", "rate")
    tell("accuracy", accuracy, "top1", "rate")
    tell("cie_excess", cies, "excess", "points")
    tell("error_rise", overall, "absolute", "points")
    tell("error_worst", highest_error(audit, name), "compressed", "rate")
    for metric, change in changes.items():
        tell(f"{metric}_rise_worst", change, "absolute", "points")
    if (gap := largest_gap(audit, name)) is not None:
        pair = " against ".join(gap_groups(audit, gap))
        rows.append(("error_gap_worst", gap["gap"].number, pair, "points"))
    tell("cie_share", cies, "cie_share", "rate")
    return rows


def _details(record: RunRecord, audit: Audit, name: str, judged: JudgedVariant | None) -> None:
    """Put every other estimate of a variant into its record; p-values and counts are in tables."""
    numbers: dict[tuple[str, ...], Quantity | int] = {}
    for question in (one for one in audit.rows if one != "accuracy"):
        for row in audit.numbers(question):
            if row.variant not in (None, name):
                continue
            single = row.class_name is not None or row.fact("text") is not None  # class, slice
            if not single and row.number.low is not None:
                *section, what = row.what.split(".")
                compared = question in ("rates", "unanswered") or section in COMPARED
                what = RISES.get(what, what) if compared else what
                head = [] if question == "rates" else [question]
                words = (row.group, *head, *section, *row.facts.values(), row.metric, what)
                numbers[tuple(f"{word}" for word in words if word is not None)] = row.number
    if divergence := audit.divergence.get(name):
        numbers["divergence", "cie", "count"] = divergence.cie.cie.count
    if search := audit.slices.get(name):
        numbers["slices", "count"] = search.slice_count
    for test in judged.tests if judged else ():
        if test.level is not None and test.level.mean is not None:
            about = test.group if test.group != "all" else test.level.attribute
            numbers["levels", test.metric, about] = test.level.mean
    if judged is not None:
        counted = [test.verdict for test in judged.counted]
        numbers["tests", "unsure"] = counted.count("UNSURE")
    for address, key in metric_names(numbers).items():
        found = numbers[address]
        if isinstance(found, Quantity):
            record.quantity(f"{DETAIL}/{key}", found)
        else:
            record.number(f"{DETAIL}/{key}", found)


# --- the models -----------------------------------------------------------------------------------


def member_records(
    audit: Audit,
    recipe: Mapping[str, Any],
    members: Mapping[str, Sequence[Mapping[str, Any]]],
    date: str,
    tags: Mapping[str, str],
) -> list[RunRecord]:
    """Describe the run of each member: seed, recipe, digest, loss curve, accuracy, fairness.

    Args:
        audit: The audit.
        recipe: What trained the dense members, name to value; a member's own goes before it.
        members: Variant to what the manifest of its population says of each member.
        date: See `audit_records`.
        tags: See `audit_records`.

    Returns:
        Records in the order of the variants, dense first, and of their members.
    """
    return [
        _member(audit, recipe, place, index, member, date, tags)
        for place, variant in enumerate(audit.variants)
        for index, member in enumerate(members[variant.name])
    ]


def _member(
    audit: Audit,
    recipe: Mapping[str, Any],
    place: int,
    index: int,
    member: Mapping[str, Any],
    date: str,
    tags: Mapping[str, str],
) -> RunRecord:
    """Everything that the run of a member holds."""
    variant = audit.variants[place]
    name = variant.name
    own = {**recipe, **member.get("recipe", {})}
    record = RunRecord(
        name=" · ".join((date, printable(name), f"{member['index']:02d}")),
        tags=_shared(audit, tags)
        | {
            "mlflow.runColor": _colour(place),
            KIND: MODEL,
            "scotoma.variant": name,
            "scotoma.member": str(member["index"]),
            "scotoma.weights": member["sha256"],
        },
        params=_params(variant) | {f"recipe.{key}": value for key, value in own.items()},
    )
    if isinstance(member["seed"], int):
        record.params["seed"] = member["seed"]
    if "paired_with" in member:
        record.tags["scotoma.paired_with"] = member["paired_with"]["sha256"]
    if "file" in member:
        record.tags["scotoma.file"] = f"populations/{name}/{member['file']}"
    for row in audit.numbers("accuracy", name):
        record.number("accuracy", row.models[index])
    if audit.scores is not None:
        record.number("mean_score", mean_score(audit, name).models[index])
    values: dict[tuple[str, ...], Any] = {
        ("fairness", row.fact("attribute"), str(row.metric)): row.models[index]
        for row in audit.numbers("fairness", name)
        if row.models
    }
    for row in audit.numbers("clarify", name):
        if row.models:
            values["clarify", _about(row), str(row.metric)] = row.models[index]
    for address, key in metric_names(values).items():
        record.number(f"{DETAIL}/{key}", values[address])
    # A point of the curve is the mean over a tenth of the steps, up to the step it stands at.
    for point, loss in enumerate(member.get("loss", []), start=1):
        if _is_finite(loss):
            tenth = max(1, int(member.get("steps") or record.params["recipe.steps"]) // 10)
            record.metrics.append(("loss", loss, point * tenth))
    return record


def _about(row: Row) -> str:
    """Key of the group that a metric of two facets is about."""
    d, a = (str(row.fact(name)) for name in ("disadvantaged", "advantaged"))
    return d if parse_group_key(d) else a


def model_name(record: RunRecord) -> str:
    """Name a member as MLflow's page of models may: without dots, slashes and colons."""
    name = f"{spelled(record.tags['scotoma.variant'])}-{record.tags['scotoma.member']}"
    return name.replace(".", "_")


# --- words ----------------------------------------------------------------------------------------


def escape_markdown(text: str) -> str:
    """A name that is nothing but its letters in Markdown and HTML: the rest becomes entities."""
    return "".join(c if c.isalnum() or c in " -" else f"&#{ord(c)};" for c in printable(text))


LONGEST = 220  # MLflow takes 250; `detail/` goes before, ` no 2` and `_high` may follow
LONGEST_PART = 90
ALLOWED = re.compile(r"[\w.\- ]")  # and `/`, which parts sections
WORDS = {
    ">=": "at least", "<=": "at most", "!=": "is not", "=": "is", ",": "and", "<": "below",
    ">": "above", "%": "percent", "+": "plus", "&": "and", "/": "or", ":": " ", '"': " ", "'": "",
    "(": " ", ")": " ", "[": " ", "]": " ",
}  # fmt: skip
SIGNS = re.compile(r"[><!]=|.", re.S)


def metric_names(addresses: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Name metrics by their addresses, no two the same, even where a database sees no case.

    Args:
        addresses: Parts of each name: keys of groups, attributes, metrics, any text.

    Returns:
        Address to name, of letters, digits, spaces and `_.-` in parts that `/` separates.

    >>> list(metric_names([("sex=male,age=old", "rise"), ("income=>=50K", "rise")]).values())
    ['sex is male and age is old/rise', 'income is at least 50K/rise']
    >>> list(metric_names([("a=x", "rise"), ("A=x", "rise")]).values())
    ['a is x/rise', 'A is x no 2/rise']
    """
    names: dict[tuple[str, ...], str] = {}
    taken: set[str] = set()

    def name_of(address: tuple[str, ...]) -> str:
        if address not in names:
            above = f"{name_of(address[:-1])}/" if len(address) > 1 else ""
            plain = f"{above}{_part(address[-1])}"[:LONGEST].rstrip(" ./")
            name, count = plain, 1
            while name.casefold() in taken:
                count += 1
                name = f"{plain} no {count}"
            taken.add(name.casefold())
            names[address] = name
        return names[address]

    return {address: name_of(address) for address in addresses}


def spelled(text: str) -> str:
    r"""Spell out whatever MLflow refuses in a name.

    >>> spelled("a;b"), spelled(".."), spelled("\x00\u202e"), spelled("\u6027\u5225 \u2264 5")
    ('a semicolon b', 'full stop full stop', 'unnamed', '\u6027\u5225 less-than or equal to 5')
    """
    signs = SIGNS.findall(unicodedata.normalize("NFC", text))
    if not text.strip(". "):
        words = ["full stop" for sign in signs if sign == "."]
        return " ".join(words) or "unnamed"
    spelling = "".join(sign if ALLOWED.fullmatch(sign) else f" {_word(sign)} " for sign in signs)
    return " ".join(spelling.split()) or "unnamed"


def _part(text: str) -> str:
    pairs = parse_group_key(text)
    words = " and ".join(f"{attribute} is {value}" for attribute, value in pairs) if pairs else text
    return spelled(words)[:LONGEST_PART].rstrip(" .") or "unnamed"


def _word(sign: str) -> str:
    if sign in WORDS:
        return WORDS[sign]
    name = unicodedata.name(sign, "").lower()
    return name.removesuffix(" sign") if unicodedata.category(sign)[0] not in "CZ" else ""
