"""What MLflow is to hold of an audit: names, numbers and tags, from audit.json and manifests."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scotoma._version import __version__
from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.groups import Gap
from scotoma.audit.outcomes import MemberMetric
from scotoma.audit.robustness import ALL_KINDS, ConfidenceReport, RobustnessReport
from scotoma.audit.slices import SliceSearch
from scotoma.audit.worst_change import (
    highest_error,
    largest_gap,
    most_changed,
    worst_change,
    worst_mean,
)
from scotoma.group_keys import parse_group_key
from scotoma.printable import printable
from scotoma.tracking.metric_names import metric_names
from scotoma.tracking.run_record import NOTE, RunRecord

__all__ = [
    "escape_markdown",
    "member_records",
    "variant_records",
]

POINTS = 100  # small differences: a chart prints two decimals, and a fraction of 0.003 as 0.00
NONE_CARRIED = "undefined (no rise of a group has an interval and 10 effective events)"

# Of the runs of one variant, dense first. MLflow's own go by the run's id: two of three are alike
# now and then. Okabe and Ito (2008) chose these for eyes that take red for green.
DENSE_COLOUR = "#595959"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")


def variant_records(
    audit: Audit, recipe: Mapping[str, Any], gate: GateResult | None = None
) -> list[RunRecord]:
    """A record a variant, dense last: the run that is logged last is listed first.

    Args:
        audit: The audit.
        recipe: What trained the dense members, name to value.
        gate: The verdict on it; None for none.

    Returns:
        Numbers by section: `0_gate/failed` and `0_gate/unsure` (tests), `1_quality/...`,
        `2_cie/...`, `3_worst/METRIC_points` (the change that the summary calls worst),
        `3_worst/highest_error`, `3_worst/gap_points`, `5_slices/n_bad` (number of slices), of an
        audit of scores `1_quality/mean_score`, `3_worst/worse` and `3_worst/worse_percent`,
        `worse/GROUP` and `worse_percent/GROUP`,
        `7_robust/accuracy/CORRUPTION`, `7_robust/loss_points/FAMILY`, `7_robust/mce`,
        `7_robust/top5_accuracy/CORRUPTION`, `7_robust/top5_loss_points/FAMILY`,
        `7_robust/matched_loss_points/FAMILY`,
        `7_robust/gap_points/FAMILY`, `7_robust/auroc/PICTURES`, `7_robust/set_accuracy/SET`,
        `amp_METRIC/GROUP` (relative change, %), `gap_points/ATTRIBUTE`.
    """
    # Judged otherwise it is another result.
    judged = "".join(part.model_dump_json() for part in (audit, gate) if part)
    result = hashlib.sha256(judged.encode()).hexdigest()
    names = [variant.name for variant in audit.variants]
    return [_variant(audit, recipe, name, gate, result) for name in reversed(names)]


def member_records(
    audit: Audit,
    recipe: Mapping[str, Any],
    manifests: Mapping[str, Mapping[str, Any]],
) -> list[RunRecord]:
    """A record a member: seed, recipe, digest of the weights, loss curve, top-1, fairness.

    Args:
        audit: The audit.
        recipe: What trained the dense members, name to value; a member's own goes before it.
        manifests: Variant to the content of its population's manifest.

    Returns:
        Records in the order of the variants, dense first, and of their members.
    """
    return [
        _member(audit, recipe, variant.name, place, member)
        for variant in audit.variants
        for place, member in enumerate(manifests[variant.name]["members"])
    ]


def _named(audit: Audit, *parts: str) -> str:
    """The name of a run: audit, variant and member, since MLflow lists runs of many audits."""
    return " · ".join(map(printable, (f"{audit.project} {audit.config_sha256[:4]}", *parts)))


def _facts(
    audit: Audit, recipe: Mapping[str, Any], name: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parameters and tags that a variant shares with its members; numbers stay comparable."""
    place = [variant.name for variant in audit.variants].index(name)
    variant = audit.variants[place]
    params = {
        **({} if variant.sparsity is None else {"sparsity": variant.sparsity}),
        **({} if variant.bits is None else {"bits": variant.bits}),
        "kind": variant.kind,
        **{f"recipe.{key}": value for key, value in recipe.items()},
    }
    tags = {
        "scotoma.audit": audit.config_sha256,
        "scotoma.variant": name,
        "scotoma.version": __version__,
        "scotoma.dataset": audit.examples.dataset_sha256,
        "mlflow.runColor": COLOURS[(place - 1) % len(COLOURS)] if place else DENSE_COLOUR,
        "mlflow.source.name": "scotoma",
        "mlflow.source.type": "LOCAL",
    }
    return params, tags


def _variant(
    audit: Audit, recipe: Mapping[str, Any], name: str, gate: GateResult | None, result: str
) -> RunRecord:
    """Everything that the run of a variant holds."""
    params, tags = _facts(audit, recipe, name)
    variant = next(variant for variant in audit.variants if variant.name == name)
    record = RunRecord(
        name=_named(audit, name),
        identity=("scotoma.variant", "scotoma.result"),
        tags=tags | {"scotoma.result": result},
        params=params
        | {
            "n_models": variant.members,
            "seed": audit.seed,
            "paired": str(variant.paired).lower(),
        },
        examples={"train": audit.examples.train, "test": audit.examples.test},
    )
    many = f"{variant.members} model{'s' * (variant.members != 1)}"
    note = [f"**{escape_markdown(name)}**: {many}", ""]
    if gate is not None:
        sentences = _verdict(record, gate, name)
        verdict = record.params["verdict"]
        note = [f"**{verdict}** {escape_markdown(name)}: {many}", "", *sentences]
    if audit.labelled:
        top1 = audit.accuracy[name].top1
        record.quantity("1_quality/top1", top1)
        note.append(f"- top-1 {_shown(top1, 100, '%')}")
    if audit.scores is not None:
        note += _means(record, audit, name)
    if divergence := audit.divergence.get(name):
        cie, count = divergence.cie, divergence.cie.cie
        record.quantity("2_cie/share", cie.cie_share)
        record.quantity("2_cie/excess_points", cie.excess, POINTS)
        record.number("2_cie/count", count.count)
        record.tags["interval/2_cie/count"] = (
            f"[{count.low}, {count.high}] n={cie.n}: the range over {count.ties} ties"
        )
        note.append(
            f"- CIEs: {count.count:,} of {cie.n:,} examples, "
            f"{_shown(cie.excess, 100, ' points')} beyond the floor"
        )
        note += (_groups if audit.labelled else _changed)(record, audit, name)
        _gaps(record, audit.gaps.get(name, ()))
        note += _slices(record, audit.slices.get(name))
    _robustness(record, audit.robustness, name)
    record.tags[NOTE] = "\n".join(note)
    return record


def _verdict(record: RunRecord, gate: GateResult, name: str) -> list[str]:
    """Put the verdict into the record, on the dense run that of all; returns what its note says."""
    judged = next((variant for variant in gate.variants if variant.name == name), None)
    if judged is None:
        record.tags["scotoma.verdict"] = gate.verdict
        record.params["verdict"] = f"audit: {gate.verdict}"
        each = [f"{variant.verdict} {escape_markdown(variant.name)}" for variant in gate.variants]
        return [f"- all variants: {', '.join(each)}"]
    counted = [test.verdict for test in judged.tests if test.waived is None]
    record.number("0_gate/failed", counted.count("FAIL"))
    record.number("0_gate/unsure", counted.count("UNSURE"))
    levels = {}
    for test in judged.tests:
        if test.level is not None and test.level.mean is not None:
            about = test.group if test.group != "all" else test.level.attribute
            levels[f"{test.metric}.{about}"] = test.level.mean
    for key, short in metric_names(levels).items():
        record.quantity(f"level/{short}", levels[key])
    record.tags["scotoma.verdict"] = record.params["verdict"] = judged.verdict
    return [f"- {escape_markdown(line)}" for line in judged.sentences]


def _slices(record: RunRecord, search: SliceSearch | None) -> list[str]:
    """Put the number of slices into the record; returns what its note says of them."""
    if search is None:
        return []
    record.number("5_slices/n_bad", search.slice_count)
    record.tags["interval/5_slices/n_bad"] = f"n={search.tested}: {search.null.sentence}"
    return [f"- slices: {escape_markdown(search.summary)}"]


def _means(record: RunRecord, audit: Audit, name: str) -> list[str]:
    """Put the mean scores of groups into the record; returns what its note says of them."""
    scores = audit.scores
    assert scores is not None
    mean = scores.variants[name].mean
    record.quantity("1_quality/mean_score", mean)
    unit = f" {escape_markdown(scores.unit)}" if scores.unit else ""
    note = [f"- mean {escape_markdown(scores.name)} {_shown(mean, 1, unit)}"]
    if name not in scores.means:
        return note
    rows = scores.means[name]
    for row, short in zip(rows, metric_names(row.group for row in rows).values(), strict=True):
        record.quantity(f"worse_percent/{short}", row.relative)
        record.quantity(f"worse/{short}", row.worse)
    worst = worst_mean(audit, name)
    if worst is None:
        record.number("3_worst/worse", None, "undefined (no group has an interval)")
    else:
        record.quantity("3_worst/worse", worst.worse)
        record.quantity("3_worst/worse_percent", worst.relative)
        record.tags["group/3_worst/worse"] = worst.group
        share = _shown(worst.relative, 1, "%")
        note.append(f"- group that gets worse most: {escape_markdown(worst.group)} {share}")
    return [*note, *_slices(record, audit.slices.get(name))]


def _changed(record: RunRecord, audit: Audit, name: str) -> list[str]:
    """Put the changed labels of groups into the record; returns what its note says of them."""
    rows = audit.divergence[name].ledger
    for row, short in zip(rows, metric_names(row.group for row in rows).values(), strict=True):
        record.quantity(f"changed_points/{short}", row.changed, POINTS)
    most = most_changed(audit, name)
    record.quantity("3_worst/changed_points", most.changed, POINTS)
    record.tags["group/3_worst/changed_points"] = most.group
    rate = _shown(most.changed, POINTS, "%")
    return [
        f"- most changed group: {rate} of {escape_markdown(most.group)}",
        f"- {audit.examples.unlabelled}",
    ]


def _robustness(record: RunRecord, report: RobustnessReport | None, name: str) -> None:
    """Put accuracy on corrupted pictures, and what is lost beyond dense, into the record."""
    if report is None:
        return
    for row in report.by_corruption:
        if row.variant == name:
            record.quantity(f"7_robust/accuracy/{row.kind}", row.accuracy)
            if row.top5_accuracy is not None:
                record.quantity(f"7_robust/top5_accuracy/{row.kind}", row.top5_accuracy)
            if row.kind == ALL_KINDS and row.ce is not None:
                record.quantity("7_robust/mce", row.ce)
            if row.kind == ALL_KINDS and row.alexnet_ce is not None:
                record.quantity("7_robust/mce_alexnet", row.alexnet_ce)
    for loss in report.losses.get(name, ()):
        if loss.group == "all" and loss.metric == "error":
            record.quantity(f"7_robust/loss_points/{loss.family}", loss.absolute, POINTS)
            record.quantity(f"7_robust/relative_loss_points/{loss.family}", loss.relative, POINTS)
        if loss.group == "all" and loss.metric == "top5":
            record.quantity(f"7_robust/top5_loss_points/{loss.family}", loss.absolute, POINTS)
    if report.confidence is not None:
        _confidence(record, report.confidence, name)
    for match in report.matched:
        if match.variant == name and match.matched.startswith("dense"):
            record.quantity(f"7_robust/matched_loss_points/{match.family}", match.absolute, POINTS)
    names = metric_names(one.name for one in report.sets)
    for one in report.sets:
        accuracy = {row.variant: row.accuracy for row in one.rows} | {"dense": one.dense}
        if name in accuracy:
            record.quantity(f"7_robust/set_accuracy/{names[one.name]}", accuracy[name])


def _confidence(record: RunRecord, report: ConfidenceReport, name: str) -> None:
    """Put how sure a variant is of all examples, and what it notices, into the record."""
    for row in report.rows:
        if (row.variant, row.group) == (name, "all"):
            record.quantity(f"7_robust/gap_points/{row.family}", row.gap, POINTS)
    names = metric_names(dict.fromkeys(row.pictures for row in report.detection))
    for seen in report.detection:
        if (seen.variant, seen.group) == (name, "all"):
            record.quantity(f"7_robust/auroc/{names[seen.pictures]}.{seen.measure}", seen.auroc)


def _groups(record: RunRecord, audit: Audit, name: str) -> list[str]:
    """Put the changes of groups into the record; returns what its note says of them."""
    rows = [row for row in audit.subgroups[name] if row.class_name is None]
    # Named over all variants: the same group has the same name in every run.
    names = metric_names(row.group for rows in audit.subgroups.values() for row in rows)
    for row in rows:
        record.quantity(f"amp_{row.metric}/{names[row.group]}", row.relative)
    record.tags |= {f"group/{short}": key for key, short in names.items() if short != key}
    note = []
    for metric in dict.fromkeys(row.metric for row in rows):
        key, worst = f"3_worst/{metric}_points", worst_change(audit, name, metric)
        if worst is None:
            record.number(key, None, NONE_CARRIED)
            continue
        record.quantity(key, worst.absolute, POINTS)
        record.tags[f"group/{key}"] = worst.group
        shown = _shown(worst.absolute, POINTS, " points")
        relative = _shown(worst.relative, 1, "%")
        note.append(
            f"- most affected by {metric}: {shown} in {escape_markdown(worst.group)} ({relative})"
        )
    if highest := highest_error(audit, name):
        record.quantity("3_worst/highest_error", highest.compressed)
        record.tags["group/3_worst/highest_error"] = highest.group
        rate = _shown(highest.compressed, POINTS, "%")
        note.append(f"- highest error: {rate} in {escape_markdown(highest.group)}")
    if gap := largest_gap(audit, name):
        record.quantity("3_worst/gap_points", gap.gap, POINTS)
        record.tags["group/3_worst/gap_points"] = f"{gap.group_b} against {gap.group_a}"
    return note


def _gaps(record: RunRecord, rows: Sequence[Gap]) -> None:
    """One contrast an attribute of two values; each value against the rest where there are more."""
    contrasts = Counter((row.attribute, row.metric) for row in rows)
    keys = []
    for row in rows:
        attribute, group = row.attribute, row.group_b
        if contrasts[attribute, row.metric] == 1:
            keys.append(attribute)
        else:  # an attribute may be called as another's group is
            keys.append(f"{attribute} = {group}" if (group, row.metric) in contrasts else group)
    names = metric_names(keys)
    for row, key in zip(rows, keys, strict=True):
        metric = "" if row.metric == "error" else f"{row.metric}_"
        name = f"gap_{metric}points/{names[key]}"
        record.quantity(name, row.gap, POINTS)
        record.tags[f"group/{name}"] = f"{row.group_b} against {row.group_a}"


def _member(
    audit: Audit,
    recipe: Mapping[str, Any],
    name: str,
    place: int,
    member: Mapping[str, Any],
) -> RunRecord:
    """Everything that the run of a member holds."""
    params, tags = _facts(audit, {**recipe, **member.get("recipe", {})}, name)
    record = RunRecord(
        name=_named(audit, name, f"{member['index']:02d}"),
        identity=("scotoma.variant", "scotoma.member", "scotoma.weights"),
        tags=tags | {"scotoma.member": str(member["index"]), "scotoma.weights": member["sha256"]},
        params=params | {"seed": member["seed"]},
    )
    if "paired_with" in member:
        record.tags["scotoma.paired_with"] = member["paired_with"]["sha256"]
    if audit.labelled:
        record.number("top1", audit.accuracy[name].members[place])
    if audit.scores is not None:
        record.number("mean_score", audit.scores.variants[name].members[place])
    attributes = metric_names(row.attribute for row in audit.run_to_run.get(name, ()))
    for row in audit.run_to_run.get(name, ()):
        fairness = f"fairness/{row.metric}.{attributes[row.attribute]}"
        record.number(fairness, row.values[place], row.reason)
    rows = [(_about(row), row) for row in audit.clarify.members.get(name, ())]
    facets = metric_names(about for about, _ in rows)
    for about, one in rows:
        value = one.values[place]
        record.number(f"clarify/{one.metric}.{facets[about]}", value, "undefined for this model")
    # A point of the curve is the mean over a tenth of the steps, up to the step it stands at.
    for point, loss in enumerate(member.get("loss", []), start=1):
        if isinstance(loss, (int, float)) and math.isfinite(loss):
            tenth = max(1, int(member.get("steps") or record.params["recipe.steps"]) // 10)
            record.metrics.append(("loss", loss, point * tenth))
    return record


def _about(row: MemberMetric) -> str:
    """Key of the group that a metric of two facets is about."""
    return row.disadvantaged if parse_group_key(row.disadvantaged) else row.advantaged


def escape_markdown(text: str) -> str:
    """A name that is nothing but its letters in Markdown and HTML: the rest becomes entities."""
    return "".join(c if c.isalnum() or c in " -" else f"&#{ord(c)};" for c in printable(text))


def _shown(quantity: Quantity, factor: float, unit: str) -> str:
    """A number in words."""
    value, low, high = quantity.value, quantity.low, quantity.high
    if value is None or not math.isfinite(value):
        return escape_markdown(quantity.reason or "undefined")
    digits = ".4g" if factor == 1 and unit != "%" else ".1f"  # of a score, whatever its unit
    shown, *ends = (f"{factor * end:{digits}}" for end in (value, low, high) if end is not None)
    return f"{shown}{unit}" + (f" [{ends[0]}, {ends[1]}]" if len(ends) == 2 else "")
