"""Make a mitigated variant beside the others, audit it, and say before and after."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.audit import GateResult, read_gate
from scotoma.commands.asking import print_out
from scotoma.commands.shared.judged_half import audit_half, new_folder, rows_before_and_after, sides
from scotoma.errors import ConfigError
from scotoma.fix.rules import Mitigated, apply_technique, write_mitigated
from scotoma.mitigation import decide
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.run.finished import open_run
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.audit import Audit

__all__ = ["run_mitigate", "shown_table"]

WORST_FIRST = ("FAIL", "UNSURE", "PASS")


def run_mitigate(
    place: str,
    technique: str,
    variant: str | None,
    attribute: str | None,
    *,
    together: int,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit, decide, write a new folder, audit it and print before and after.

    Args:
        place: The finished audit; nothing in it changes.
        technique: One of `AFTERWARDS`.
        variant: The compressed variant; None for the first of the worst verdict.
        attribute: Whose groups count; None where there is one attribute.
        together: Members of one ensemble.
        out: The new folder; None for a name beside the run.
        as_json: Print JSON instead of the table.
        quiet: Write nothing to stderr.

    Raises:
        ScotomaError: The run lacks what the technique needs, or the folder is not new.
    """
    run = open_run(place)
    run.fetch(run.examples)
    if not run.examples.is_file():
        raise ConfigError(f"run {place} is not finished, got no examples; repeat its audit")
    chosen = variant or _worst(run)
    folder = new_folder(place, chosen, technique, out)
    mitigated = apply_technique(run, technique, chosen, attribute, together=together)
    folder.mkdir(parents=True, exist_ok=True)
    config, rules = write_mitigated(run, mitigated, folder)
    audit, gate = audit_half(run, config, rules, folder, quiet=quiet)
    content = _content(place, mitigated, audit, gate)
    text = json.dumps(content, indent=1) + "\n"
    with written(folder / "mitigation.json") as temporary:
        temporary.write_text(text, encoding="utf-8")
    print_out(text if as_json else shown_table(content), sys.stdout)


def _worst(run: Run) -> str:
    """The first variant of the worst verdict; without a verdict the last one."""
    path = run.path("gate.json")
    run.fetch(path)
    if not path.is_file():
        return run.config.resolved_variants[-1].name
    judged = read_gate(path).variants
    return min(judged, key=lambda one: WORST_FIRST.index(one.verdict)).name


def _content(place: str, mitigated: Mitigated, audit: Audit, gate: GateResult) -> dict[str, Any]:
    """What was done and what came of it, as mitigation.json holds it."""
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


def shown_table(content: dict[str, Any]) -> str:
    """What mitigation.json holds, as lines for a terminal."""
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
