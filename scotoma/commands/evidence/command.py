"""`scotoma evidence`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["evidence"]


def evidence(
    run: options.FinishedRun,
    model: Annotated[Path, typer.Option(help="File of the model that is released.")],
    variant: Annotated[
        str | None,
        typer.Option(help="Its variant. Needed where the audit has predictions and no models."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("evidence"),
    sign: Annotated[
        Path | None, typer.Option(help="Ed25519 private key (PEM) that signs the test result.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write what others accept as evidence about one model, bound to its SHA-256.

    CycloneDX ML-BOM, in-toto test result, model card section, and a dossier for Annex IV, point
    2(g), of the EU AI Act. Exit code: 0.
    """
    from scotoma.commands.evidence.write import write_evidence

    write_evidence(run, model, variant=variant, out=out, sign=sign, quiet=quiet)
