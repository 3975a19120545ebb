"""Fix a variant, audit the new one on the half that did not choose it, and say before and after."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.audit import read_audit, read_gate
from scotoma.commands.asking import Answer
from scotoma.commands.fix import FixOptions
from scotoma.document.jsonable import jsonable
from scotoma.errors import ConfigError
from scotoma.extras import home_of
from scotoma.fix.before_after import (
    Fixed,
    new_folder,
    rows_before_and_after,
    shown,
    sides,
    told,
)
from scotoma.fix.refusals import repairable
from scotoma.fix.rules import apply_technique, write_fixed
from scotoma.printable import printable
from scotoma.run import Run, write_json
from scotoma.run.finished import open_run
from scotoma.steps.audit import audit_beside

if TYPE_CHECKING:
    from scotoma.audit import Audit


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
    fixed = apply_technique(run, options.by, chosen, options.attribute, together=options.together)
    folder.mkdir(parents=True, exist_ok=True)
    content = fixed.content(options.run, "fitted_on")
    _judge(run, fixed, folder, content, options)
    write_json(folder / "fix.json", jsonable(content))
    return Answer(rules_text(content), content, [f"report  {folder / 'audit' / 'report.html'}"])


def _repaired(run: Run, options: FixOptions, growth: float) -> Answer:
    chosen = repairable(run, options.variant)
    folder = new_folder(options.run, chosen.name, "repair", options.out)
    for module in ("onnx", "onnxruntime", "safetensors"):
        home_of(module, "train", "quantization")
    from scotoma.fix.repair import repair_variant

    fixed = repair_variant(
        run, chosen, growth, folder / "populations" / f"{chosen.name}+repair",
        passes=_verdicts(run).get(chosen.name) == "PASS",
    )  # fmt: skip
    content = fixed.content(options.run, "chosen_on")
    notes = []
    if fixed.members:
        audit = _judge(run, fixed, folder, content, options)
        content["worst_group"] = _worst_group(audit, fixed)
        notes = [f"report  {folder / 'audit' / 'report.html'}",
                 f"models  {fixed.members[0].parent}"]  # fmt: skip
    content["sentence"] = repair_sentence(content)
    if fixed.members:
        write_json(folder / "fix.json", jsonable(content))
    return Answer(repair_table(content), content, notes)


def _judge(
    run: Run, fixed: Fixed, folder: Path, content: dict[str, Any], options: FixOptions
) -> Audit:
    """Audit the half that judges, on the terms of the run; what it says goes into the content."""
    place = folder / "audit"
    audit_beside(run, *write_fixed(run, fixed, folder), place, quiet=options.quiet)
    audit = read_audit(place / "audit.json")
    content |= sides(audit, read_gate(place / "gate.json"), fixed.variant, fixed.name)
    return audit


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


def _worst_group(audit: Audit, fixed: Fixed) -> dict[str, Any]:
    """Rises of the group that the other half chose, on the half that judges."""
    group, rises = fixed.facts["harm"]["group"], {}
    for when, name in (("before", fixed.variant), ("after", fixed.name)):
        known = {"group": group, "metric": "error", "class_name": None, "what": "absolute"}
        (row,) = audit.numbers("rates", name, **known)
        rises[when] = told(group, row.number)
    return rises


def repair_sentence(content: dict[str, Any]) -> str:
    """Say in one sentence what was done and what came of it."""
    variant = content["variant"]
    chosen = f"{shown(content['harm'])}, on the half that chooses"
    if not content["needed"]:
        return f"{variant} passes and shows no harm, so nothing is repaired: worst group {chosen}."
    if not content["repaired"]:
        return (
            f"No {_changed(content)}, and no layer in float32 within "
            f"{content['max_size_increase']:.0%}, lower the harm of {variant}: worst group "
            f"{chosen}."
        )
    before, after = (content["worst_group"][when] for when in ("before", "after"))
    now = shown(after).replace(" points", "", 1)
    was = "undefined" if before["value"] is None else f"{100 * before['value']:+.1f} points"
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
        rise = shown(row["rise"] | {"group": "all"})
        lines.append(f"{row['layer']:<{wide}}{rise}; {row['size']:+.1%}")
    if len(rows) > MOST_SHOWN:
        lines.append(f"and {len(rows) - MOST_SHOWN} more in fix.json")
    return lines


def _of(content: dict[str, Any]) -> str:
    group = content["harm"]["group"]
    return "all examples" if group == "all" else str(group)
