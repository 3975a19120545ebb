"""`scotoma evidence`."""

from __future__ import annotations

from pathlib import Path

from scotoma.commands.asking import Answer, TextOptions, argument, option


class EvidenceOptions(TextOptions):
    """What there is to be evidence of, and where it goes."""

    run: str = argument("Folder of a finished audit, or s3://BUCKET/PREFIX.")
    model: Path = option(..., "File of the model that is released.")
    variant: str | None = option(
        None, "Its variant. Needed where the audit has predictions and no models."
    )
    out: Path = option(Path("evidence"), "Folder for the files.")
    sign: Path | None = option(None, "Ed25519 private key (PEM) that signs the test result.")


def evidence(options: EvidenceOptions) -> Answer:
    """Write what others accept as evidence about one model, bound to its SHA-256.

    CycloneDX ML-BOM, in-toto test result, model card section, and a dossier for Annex IV, point
    2(g), of the EU AI Act. Exit code: 0.
    """
    from scotoma.evidence.write import write_evidence
    from scotoma.run.finished import open_run

    content, note = write_evidence(
        open_run(options.run), options.model, options.variant, options.out, options.sign
    )
    return Answer("", content, [note])
