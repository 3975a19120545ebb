"""Fix a variant, audit the new one on the half that did not choose it, and say before and after."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.audit import GateResult, read_audit, read_gate
from scotoma.commands.asking import Answer
from scotoma.commands.fix import FixOptions
from scotoma.document.jsonable import jsonable
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
from scotoma.numbers.inputs import Flags
from scotoma.printable import printable
from scotoma.run import Run, write_json
from scotoma.run.finished import open_run
from scotoma.steps.audit import audit_beside

if TYPE_CHECKING:
    from scotoma.audit import Audit
    from scotoma.fix.repair import Repaired


MOST_SHOWN = 12  # layers in the table; fix.json has all
WORST_FIRST = ("FAIL", "UNSURE", "PASS")


def fix_variant(options: FixOptions) -> Answer:
    """Choose on one half of the test examples, write a new folder, and audit it on the other.

    Returns:
        Before and after as lines for a terminal, as fix.json holds it, and notes.

    Raises:
        ScotomaError: The run lacks what this needs, or the folder is not new.
    """
    growth = fraction(options.max_size_increase)
    run = open_run(options.run)
    run.fetch(run.examples)
    if not run.examples.is_file():
        raise ConfigError(f"run {options.run} is not finished, got no examples; repeat its audit")
    if options.by == "layers":
        return _repaired(run, options, growth)
    chosen = options.variant or _worst(run)
    folder = new_folder(options.run, chosen, options.by, options.out)
    mitigated = apply_technique(
        run, options.by, chosen, options.attribute, together=options.together
    )
    folder.mkdir(parents=True, exist_ok=True)
    audit, gate = _audit_half(run, *write_mitigated(run, mitigated, folder), folder, options)
    content = _mitigated(options.run, mitigated, audit, gate)
    write_json(folder / "fix.json", jsonable(content))
    return Answer(rules_text(content), content, [f"report  {folder / 'audit' / 'report.html'}"])


def _repaired(run: Run, options: FixOptions, growth: float) -> Answer:
    chosen = repairable(run, options.variant)
    folder = new_folder(options.run, chosen.name, "repair", options.out)
    for module in ("onnx", "onnxruntime", "safetensors"):
        home_of(module, "train", "quantization")
    from scotoma.fix.repair import repair_variant

    repaired = repair_variant(
        run, chosen, growth, folder / "populations" / f"{chosen.name}+repair",
        passes=_verdicts(run).get(chosen.name) == "PASS",
    )  # fmt: skip
    content = _chosen(options.run, repaired, growth)
    notes = []
    if repaired.members:
        decided = as_audited(run, repaired.judged)
        decided[repaired.name] = Decided(repaired.predicted, repaired.paired)
        tables = write_tables(run, repaired.judged, decided, (), folder)
        audit, gate = _audit_half(run, *tables, folder, options)
        content |= sides(audit, gate, repaired.variant, repaired.name)
        content["worst_group"] = _worst_group(audit, repaired)
        notes = [f"report  {folder / 'audit' / 'report.html'}",
                 f"models  {repaired.members[0].parent}"]  # fmt: skip
    content["sentence"] = repair_sentence(content)
    if repaired.members:
        write_json(folder / "fix.json", jsonable(content))
    return Answer(repair_table(content), content, notes)


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


def _halves(judged: Flags, clusters: tuple[int, int], verb: str) -> dict[str, Any]:
    """How many examples, and clusters, choose and judge."""
    counts = (int((~judged).sum()), int(judged.sum()))
    sizes = [{"examples": n, "clusters": own} for n, own in zip(counts, clusters, strict=True)]
    return {f"{verb}_on": sizes[0], "judged_on": sizes[1]}


def _mitigated(place: str, mitigated: Mitigated, audit: Audit, gate: GateResult) -> dict[str, Any]:
    """What was done and what came of it, as fix.json holds it."""
    needs = decide.rule_needs(mitigated.technique)
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
        **_halves(mitigated.judged, mitigated.clusters, "fitted"),
        **sides(audit, gate, mitigated.variant, mitigated.name),
    }


def rules_text(content: dict[str, Any]) -> str:
    """What fix.json holds of fitted rules, as lines for a terminal."""
    by = f" by {content['attribute']}" if content["attribute"] else ""
    lines = [f"{content['technique']}{by}: {content['needs']['sentence']}"]
    return _text([*lines, *_before_and_after(content, "fitted", content["mitigated"])])


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{printable(line)}\n" for line in lines)


def _before_and_after(content: dict[str, Any], verb: str, after: str) -> list[str]:
    chosen, judged = content[f"{verb}_on"], content["judged_on"]
    return [
        f"{verb.title()} on {chosen['examples']:,} test examples ({chosen['clusters']:,} "
        f"clusters), judged on the other {judged['examples']:,} ({judged['clusters']:,} clusters).",
        f"before is {content['variant']}, after {after}; rises are against dense",
        "",
        *rows_before_and_after(content),
    ]


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
        **_halves(repaired.judged, repaired.clusters, "chosen"),
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
    run: Run, config: Path, rules: Path | None, folder: Path, options: FixOptions
) -> tuple[Audit, GateResult]:
    """Audit what `write_tables` wrote, on the terms of the run, into `folder / "audit"`.

    Args:
        run: The audit that the variant was made from.
        config: The configuration of the new one.
        rules: Its gate file, or None.
        folder: The new folder.
        options: Whether to write nothing to stderr.
    """
    place = folder / "audit"
    audit_beside(run, config, rules, place, quiet=options.quiet)
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
    lines = [content["sentence"], ""]
    if content["repaired"]:
        before_and_after = _before_and_after(content, "chosen", content["repaired"])
        lines += [*before_and_after, *_latencies(content), ""]
    if content["sensitivities"]:
        lines += _layers(content)
    return _text(lines).rstrip("\n") + "\n"


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
