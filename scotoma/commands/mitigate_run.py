"""Make a mitigated variant beside the others, audit it, and say before and after."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from scotoma import storage
from scotoma.audit import GateResult, read_audit, read_gate
from scotoma.commands.audit_run import run_audit
from scotoma.commands.finished_run import open_run
from scotoma.commands.gate import print_out
from scotoma.errors import ConfigError
from scotoma.mitigation import decide
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.stages.judging.terms import Judging
from scotoma.stages.mitigation import Mitigated, apply_technique, write_tables
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.audit import Audit

__all__ = ["run_mitigate", "shown_table"]

ROWS = {
    "verdict": "verdict",
    "accuracy": "accuracy",
    "highest error of a group": "worst_error",
    "largest rise of a group": "worst_rise",
}
WORST_FIRST = ("FAIL", "UNSURE", "PASS")


@dataclass(frozen=True)
class Change:
    """One number of a variant, with its interval and n.

    Attributes:
        group: Key of the group; `all` for all examples.
        value: Fraction; None where it is undefined.
        low: Lower end of the interval, or None.
        high: Upper end, or None.
        n: Examples; clusters where rows belong together.
        reason: Why there is no number or interval; else empty.
    """

    group: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str

    def shown(self, key: str) -> str:
        """The number in per cent, or a rise in points with its sign, and whose it is."""
        if self.value is None:
            return self.reason or "undefined"
        rise = key == "worst_rise"
        plus, unit = ("+", " points") if rise else ("", "%")
        text = f"{100 * self.value:{plus}.1f}{unit}"
        if self.low is not None and self.high is not None:
            text += f" [{100 * self.low:{plus}.1f}, {100 * self.high:{plus}.1f}]"
        group = "" if self.group == "all" else f", {self.group}"
        return f"{text}{group}, n {self.n:,}"


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
    folder = _new_folder(place, chosen, technique, out)
    mitigated = apply_technique(run, technique, chosen, attribute, together=together)
    folder.mkdir(parents=True, exist_ok=True)
    config, rules = write_tables(run, mitigated, folder)
    with contextlib.redirect_stdout(io.StringIO()):  # its own summary is in audit/summary.md
        run_audit(
            config,
            str(folder / "audit"),
            deterministic=run.config.deterministic,
            seed=None,
            data=None,
            as_json=False,
            quiet=quiet,
            rules=rules,
            as_of=Judging.of(run).as_of.isoformat(),
        )
    content = _content(place, mitigated, folder)
    text = json.dumps(content, indent=1) + "\n"
    with written(folder / "mitigation.json") as temporary:
        temporary.write_text(text, encoding="utf-8")
    print_out(text if as_json else shown_table(content), sys.stdout)
    Console(stderr=True, quiet=quiet).print(
        f"report  {folder / 'audit' / 'report.html'}", highlight=False, markup=False, soft_wrap=True
    )


def _worst(run: Run) -> str:
    """The first variant of the worst verdict; without a verdict the last one."""
    path = run.path("gate.json")
    run.fetch(path)
    if not path.is_file():
        return run.config.resolved_variants[-1].name
    judged = read_gate(path).variants
    return min(judged, key=lambda one: WORST_FIRST.index(one.verdict)).name


def _new_folder(place: str, variant: str, technique: str, out: Path | None) -> Path:
    name = f"{place.rstrip('/').rpartition('/')[2]}-{variant}+{technique}"
    parent = Path("runs") if storage.is_remote(place) else Path(place).parent
    folder = out or parent / printable(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out must be a new folder, got {folder}; remove it or name another")
    return folder


def _content(place: str, mitigated: Mitigated, folder: Path) -> dict[str, Any]:
    """What was done and what came of it, as mitigation.json holds it."""
    audit = read_audit(folder / "audit" / "audit.json")
    gate = read_gate(folder / "audit" / "gate.json")
    needs = decide.needs(mitigated.technique)
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
        "before": _judged(audit, gate, mitigated.variant),
        "after": _judged(audit, gate, mitigated.name),
    }


def _judged(audit: Audit, gate: GateResult, variant: str) -> dict[str, Any]:
    """Verdict, accuracy and the group whose error rises most, of one variant."""
    verdict = next(one for one in gate.variants if one.name == variant)
    rates = [
        rate for rate in audit.subgroups[variant] if rate.metric == "error" and not rate.class_name
    ]
    whole = next(rate for rate in rates if rate.group == "all")
    groups = [r for r in rates if r.group != "all" and r.absolute.value is not None]
    worst = max(groups, key=lambda rate: rate.absolute.value or 0.0, default=whole)
    level = max(groups, key=lambda rate: rate.compressed.value or 0.0, default=whole)
    error = whole.compressed
    value, low, high = (
        None if end is None else 1 - end for end in (error.value, error.high, error.low)
    )
    return {
        "verdict": verdict.verdict,
        "because": list(verdict.sentences),
        "accuracy": vars(Change("all", value, low, high, error.n, error.reason)),
        "worst_error": vars(_change(level.group, level.compressed)),
        "worst_rise": vars(_change(worst.group, worst.absolute)),
    }


def _change(group: str, quantity: Any) -> Change:
    q = quantity
    return Change(group, q.value, q.low, q.high, q.n, q.reason)


def shown_table(content: dict[str, Any]) -> str:
    """What mitigation.json holds, as lines for a terminal."""
    before, after = content["before"], content["after"]
    fitted, judged = content["fitted_on"], content["judged_on"]
    by = f" by {content['attribute']}" if content["attribute"] else ""

    lines = [
        f"{content['technique']}{by}: {content['needs']['sentence']}",
        f"Fitted on {fitted['examples']:,} test examples ({fitted['clusters']:,} clusters), judged "
        f"on the other {judged['examples']:,} ({judged['clusters']:,} clusters).",
        f"before is {content['variant']}, after {content['mitigated']}; rises are against dense",
        "",
    ]
    for title, key in ROWS.items():
        for when, side in (("before", before), ("after", after)):
            shown = side[key] if key == "verdict" else Change(**side[key]).shown(key)
            because = f": {side['because'][0]}" if key == "verdict" and side["because"] else ""
            lines.append(f"{title if when == 'before' else '':<26}{when:<8}{shown}{because}")
    return "".join(f"{printable(line)}\n" for line in lines)
