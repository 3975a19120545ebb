"""`scotoma init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options


def init(
    table: options.Table,
    out: Annotated[Path, typer.Option(help="Configuration to write.")] = Path("audit.yaml"),
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the true labels. Where an example has several, their columns of 0 and "
            "1, separated by commas, or a pattern such as 'has_*'. Can be repeated. Default: "
            "chosen by its name."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns whose values are groups, separated by commas. Can be repeated. Default: "
            "columns of few values."
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
    score: Annotated[
        str | None,
        typer.Option(
            help="The files of --predictions hold numbers: scores of which `lower` or `higher` is "
            "better, or predictions whose `absolute_error` or `squared_error` is audited."
        ),
    ] = None,
    images: Annotated[str | None, typer.Option(help="Folder of the images.")] = None,
    models: Annotated[
        str | None,
        typer.Option(help="Folder of ONNX models, a folder for each variant, to show --images."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a first configuration from the columns of a table."""
    from scotoma.commands.init.draft import run_init

    run_init(
        table, out=out, labels=label or (), groups=group or (), predictions=predictions,
        images=images, as_json=as_json, quiet=quiet, predicted=predicted or (), models=models,
        score=score,
    )  # fmt: skip
