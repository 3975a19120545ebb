"""The user's own images: a folder and a table of attributes, joined by file name."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from scotoma.config import FolderSource
from scotoma.errors import DataError
from scotoma.printable import printable

__all__ = ["load_folder"]


def load_folder(source: FolderSource) -> pl.DataFrame:
    """Read the attributes and the image files they name.

    Args:
        source: Folder, CSV and split.

    Returns:
        One row an image of the train or test split: `example_id` (the value of the key column
        `image`), `split`, `image` (encoded bytes), and every other column of the CSV as text.

    Raises:
        DataError: The CSV or an image is missing, the key or split column is absent, or a path
            leads out of the folder.
    """
    folder, path = Path(source.images), Path(source.attributes)
    if not path.is_file():
        raise DataError(f"source.attributes {path} is not a file; name a CSV with column 'image'")
    if not folder.is_dir():
        raise DataError(f"source.images {folder} is not a folder; name the folder of the images")
    try:
        table = pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as CSV: {' '.join(str(error).split())}") from error
    for column, role in (("image", "key"), (source.split.column, "split")):
        if column not in table.columns:
            raise DataError(
                f"{role} column {column!r} is not in {path}; it has {', '.join(table.columns)}"
            )
    for ours in ({"example_id", "split"} & set(table.columns)) - {source.split.column}:
        raise DataError(
            f"column {ours!r} in {path} has a name that the audit uses itself; rename it"
        )
    split = (
        pl.when(pl.col(source.split.column) == str(source.split.train))
        .then(pl.lit("train"))
        .when(pl.col(source.split.column) == str(source.split.test))
        .then(pl.lit("test"))
    )
    rows = table.with_columns(split.alias("split")).filter(pl.col("split").is_not_null())
    images = [{"bytes": _read(folder, name, path), "path": name} for name in rows["image"]]
    return rows.rename({"image": "example_id"}).with_columns(
        pl.Series("image", images, dtype=pl.Struct({"bytes": pl.Binary, "path": pl.String}))
    )


def _read(folder: Path, name: str | None, table: Path) -> bytes:
    """One image file of the folder."""
    try:
        path = (folder / (name or "")).resolve()
        inside, found = path.is_relative_to(folder.resolve()), path.is_file()
    except (OSError, ValueError) as error:  # a zero byte, or longer than a name can be
        raise DataError(
            f"image {printable(name or '')[:60]!r} in {table} cannot be the name of a file; "
            "correct its row"
        ) from error
    if not inside:
        raise DataError(f"image {name!r} in {table} leads out of {folder}; name files inside it")
    if not found:
        raise DataError(f"image {name!r} in {table} is not in {folder}; add it or remove its row")
    return path.read_bytes()
