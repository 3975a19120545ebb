"""Fix a variant, audit the new one on the half that did not choose it, and say before and after."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.audit import read_audit, read_gate
from scotoma.commands.asking import Answer
from scotoma.commands.fix import FixOptions
from scotoma.document import Cell, Column, Document, Interval, Section, Table, in_words, show
from scotoma.document.jsonable import jsonable
from scotoma.errors import ConfigError
from scotoma.extras import home_of
from scotoma.fix.before_after import (
    Fixed,
    before_and_after,
    interval_of,
    new_folder,
    sides,
    told,
    whose,
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
        Before and after as a document, as fix.json holds it, and notes.

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
    return Answer(rules_document(content), content, [f"report  {folder / 'audit' / 'report.html'}"])


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
    return Answer(repair_document(content), content, notes)


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


def rules_document(content: dict[str, Any]) -> Document:
    """What fix.json holds of fitted rules."""
    by = f" by {content['attribute']}" if content["attribute"] else ""
    title = f"{content['technique']}{by}: {content['needs']['sentence']}"
    return Document(title, sections=[before_and_after(content, "fitted", content["mitigated"])])


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
    harm = content["harm"]
    chosen = f"{_rise(harm)}, {whose(harm)}, on the half that chooses"
    if not content["needed"]:
        return f"{variant} passes and shows no harm, so nothing is repaired: worst group {chosen}."
    if not content["repaired"]:
        return (
            f"No {_changed(content)}, and no layer in float32 within "
            f"{100 * content['max_size_increase']:g}%, lower the harm of {variant}: worst group "
            f"{chosen}."
        )
    before, after = (content["worst_group"][when] for when in ("before", "after"))
    size, latency = _increase(content)
    return (
        f"{_done(content)}: worst group from {_rise(before)} to {_rise(after)}, {whose(after)}, "
        f"size {size}, latency {latency}: "
        f"{content['after']['verdict']} on the half that did not choose it."
    )


def _rise(number: dict[str, Any]) -> str:
    return in_words(interval_of(number), "points")


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
    change = _growth(after["median_ms"] / before["median_ms"])
    latency = "the same (quartiles overlap)" if alike else change
    return _growth(size["after"] / size["before"]), latency


def _growth(ratio: float) -> str:
    return show(ratio - 1, "percent").value


def repair_document(content: dict[str, Any]) -> Document:
    """What fix.json holds of a repair."""
    sections = []
    if content["repaired"]:
        sections += [before_and_after(content, "chosen", content["repaired"]), _latencies(content)]
    if content["sensitivities"]:
        sections.append(_layers(content))
    return Document(content["sentence"], sections=sections)


def _latencies(content: dict[str, Any]) -> Section:
    sides = content["latency"]
    rows: list[dict[str, Cell]] = [
        {"images": int(batch), "n": one["n"]} | {
            when: Interval(own["median_ms"], own["low_ms"], own["high_ms"], own["n"])
            for when in ("before", "after")
            for own in (sides[when][batch],)
        }
        for batch, one in sides["before"].items()
    ]  # fmt: skip
    columns = (
        Column("images", "images", "count"),
        Column("before", "before, ms", "number"),
        Column("after", "after, ms", "number"),
        Column("n", "runs", "count"),
    )
    title = "Latency of a batch: the median of the runs, and their quartiles"
    return Section("latency", title, parts=[Table("latency", "", columns, rows)])


def _layers(content: dict[str, Any]) -> Section:
    """Every layer alone in int8, the most harmful first."""
    ranked = sorted(content["sensitivities"], key=lambda row: -(row["rise"]["value"] or 0.0))
    rows: list[dict[str, Cell]] = [
        {
            "layer": row["layer"],
            "rise": interval_of(row["rise"]),
            "n": row["rise"]["n"],
            "size": row["size"],
        }
        for row in ranked
    ]
    columns = (
        Column("layer", "layer"),
        Column("rise", "rise, points", "points"),
        Column("n", "n", "count"),
        Column("size", "file in float32", "percent"),
    )
    title = f"Each layer alone in int8, on the half that chooses: error of {_of(content)}"
    note = "File in float32: by how much the file grows if this layer is kept in float32."
    table = Table("layers", "", columns, rows, note, most=MOST_SHOWN)
    return Section("layers", title, parts=[table])


def _of(content: dict[str, Any]) -> str:
    group = content["harm"]["group"]
    return "all examples" if group == "all" else str(group)
