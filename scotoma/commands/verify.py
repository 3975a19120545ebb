"""`scotoma verify`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable

__all__ = ["verify"]

VALID_AND_FAILED = 6  # the evidence can be trusted, and its verdict is FAIL


def verify(
    run: options.FinishedRun,
    evidence: Annotated[
        Path | None, typer.Option(help="Test result of scotoma evidence that must rest on it.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Ed25519 public key (PEM) that must have signed it.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model that the test result must speak of, by its SHA-256.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare every file of a finished audit with its checksum.

    Exit codes: 0 all files match, 2 usage, 4 a file is damaged, missing or extra, the audit has not
    ended, or the evidence speaks of another, 6 the evidence is valid and its verdict is FAIL.
    Without --key this detects damage, not tampering.
    """
    from scotoma.commands.evidence.check import check_evidence
    from scotoma.commands.shared.finished_run import open_run
    from scotoma.run import checksums
    from scotoma.run.links import refuse_links
    from scotoma.run.mirror import Mirror

    if key is not None and evidence is None:
        raise ConfigError("--key needs --evidence, the file whose signature it checks; name it")
    if model is not None and evidence is None:
        raise ConfigError("--model needs --evidence, the file that must speak of it; name it")
    folder = Mirror.of(run)
    if not (folder.uri or folder.root.is_dir()):
        raise ConfigError(f"run {run} is not a folder; name one that scotoma audit made")
    refuse_links(folder.root)
    check = checksums.compare_checksums(folder)
    by_kind = {"damaged": check.damaged, "missing": check.missing, "extra": check.extra}
    content = {"version": 1, "run": run, **asdict(check)}
    if not as_json:
        for kind, names in by_kind.items():
            sys.stdout.writelines(f"{kind:<8} {printable(name)}\n" for name in names)
    if not check.intact:
        if as_json:
            sys.stdout.write(json.dumps(content, indent=1) + "\n")
        raise DataError(f"run {run} {_difference(by_kind)}")
    sentences, code = [f"all {check.files:,} files match their checksums"], 0
    if evidence is not None:
        checked = check_evidence(open_run(run, scores=True), evidence, key, model)
        content["evidence"] = asdict(checked)
        sentences.append(printable(checked.sentence()))
        code = VALID_AND_FAILED if checked.verdict == "FAIL" else 0
    if as_json:
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
    if not quiet:
        sys.stderr.writelines(f"{sentence}\n" for sentence in sentences)
    raise typer.Exit(code)


def _difference(by_kind: dict[str, tuple[str, ...]]) -> str:
    """Say how many files differ, and how, with the name of the first.

    >>> _difference({"damaged": ("a.json", "b.json"), "missing": (), "extra": ("c",)})
    'has 2 damaged, 1 extra files, such as a.json; delete extra files, then repeat the audit'
    """
    counts = ", ".join(f"{len(names):,} {kind}" for kind, names in by_kind.items() if names)
    every = [name for names in by_kind.values() for name in names]
    return (
        f"has {counts} file{'s' * (len(every) != 1)}, such as {every[0]}; delete extra files, then "
        "repeat the audit"
    )
