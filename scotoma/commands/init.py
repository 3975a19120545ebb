"""`scotoma init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands import options

__all__ = ["init"]


def init(
    table: options.Table,
    out: Annotated[Path, typer.Option(help="Configuration to write.")] = Path("audit.yaml"),
    label: Annotated[
        str | None, typer.Option(help="Column of the true labels. Default: chosen by its name.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="Column whose values are groups. Can be repeated. Default: columns of few values."
        ),
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option(help="Pattern of prediction files, such as 'preds/{variant}/{model}.csv'."),
    ] = None,
    predicted: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of predictions, or a pattern such as 'pred_*', where a table has a column "
            "for each model. Can be repeated. Default: columns that hold classes."
        ),
    ] = None,
    images: Annotated[str | None, typer.Option(help="Folder of the images.")] = None,
    models: Annotated[
        Path | None,
        typer.Option(help="Folder of ONNX models, a folder for each variant, to show --images."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a first configuration from the columns of a table."""
    from scotoma.commands.init_draft import run_init

    run_init(
        table, out=out, label=label, groups=group or (), predictions=predictions, images=images,
        as_json=as_json, quiet=quiet, predicted=predicted or (), models=models,
    )  # fmt: skip
