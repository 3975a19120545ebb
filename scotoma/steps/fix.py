"""Fix a variant, audit the new one on the half that did not choose it, and say before and after."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.audit import GateResult, read_audit, read_gate
from scotoma.errors import ConfigError
from scotoma.extras import home_of
from scotoma.fix.before_after import (
    JudgedNumber,
    change_of,
    new_folder,
    rows_before_and_after,
    sides,
)
from scotoma.fix.refusals import repairable
from scotoma.fix.rules import (
    Decided,
    Mitigated,
    apply_technique,
    as_audited,
    write_mitigated,
    write_tables,
)
from scotoma.mitigation import decide
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.steps.audit import audit_beside
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.audit import Audit
    from scotoma.fix.repair import Repaired


MOST_SHOWN = 12  # layers in the table; fix.json has all
WORST_FIRST = ("FAIL", "UNSURE", "PASS")


@dataclass(frozen=True)
class Wanted:
    """How a variant is to be fixed.

    Attributes:
        by: One of `AFTERWARDS`, which change how members decide, or `layers` of int8.
        variant: None for the first of the worst verdict; of layers the only one of int8, or the
            only static one.
        attribute: Whose groups count; None where there is one attribute.
        together: Members of one ensemble.
        growth: By how much the int8 file may grow, a fraction.
        out: The new folder; None for a name beside the run.
    """

    by: str
    variant: str | None
    attribute: str | None
    together: int
    growth: float
    out: Path | None


def fix_variant(
    run: Run, place: str, wanted: Wanted, *, quiet: bool
) -> tuple[str, dict[str, Any], list[str]]:
    """Choose on one half of the test examples, write a new folder, and audit it on the other.

    Args:
        run: The finished audit; nothing in it changes.
        place: How it was named.
        wanted: What is done.
        quiet: Show no progress.

    Returns:
        Before and after as lines for a terminal, as fix.json holds it, and notes.

    Raises:
        ScotomaError: The run lacks what this needs, or the folder is not new.
    """
    run.fetch(run.examples)
    if not run.examples.is_file():
        raise ConfigError(f"run {place} is not finished, got no examples; repeat its audit")
    if wanted.by == "layers":
        return _repaired(run, place, wanted, quiet=quiet)
    chosen = wanted.variant or _worst(run)
    folder = new_folder(place, chosen, wanted.by, wanted.out)
    mitigated = apply_technique(
        run, wanted.by, chosen, wanted.attribute, together=wanted.together
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    config, rules = write_mitigated(run, mitigated, folder)
    audit, gate = _audit_half(run, config, rules, folder, quiet=quiet)
    content = _mitigated(place, mitigated, audit, gate)
    _write(folder, content)
    return rules_text(content), content, [f"report  {folder / 'audit' / 'report.html'}"]


def _repaired(
    run: Run, place: str, wanted: Wanted, *, quiet: bool
) -> tuple[str, dict[str, Any], list[str]]:
    chosen = repairable(run, wanted.variant)
    folder = new_folder(place, chosen.name, "repair", wanted.out)
    for module in ("onnx", "onnxruntime", "safetensors"):
        home_of(module, "train", "quantization")
    from scotoma.fix.repair import repair_variant

    repaired = repair_variant(
        run, chosen, wanted.growth, folder / "populations" / f"{chosen.name}+repair",
        passes=_verdicts(run).get(chosen.name) == "PASS",
    )  # fmt: skip
    content = _chosen(place, repaired, wanted.growth)
    if not repaired.members:
        content["sentence"] = repair_sentence(content)
        return repair_table(content), content, []
    decided = as_audited(run, repaired.judged)
    decided[repaired.name] = Decided(repaired.predicted, repaired.paired)
    config, rules = write_tables(run, repaired.judged, decided, (), folder)
    audit, gate = _audit_half(run, config, rules, folder, quiet=quiet)
    content |= sides(audit, gate, repaired.variant, repaired.name)
    content["worst_group"] = _worst_group(audit, repaired)
    content["sentence"] = repair_sentence(content)
    _write(folder, content)
    report, models = folder / "audit" / "report.html", repaired.members[0].parent
    return repair_table(content), content, [f"report  {report}", f"models  {models}"]


def _write(folder: Path, content: dict[str, Any]) -> None:
    with written(folder / "fix.json") as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _verdicts(run: Run) -> dict[str, str]:
    """The verdict on each variant; none without gate.json."""
    path = run.path("gate.json")
    run.fetch(path)
    return {one.name: one.verdict for one in read_gate(path).variants} if path.is_file() else {}


def _worst(run: Run) -> str:
    """The first variant of the worst verdict; without a verdict the last one."""
    if not (verdicts := _verdicts(run)):
        return run.config.resolved_variants[-1].name
    return min(verdicts, key=lambda name: WORST_FIRST.index(verdicts[name]))


def _mitigated(place: str, mitigated: Mitigated, audit: Audit, gate: GateResult) -> dict[str, Any]:
    """What was done and what came of it, as fix.json holds it."""
    needs = decide.rule_needs(mitigated.technique)
    judged = int(mitigated.judged.sum())
    return {
        "version": 1,
        "run": place,
        "technique": mitigated.technique,
        "variant": mitigated.variant,
        "mitigated": mitigated.name,
        "attribute": mitigated.attribute or None,
        "needs": {
            "attributes": needs.attributes,
            "transductive": needs.transductive,
            "sentence": needs.sentence,
        },
        "fitted_on": {
            "examples": len(mitigated.judged) - judged,
            "clusters": mitigated.clusters[0],
        },
        "judged_on": {"examples": judged, "clusters": mitigated.clusters[1]},
        **sides(audit, gate, mitigated.variant, mitigated.name),
    }


def rules_text(content: dict[str, Any]) -> str:
    """What fix.json holds of fitted rules, as lines for a terminal."""
    fitted, judged = content["fitted_on"], content["judged_on"]
    by = f" by {content['attribute']}" if content["attribute"] else ""
    lines = [
        f"{content['technique']}{by}: {content['needs']['sentence']}",
        f"Fitted on {fitted['examples']:,} test examples ({fitted['clusters']:,} clusters), judged "
        f"on the other {judged['examples']:,} ({judged['clusters']:,} clusters).",
        f"before is {content['variant']}, after {content['mitigated']}; rises are against dense",
        "",
    ]
    lines += rows_before_and_after(content)
    return "".join(f"{printable(line)}\n" for line in lines)


def fraction(text: str) -> float:
    """Read a percentage.

    >>> fraction("10%"), fraction("2.5 %")
    (0.1, 0.025)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if match is None:
        raise ConfigError(
            "--max-size-increase must be a percentage from 0%, such as 10%, got "
            f"{printable(text)!r}"
        )
    return float(match[1]) / 100


def _chosen(place: str, repaired: Repaired, most: float) -> dict[str, Any]:
    """What the half that chooses says, as fix.json holds it."""
    judged = int(repaired.judged.sum())
    before, after = repaired.measured
    return {
        "version": 1,
        "run": place,
        "variant": repaired.variant,
        "repaired": repaired.name if repaired.members else None,
        "needed": repaired.needed,
        "max_size_increase": most,
        "layers": list(repaired.layers),
        "nodes_to_exclude": [
            node for one in repaired.sensitivities if one.layer in repaired.layers
            for node in one.nodes
        ],
        "ranges": {"before": repaired.own, "after": repaired.ranges, "tried": repaired.tried},
        "size": {"before": before["bytes"], "after": after["bytes"]},
        "latency": {"before": before["latency"], "after": after["latency"]},
        "chosen_on": {
            "examples": len(repaired.judged) - judged,
            "clusters": repaired.clusters[0],
        },
        "judged_on": {"examples": judged, "clusters": repaired.clusters[1]},
        "harm": vars(change_of(repaired.group, repaired.rise)),
        "sensitivities": [
            {
                "layer": one.layer,
                "nodes": list(one.nodes),
                "size": one.more,
                "rise": vars(change_of(repaired.group, one.rise)),
            }
            for one in repaired.sensitivities
        ],
    }  # fmt: skip


def _audit_half(
    run: Run, config: Path, rules: Path | None, folder: Path, *, quiet: bool
) -> tuple[Audit, GateResult]:
    """Audit what `write_tables` wrote, on the terms of the run, into `folder / "audit"`.

    Args:
        run: The audit that the variant was made from.
        config: The configuration of the new one.
        rules: Its gate file, or None.
        folder: The new folder.
        quiet: Write nothing to stderr.
    """
    place = folder / "audit"
    audit_beside(run, config, rules, place, quiet=quiet)
    return read_audit(place / "audit.json"), read_gate(place / "gate.json")


def _worst_group(audit: Audit, repaired: Repaired) -> dict[str, Any]:
    """Rises of the group that the other half chose, on the half that judges."""
    rises = {}
    for when, name in (("before", repaired.variant), ("after", repaired.name)):
        (row,) = (
            rate for rate in audit.subgroups[name]
            if rate.group == repaired.group and rate.metric == "error" and not rate.class_name
        )  # fmt: skip
        rises[when] = vars(change_of(row.group, row.absolute))
    return rises


def repair_sentence(content: dict[str, Any]) -> str:
    """Say in one sentence what was done and what came of it."""
    variant, harm = content["variant"], JudgedNumber(**content["harm"])
    chosen = f"{harm.shown('worst_rise')}, on the half that chooses"
    if not content["needed"]:
        return f"{variant} passes and shows no harm, so nothing is repaired: worst group {chosen}."
    if not content["repaired"]:
        return (
            f"No {_changed(content)}, and no layer in float32 within "
            f"{content['max_size_increase']:.0%}, lower the harm of {variant}: worst group "
            f"{chosen}."
        )
    before, after = (JudgedNumber(**content["worst_group"][when]) for when in ("before", "after"))
    now = after.shown("worst_rise").replace(" points", "", 1)
    was = "undefined" if before.value is None else f"{100 * before.value:+.1f} points"
    size, latency = _increase(content)
    return (
        f"{_done(content)}: worst group {was} to {now}, size {size}, latency {latency}: "
        f"{content['after']['verdict']} on the half that did not choose it."
    )


def _done(content: dict[str, Any]) -> str:
    layers, ranges = content["layers"], content["ranges"]
    *first, last = layers or [""]
    kept = f"{', '.join(first)} and {last}" if first else last
    changed = ranges["after"] != ranges["before"]
    if not layers:
        return f"With {ranges['after']} {_changed(content)}"
    return (f"With {ranges['after']} {_changed(content)}, keeping" if changed else "Keeping") + (
        f" {kept} in float32"
    )


def _changed(content: dict[str, Any]) -> str:
    """What was tried besides layers: dynamic int8 has no ranges of activations."""
    return "scales" if "per-channel" in content["ranges"]["tried"] else "ranges"


def _increase(content: dict[str, Any]) -> tuple[str, str]:
    """By how much size and latency of one image grow, in per cent."""
    size = content["size"]
    before, after = (content["latency"][when]["1"] for when in ("before", "after"))
    alike = before["low_ms"] <= after["high_ms"] and after["low_ms"] <= before["high_ms"]
    change = f"{after['median_ms'] / before['median_ms'] - 1:+.0%}"
    shown = "the same (quartiles overlap)" if alike else change
    return f"{size['after'] / size['before'] - 1:+.0%}", shown


def repair_table(content: dict[str, Any]) -> str:
    """What fix.json holds of a repair, as lines for a terminal."""
    chosen, judged = content["chosen_on"], content["judged_on"]
    lines = [content["sentence"], ""]
    if content["repaired"]:
        lines += [
            f"Chosen on {chosen['examples']:,} test examples ({chosen['clusters']:,} clusters), "
            f"judged on the other {judged['examples']:,} ({judged['clusters']:,} clusters).",
            f"before is {content['variant']}, after {content['repaired']}; rises are against dense",
            "",
            *rows_before_and_after(content),
            *_latencies(content),
            "",
        ]
    if content["sensitivities"]:
        lines += _layers(content)
    return "".join(f"{printable(line)}\n" for line in lines).rstrip("\n") + "\n"


def _latencies(content: dict[str, Any]) -> list[str]:
    lines = []
    for batch in content["latency"]["before"]:
        for when in ("before", "after"):
            one = content["latency"][when][batch]
            title = f"latency, {batch} image{'s' * (batch != '1')}" if when == "before" else ""
            lines.append(
                f"{title:<26}{when:<8}{one['median_ms']:.3f} ms [{one['low_ms']:.3f}, "
                f"{one['high_ms']:.3f}], quartiles of {one['n']} runs"
            )
    return lines


def _layers(content: dict[str, Any]) -> list[str]:
    """Every layer alone in int8, the most harmful first."""
    rows = sorted(content["sensitivities"], key=lambda row: -(row["rise"]["value"] or 0.0))
    wide = max(len("layer"), *(len(row["layer"]) for row in rows)) + 2
    lines = [
        f"Each layer alone in int8, on the half that chooses: error of {_of(content)}",
        f"{'layer':<{wide}}rise, and by how much the file grows if it is kept in float32",
    ]
    for row in rows[:MOST_SHOWN]:
        rise = JudgedNumber(**{**row["rise"], "group": "all"}).shown("worst_rise")
        lines.append(f"{row['layer']:<{wide}}{rise}; {row['size']:+.1%}")
    if len(rows) > MOST_SHOWN:
        lines.append(f"and {len(rows) - MOST_SHOWN} more in fix.json")
    return lines


def _of(content: dict[str, Any]) -> str:
    group = content["harm"]["group"]
    return "all examples" if group == "all" else str(group)
