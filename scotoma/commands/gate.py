"""The gate command: a verdict on a finished audit, for people and for machines.

Its exit codes are promises: 1 is a verdict and nothing else. Whatever goes wrong leaves by another
code and writes no gate.json; an earlier one stays only if it judges the audit.json that is there.
"""

from __future__ import annotations

import datetime
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scotoma.commands.asking import print_out
from scotoma.commands.shared import options
from scotoma.errors import ConfigError, ScotomaError

if TYPE_CHECKING:  # pydantic comes with them, which `scotoma --help` does without
    from scotoma.config.gate import GateRules
    from scotoma.run.mirror import Mirror

__all__ = ["chosen_rules", "day", "gate", "run_gate"]


def gate(
    run: options.FinishedRun,
    rules: options.Rules = None,
    as_of: options.AsOf = None,
    previous: Annotated[
        str | None,
        typer.Option(
            help="Previous audit, which this one must not be worse than: a folder or s3://."
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="Variant that is shipped: the exit code is its own, not the worst."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print gate.json instead of the summary.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Judge a finished audit: PASS, UNSURE or FAIL for every variant.

    Exit codes: 0 pass, 1 fail, 2 usage or rules, 3 unsure with on_unsure: fail, 4 unusable data,
    5 internal error. Writes gate.json, junit.xml and summary.md into the run.
    """
    raise typer.Exit(
        run_gate(
            run, rules, as_of, previous=previous, variant=variant, as_json=as_json, quiet=quiet
        )
    )


def run_gate(
    place: str,
    rules: Path | None,
    as_of: str | None,
    *,
    as_json: bool,
    quiet: bool,
    previous: str | None = None,
    variant: str | None = None,
) -> int:
    """Judge a finished audit, write the verdict beside it and print it.

    Args:
        place: Folder of the run, or its `s3://BUCKET/PREFIX`; audit.json is all that it must hold.
        rules: Gate file; None for the default rules.
        as_of: Day that decides which waivers have expired, YYYY-MM-DD; None for the date.
        as_json: Print gate.json instead of the summary.
        quiet: Write nothing to stderr.
        previous: Place of the previous audit, which this one must be no worse than; None for the
            one that the run's folder names, if any.
        variant: The variant whose verdict is the exit code; None for the worst of all.

    Returns:
        The exit code: 0 pass, 1 failed, 3 unsure where the rules say that this fails.

    Raises:
        ConfigError: The place is no folder, or the rules cannot be used.
        DataError: There is no audit, or it cannot be judged.
        ScotomaError: Something went wrong inside; its traceback is in the logs of the run.
    """
    from scotoma.steps.judging.previous import leave_previous
    from scotoma.steps.verdict import give_verdict  # SciPy comes with it

    folder = _folder(place)
    try:
        chosen, today = chosen_rules(rules), day(as_of)
        if previous is not None:
            leave_previous(folder, previous)
        judged = give_verdict(folder, chosen, today, variant)
        text = judged.content if as_json else judged.summary
        verdict = f"verdict {judged.gate.verdict}, {folder.place(folder.root / 'gate.json')}"
        print_out(text, sys.stdout)
        if not quiet:
            print_out("".join(f"{line}\n" for line in [*judged.notes, verdict]), sys.stderr)
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
    return judged.exit_code


def chosen_rules(path: Path | None) -> GateRules | None:
    """The rules of a file; None where the default rules hold."""
    from scotoma.config.gate import load_rules

    return None if path is None else load_rules(path)


def day(text: str | None) -> datetime.date:
    """The day that `--as-of` names, else the date.

    >>> day("2027-03-01")
    datetime.date(2027, 3, 1)
    """
    if text is None:
        return datetime.date.today()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--as-of must be a day such as 2027-03-01, got {text!r}") from error


def _folder(place: str) -> Mirror:
    from scotoma.run.links import refuse_links
    from scotoma.run.mirror import Mirror

    folder = Mirror.of(place)
    if folder.uri:
        folder.root.mkdir(parents=True, exist_ok=True)
    elif not folder.root.is_dir():
        raise ConfigError(f"run {place} is not a folder; name one that scotoma audit made")
    refuse_links(folder.root)
    return folder
