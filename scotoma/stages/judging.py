"""From the numbers of an audit to a verdict: audit.json put together, judged, and written down."""

from __future__ import annotations

import contextlib
import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma import checksums, progress, storage
from scotoma.config.gate import GateRules, default_rules
from scotoma.errors import DataError
from scotoma.files import file_digest, written
from scotoma.mirror import Mirror
from scotoma.printable import printable
from scotoma.runs import Run, write_json
from scotoma.stages.judged_by import Judging
from scotoma.stages.last import NAME as LAST
from scotoma.stages.last import read_last, with_last
from scotoma.summary import summary
from scotoma.verdict import Gate, judge
from scotoma.verdict.documents import junit, markdown
from scotoma.verdict.words import said

__all__ = ["Given", "for_readers", "forget", "give_verdict", "verdict"]

OUTCOMES = ("gate.json", "junit.xml", "summary.md")


def verdict(run: Run) -> list[Path]:
    """Put every number into audit.json and judge it; the page and MLflow show this verdict.

    `scotoma gate` may judge again by other rules: gate.json, junit.xml and summary.md then change,
    so that they are not among the files that the step promises.
    """
    audit, section = run.path("audit.json"), run.section("verdict")
    judging = Judging.of(run)
    sections = [run.section(name) for name in ("divergence", "bias", "slices")]
    run.fetch(run.path(LAST))
    last = [run.path(LAST)] if run.path(LAST).exists() else []
    inputs = [run.examples, *sections, *last]
    with run.step("verdict", [audit, section], inputs, made_with=judging.digest) as due:
        if due:
            from scotoma.datasets import Examples
            from scotoma.stages.assembling import assemble

            progress.start("judge", 1)
            write_json(audit, assemble(run, Examples.read(run.examples, images=False)))
            run.publish(audit)
            given = give_verdict(run.mirror, judging.rules, judging.today)
            write_json(section, for_readers(given.gate))
            progress.advance("judge")
    return [audit, section]


def for_readers(gate: Gate) -> dict[str, Any]:
    """The verdict for readers: sentences beside the tests, and no day, which changes nothing."""
    found = gate.as_dict()
    del found["today"]
    for variant, judged in zip(found["variants"], gate.variants, strict=True):
        variant["said"] = said(judged)
    return found


@dataclass(frozen=True)
class Given:
    """A verdict that was written down.

    Attributes:
        gate: The verdict.
        content: gate.json.
        summary: What the terminal shows.
        notes: What a reader has to know beside it, lines for stderr.
    """

    gate: Gate
    content: str
    summary: str
    notes: tuple[str, ...]


def give_verdict(folder: Mirror, rules: GateRules | None, today: datetime.date) -> Given:
    """Judge the audit of a folder and write gate.json, junit.xml and summary.md there.

    Args:
        folder: Where audit.json lies, and the last audit, if it is to be compared with one.
        rules: The gate; None for the default rules.
        today: Day that decides which waivers have expired.

    Returns:
        The verdict, and what there is to print.

    Raises:
        DataError: There is no audit, or it cannot be judged.
    """
    forget(folder)
    path = folder.root / "audit.json"
    folder.fetch([path])
    checksums.check(folder, [path.name])
    audit = _audit(path, folder.place(path))
    asked = rules or default_rules(
        positive=_has_positive(audit), shipped=audit.get("scope") == "shipped"
    )
    last, margin = read_last(folder)
    gate = judge(audit, with_last(asked, margin), today, last)
    texts = {
        "summary.md": markdown(gate),
        "junit.xml": junit(gate),
        "gate.json": _json(gate.as_dict() | {"audit_sha256": file_digest(path)}),
    }
    given = Given(
        gate=gate,
        content=texts["gate.json"],
        summary=_summary(audit, gate, folder.place(path)),
        notes=tuple(f"note    {printable(warning)}" for warning in gate.warnings),
    )
    for name, text in texts.items():  # gate.json last: where it is, the others are
        with written(folder.root / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
        folder.publish([folder.root / name])
    checksums.amend(folder, OUTCOMES)
    return given


def forget(folder: Mirror) -> None:
    """Take away the earlier verdict on an audit: if this call fails, none must be there.

    A folder without an audit is somebody else's, and so is what lies in it.
    """
    audit = folder.root / "audit.json"
    if folder.uri and storage.exists(folder.place(audit)):
        for path in (folder.root / name for name in OUTCOMES):
            if storage.exists(folder.place(path)):
                storage.remove(folder.place(path))
    if audit.is_file():
        for name in OUTCOMES:
            (folder.root / name).unlink(missing_ok=True)


def _audit(path: Path, shown: str) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(
            f"{shown} is not there, so there is nothing to judge; let scotoma audit end first"
        )
    audit: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        audit = json.loads(path.read_bytes())
    if not isinstance(audit, dict):
        raise DataError(f"{shown} must be what scotoma audit writes; run the audit again")
    return audit


def _summary(audit: dict[str, Any], gate: Gate, shown: str) -> str:
    try:
        return summary(audit, gate)
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise DataError(
            f"{shown} must be what scotoma audit writes ({type(error).__name__}: {error}); run the "
            "audit again"
        ) from error


def _json(value: dict[str, Any]) -> str:
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    # Half of a character, as JSON may spell it, is no text that a file can hold.
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def _has_positive(audit: dict[str, Any]) -> bool:
    examples = audit.get("examples")
    return isinstance(examples, dict) and examples.get("positive") is not None
