"""`scotoma verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from scotoma.commands.asking import Answer, TextOptions, argument, option
from scotoma.errors import DataError
from scotoma.printable import printable

VALID_AND_FAILED = 6  # the evidence can be trusted, and its verdict is FAIL


class VerifyOptions(TextOptions):
    """What is verified."""

    run: str = argument("Folder of a finished audit, or s3://BUCKET/PREFIX.")
    evidence: Path | None = option(
        None, "Test result of scotoma evidence that must rest on the audit."
    )
    key: Path | None = option(None, "Ed25519 public key (PEM) that must have signed the evidence.")
    model: Path | None = option(None, "Model that the test result must speak of, by its SHA-256.")

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.evidence is None and self.key is not None:
            yield "--key needs --evidence, the file whose signature it checks; name it"
        if self.evidence is None and self.model is not None:
            yield "--model needs --evidence, the file that must speak of it; name it"


def verify(options: VerifyOptions) -> Answer:
    """Compare every file of a finished audit with its checksum.

    Exit codes: 0 all files match, 2 usage, 4 a file is damaged, missing or extra, the audit has not
    ended, or the evidence speaks of another, 6 the evidence is valid and its verdict is FAIL.
    Without --key this detects damage, not tampering.
    """
    from scotoma.evidence.check import check_evidence
    from scotoma.run import checksums
    from scotoma.run.finished import open_run, run_folder

    run = options.run
    check = checksums.compare_checksums(run_folder(run))
    by_kind = {"damaged": check.damaged, "missing": check.missing, "extra": check.extra}
    content = {"version": 1, "run": run, **asdict(check)}
    if not check.intact:
        lines = [f"{kind:<8} {printable(one)}" for kind, names in by_kind.items() for one in names]
        refusal = DataError(f"run {run} {_difference(by_kind)}")
        return Answer("\n".join(lines), content, refusal=refusal)
    notes, code = [f"all {check.files:,} files match their checksums"], 0
    if options.evidence is not None:
        checked = check_evidence(
            open_run(run, scores=True), options.evidence, options.key, options.model
        )
        content["evidence"] = asdict(checked)
        notes.append(printable(checked.sentence()))
        code = VALID_AND_FAILED if checked.verdict == "FAIL" else 0
    return Answer("", content, notes, code)


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
