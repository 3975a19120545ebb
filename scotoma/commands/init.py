"""`scotoma init`."""

from __future__ import annotations

from pathlib import Path

from scotoma.commands.asking import Answer, TextOptions, argument, option


class InitOptions(TextOptions):
    """Which table is audited, and what its columns are."""

    # fmt: off
    table: str = argument("CSV, Parquet or .npz file with one row per example.")
    out: Path = option(Path("audit.yaml"), "Configuration to write.")
    label: tuple[str, ...] = option(
        (), "Column of the true labels. Where an example has several, their columns of 0 and 1, "
        "separated by commas, or a pattern such as 'has_*'. Can be repeated. Default: chosen by "
        "its name.")
    group: tuple[str, ...] = option(
        (), "Columns whose values are groups, separated by commas. Can be repeated. Default: "
        "columns of few values.")
    predictions: str | None = option(
        None, "Pattern of prediction files, such as 'preds/{variant}/{model}.csv'.")
    predicted: tuple[str, ...] = option(
        (), "Column of predictions, or a pattern such as 'pred_*', where a table has a column for "
        "each model. Can be repeated. Default: columns that hold classes.")
    score: str | None = option(
        None, "The files of --predictions hold numbers: scores of which `lower` or `higher` is "
        "better, or predictions whose `absolute_error` or `squared_error` is audited.")
    images: str | None = option(None, "Folder of the images.")
    models: str | None = option(
        None, "Folder of ONNX models, a folder for each variant, to show --images.")
    # fmt: on


def init(options: InitOptions) -> Answer:
    """Write a first configuration from the columns of a table.

    --json, --markdown and --html print it and write nothing.
    """
    from scotoma.steps.draft import draft_file

    return draft_file(options)
