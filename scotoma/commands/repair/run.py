"""Repair an int8 variant, audit it beside the others, and say before and after."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from scotoma.audit import read_gate
from scotoma.commands.asking import print_out
from scotoma.commands.shared.judged_half import (
    JudgedNumber,
    audit_half,
    change_of,
    new_folder,
    rows_before_and_after,
    sides,
)
from scotoma.errors import ConfigError
from scotoma.extras import home_of
from scotoma.fix.refusals import repairable
from scotoma.fix.rules import Decided, as_audited, write_tables
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.run.finished import open_run
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.audit import Audit
    from scotoma.fix.repair import Repaired

__all__ = ["fraction", "repair_sentence", "repair_table", "run_repair"]

MOST_SHOWN = 12  # layers in the table; repair.json has all


def run_repair(
    place: str,
    variant: str | None,
    max_size_increase: str,
    *,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Choose ranges and layers, write a new folder, audit it and print before and after.

    Args:
        place: The finished audit; nothing in it changes.
        variant: A variant of int8; None for the only one, or the only static one.
        max_size_increase: By how much the file may grow, such as `10%`.
        out: The new folder; None for a name beside the run.
        as_json: Print JSON instead of the table.
        quiet: Write nothing to stderr.

    Raises:
        ScotomaError: The run lacks what a repair needs, or the folder is not new.
    """
    most = fraction(max_size_increase)
    run = open_run(place)
    run.fetch(run.examples)
    if not run.examples.is_file():
        raise ConfigError(f"run {place} is not finished, got no examples; repeat its audit")
    chosen = repairable(run, variant)
    folder = new_folder(place, chosen.name, "repair", out)
    for module in ("onnx", "onnxruntime", "safetensors"):
        home_of(module, "train", "quantization")
    from scotoma.fix.repair import repair_variant

    repaired = repair_variant(
        run, chosen, most, folder / "populations" / f"{chosen.name}+repair",
        passes=_passes(run, chosen.name),
    )  # fmt: skip
    content = _chosen(place, repaired, most)
    if repaired.members:
        decided = as_audited(run, repaired.judged)
        decided[repaired.name] = Decided(repaired.predicted, repaired.paired)
        config, rules = write_tables(run, repaired.judged, decided, (), folder)
        audit, gate = audit_half(run, config, rules, folder, quiet=quiet)
        content |= sides(audit, gate, repaired.variant, repaired.name)
        content["worst_group"] = _worst_group(audit, repaired)
    content["sentence"] = repair_sentence(content)
    text = json.dumps(content, indent=1) + "\n"
    if repaired.members:
        with written(folder / "repair.json") as temporary:
            temporary.write_text(text, encoding="utf-8")
    print_out(text if as_json else repair_table(content), sys.stdout)
    if repaired.members:
        Console(stderr=True, quiet=quiet).print(
            f"report  {folder / 'audit' / 'report.html'}\nmodels  {repaired.members[0].parent}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip


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


def _passes(run: Run, variant: str) -> bool:
    """Whether the audit's verdict on a variant is PASS; without a verdict it is not known to."""
    path = run.path("gate.json")
    run.fetch(path)
    if not path.is_file():
        return False
    return any(one.name == variant and one.verdict == "PASS" for one in read_gate(path).variants)


def _chosen(place: str, repaired: Repaired, most: float) -> dict[str, Any]:
    """What the half that chooses says, as repair.json holds it."""
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
    """What repair.json holds, as lines for a terminal."""
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
        lines.append(f"and {len(rows) - MOST_SHOWN} more in repair.json")
    return lines


def _of(content: dict[str, Any]) -> str:
    group = content["harm"]["group"]
    return "all examples" if group == "all" else str(group)
