"""The gate command: a verdict on a finished audit, for people and for machines.

Its exit codes are promises: 1 is a verdict and nothing else. Whatever goes wrong leaves by another
code and leaves no gate.json, not even that of an earlier verdict.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from scotoma import storage
from scotoma.config.gate import GateRules, default_rules, load_rules
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.files import file_digest, written
from scotoma.mirror import Mirror, local_folder
from scotoma.printable import printable
from scotoma.summary import summary
from scotoma.verdict import Gate, judge
from scotoma.verdict.documents import junit, markdown

__all__ = ["Given", "chosen_rules", "day", "give_verdict", "print_out", "run_gate"]

OUTCOMES = ("gate.json", "junit.xml", "summary.md")


def run_gate(
    place: str, rules: Path | None, today: str | None, *, as_json: bool, quiet: bool
) -> int:
    """Judge a finished audit, write the verdict beside it and print it.

    Args:
        place: Folder of the run, or its `s3://BUCKET/PREFIX`; audit.json is all that it must hold.
        rules: Gate file; None for the default rules.
        today: Day that decides which waivers have expired, YYYY-MM-DD; None for the date.
        as_json: Print gate.json instead of the summary.
        quiet: Write nothing to stderr.

    Returns:
        The exit code: 0 pass, 1 failed, 3 unsure where the rules say that this fails.

    Raises:
        ConfigError: The place is no folder, or the rules cannot be used.
        DataError: There is no audit, or it cannot be judged.
        ScotomaError: Something went wrong inside; its traceback is in the logs of the run.
    """
    folder = _folder(place)
    try:
        _forget(folder)
        given = give_verdict(folder, chosen_rules(rules), day(today))
        text = given.content if as_json else given.summary
        verdict = f"verdict {given.gate.verdict}, {folder.place(folder.root / 'gate.json')}"
        print_out(text, sys.stdout)
        if not quiet:
            print_out("".join(f"{line}\n" for line in [*given.notes, verdict]), sys.stderr)
    except ScotomaError:
        raise
    except OSError as error:  # a broken pipe too: left alone it would end the command with 1
        raise ScotomaError(f"{error}; free the path or the disk, repeat") from error
    except Exception as error:
        log = folder.root / "logs" / "gate.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        raise ScotomaError(
            f"the gate ended with an internal error ({type(error).__name__}) and gave no verdict; "
            f"its traceback is in {log}"
        ) from error
    return given.gate.exit_code


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
        folder: Where audit.json lies.
        rules: The gate; None for the default rules.
        today: Day that decides which waivers have expired.

    Returns:
        The verdict, and what there is to print.

    Raises:
        DataError: There is no audit, or it cannot be judged.
    """
    _forget(folder)
    path = folder.root / "audit.json"
    folder.fetch([path])
    audit = _audit(path, folder.place(path))
    gate = judge(audit, rules or default_rules(positive=_has_positive(audit)), today)
    texts = {
        "summary.md": markdown(gate),
        "junit.xml": junit(gate),
        "gate.json": _json(gate.as_dict() | {"audit_sha256": file_digest(path)}),
    }
    given = Given(
        gate=gate,
        content=texts["gate.json"],
        summary=summary(audit, gate),
        notes=tuple(f"note    {printable(warning)}" for warning in gate.warnings),
    )
    for name, text in texts.items():  # gate.json last: where it is, the others are
        with written(folder.root / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
        folder.publish([folder.root / name])
    return given


def print_out(text: str, stream: TextIO) -> None:
    """Write to stdout or stderr; a reader who has seen enough does not change the exit code."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # What is still in the buffer would fail again when the interpreter ends, with code 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def chosen_rules(path: Path | None) -> GateRules | None:
    """The rules of a file; None where the default rules hold."""
    return None if path is None else load_rules(path)


def day(text: str | None) -> datetime.date:
    """The day that `--today` names, else the date.

    >>> day("2027-03-01")
    datetime.date(2027, 3, 1)
    """
    if text is None:
        return datetime.date.today()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--today must be a day such as 2027-03-01, got {text!r}") from error


def _folder(place: str) -> Mirror:
    if storage.is_remote(place):
        root = local_folder(place)
        root.mkdir(parents=True, exist_ok=True)
        return Mirror(root, place)
    root = Path(place)
    if not root.is_dir():
        raise ConfigError(f"run {place} is not a folder; name one that scotoma audit made")
    return Mirror(root)


def _forget(folder: Mirror) -> None:
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


def _json(value: dict[str, Any]) -> str:
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    # Half of a character, as JSON may spell it, is no text that a file can hold.
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def _has_positive(audit: dict[str, Any]) -> bool:
    examples = audit.get("examples")
    return isinstance(examples, dict) and examples.get("positive") is not None
