"""From the numbers of an audit to a verdict: audit.json put together, judged, and written down."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scotoma.audit import Audit, GateFile, GateResult, as_text, read_audit, read_gate, write_part
from scotoma.audit.rows import NUMBERS
from scotoma.config.gate import GateRules
from scotoma.document import Document
from scotoma.errors import DataError
from scotoma.inference.members import manifests
from scotoma.printable import printable
from scotoma.processes import progress
from scotoma.run import Run, checksums
from scotoma.run.finished import run_folder
from scotoma.run.folder import INPUTS
from scotoma.run.judging import Judging
from scotoma.run.mirror import Mirror
from scotoma.run.sources import read_sources
from scotoma.steps.judging.previous import leave_previous, read_previous, with_previous
from scotoma.steps.runner import fault_logged
from scotoma.steps.table import Leaves, named, skipped_steps, when_due
from scotoma.storage.files import file_digest, write_whole

OUTCOMES = ("gate.json", "junit.xml", "summary.md")


@when_due
def verdict(run: Run) -> Iterator[Leaves]:
    """Put every number into audit.json and judge it; the page and MLflow show this verdict.

    `scotoma gate` may judge again by other rules: gate.json, junit.xml and summary.md then change,
    so that they are not among the files that the step promises.
    """
    audit, section, numbers = run.path("audit.json"), run.section("verdict"), run.path(NUMBERS)
    judging = Judging.of(run)
    skipped = skipped_steps(run.config)
    sections = [
        run.section(name) for name in named("verdict").reads.values() if name not in skipped
    ]
    run.fetch(run.previous)
    previous = [run.previous] if run.previous.exists() else []
    inputs = [run.examples, *sections, run.class_rates, *previous]
    if run.config.source.has_answers:
        from scotoma.steps.import_predictions import endings_file

        endings = endings_file(run.path(INPUTS))
        run.fetch(endings)
        inputs += [endings] if endings.exists() else []
    if run.config.source.boxes is not None:
        from scotoma.steps.import_predictions import precision_file

        inputs.append(precision_file(run.root))
    inputs += manifests(run) if run.config.source.has_models else []
    sources = read_sources(run.mirror)
    made_with = "/".join([judging.digest, *(key + sources.digest(key) for key in sources.files)])
    yield Leaves([audit, section, numbers], inputs, made_with)
    from scotoma.datasets import AuditedExamples
    from scotoma.steps.judging.assemble import assemble
    from scotoma.steps.measures.rates import write_numbers

    progress.start("judge", 1)
    content = assemble(run, AuditedExamples.read(run.examples, images=False))
    write_part(audit, write_numbers(numbers, content, run.class_rates))
    run.publish(numbers, audit)
    judged = give_verdict(run.mirror, judging.rules, judging.as_of)
    own = {name: getattr(judged.gate, name) for name in GateResult.model_fields}
    write_part(section, GateResult.model_construct(**own))
    progress.advance("judge")


@dataclass(frozen=True)
class Judged:
    """A verdict that was written down.

    Attributes:
        gate: The verdict.
        content: gate.json.
        summary: What the terminal shows.
        markdown: summary.md.
        place: Where gate.json is.
        notes: What a reader has to know beside it, lines for stderr.
        exit_code: 0 pass, 1 fail, 3 unsure where the rules say that this fails.
        rules: What it was judged by, for a reader; empty where nobody asked.
    """

    gate: GateFile
    content: str
    summary: Document
    markdown: str
    place: str
    notes: tuple[str, ...]
    exit_code: int
    rules: str = ""


def judge_folder(
    place: str, judging: Judging, previous: str | None = None, shipped: str | None = None
) -> Judged:
    """Judge a finished audit again; see `give_verdict`.

    Args:
        place: Folder of the run, or its `s3://BUCKET/PREFIX`; audit.json is all that it must hold.
        judging: The rules, and the day; where none are asked for, the run keeps its own.
        previous: Place of the previous audit, which this one must be no worse than; None for the
            one that the run's folder names, if any.
        shipped: The variant whose verdict is the exit code; None for the worst of all.

    Raises:
        ConfigError: The place is no folder, or the rules cannot be used.
        DataError: There is no audit, or it cannot be judged.
        ScotomaError: Something went wrong inside; its traceback is in the logs of the run.
    """
    folder = run_folder(place)
    with fault_logged("the gate gave no verdict and", folder.root / "logs" / "gate.log"):
        if previous is not None:
            leave_previous(folder, previous)
        judging = judging.kept(folder)
        judged = give_verdict(folder, judging.rules, judging.as_of, shipped)
        if judging.asked:
            judging.leave(folder)
            return replace(judged, rules=judging.words)
        kept = "" if judging.rules is None else "those that the run was last judged by: "
        again = kept and "; --rules built-in takes the built-in ones"
        return replace(judged, rules=f"{kept}{judging.words}{again}")


def give_verdict(
    folder: Mirror, rules: GateRules | None, as_of: datetime.date, shipped: str | None = None
) -> Judged:
    """Judge the audit of a folder and write gate.json, junit.xml and summary.md there.

    An earlier verdict on the same audit.json stays until the new one is written; one on another
    audit.json goes first.

    Args:
        folder: Where audit.json lies, and the previous audit, if it is to be compared with one.
        rules: The gate; None for the default rules.
        as_of: Day that decides which waivers have expired.
        shipped: The variant whose verdict is the exit code; None for the worst of all.

    Returns:
        The verdict, and what there is to print.

    Raises:
        DataError: There is no audit, or it cannot be judged by these rules.
    """
    from scotoma.report.summary import summary
    from scotoma.verdict.documents import junit, markdown
    from scotoma.verdict.gate import applied_rules, exit_code, judge

    with folder.listed():
        path = folder.root / "audit.json"
        folder.fetch([path, *(folder.root / name for name in OUTCOMES)])
        if not _judges(folder.root / "gate.json", path):
            _forget(folder)
        checksums.refuse_changed(folder, [path.name])
        audit = read_audit(path, folder.place(path))
        previous = None if audit.scores else read_previous(folder)
        applied = applied_rules(rules, audit)
        gate = judge(
            _with_rates(folder, audit, applied), with_previous(applied, previous), as_of, previous,
            file_digest(path),
        )  # fmt: skip
        texts = {
            "summary.md": markdown(gate, audit.admission),
            "junit.xml": junit(gate),
            "gate.json": as_text(gate),
        }
        judged = Judged(
            gate=gate,
            content=texts["gate.json"],
            summary=summary(audit, gate),
            markdown=texts["summary.md"],
            place=folder.place(folder.root / "gate.json"),
            notes=tuple(f"note    {printable(warning)}" for warning in gate.warnings),
            exit_code=exit_code(gate, shipped),
        )
        if any(_text(folder.root / name) != text for name, text in texts.items()):
            _forget(folder)  # so that no half of it stays beside half of the new one
            for name, text in texts.items():  # gate.json last: where it is, the others are
                write_whole(folder.root / name, text)
                folder.publish([folder.root / name])
        checksums.amend(folder, OUTCOMES)
        return judged


def _with_rates(folder: Mirror, audit: Audit, rules: GateRules) -> Audit:
    """The audit with the rates of single classes that its rules ask for."""
    if audit.class_rates is None:
        return audit
    import polars as pl

    from scotoma.steps.measures.rates import MOST_JUDGED, class_rates_asked, with_class_rates

    if not (asked := class_rates_asked(rules)):
        return audit
    everyone = pl.col("group") == audit.groups[0].key
    wanted = pl.any_horizontal(
        (pl.col("metric") == metric) & (everyone if over == "classes" else ~everyone)
        for metric, over in asked
    )
    return with_class_rates(folder, audit, wanted, MOST_JUDGED)


def _text(path: Path) -> str | None:
    return path.read_text("utf-8", "replace") if path.is_file() else None


def _judges(gate: Path, audit: Path) -> bool:
    """Whether a gate.json is the verdict on this audit.json."""
    try:
        return audit.is_file() and read_gate(gate).audit_sha256 == file_digest(audit)
    except DataError:  # absent, or of another version
        return False


def _forget(folder: Mirror) -> None:
    """Take away the earlier verdict on an audit.

    A folder without an audit is somebody else's, and so is what lies in it.
    """
    if folder.exists(folder.root / "audit.json"):
        for name in OUTCOMES:
            folder.remove(folder.root / name)
