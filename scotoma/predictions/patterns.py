"""Which files does a pattern name, of which variant and model?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from scotoma import storage
from scotoma.detection.table import BoxReading
from scotoma.errors import DataError
from scotoma.predictions.tables import KEY, PREDICTED, PredictionTable
from scotoma.printable import printable
from scotoma.readers.tables import sniff, table_files

__all__ = ["files_of", "find_tables", "split_pattern"]

TABLES = (".csv", ".csv.gz", ".parquet", ".npz")
DETECTIONS = (".json", ".npz", ".txt")


def find_tables(
    pattern: str,
    key: str | None = KEY,
    columns: Mapping[str, Sequence[str]] | None = None,
    *,
    by_condition: bool = False,
    boxes: BoxReading | None = None,
    predicted: str = PREDICTED,
) -> list[PredictionTable]:
    """List the files that a pattern names, in the order of their names.

    Args:
        pattern: A path or `s3://` URI; a folder of parts, as Spark writes it, counts as a file.
            In its parts `*` stands for any characters but `/`,
            `{variant}` and `{model}` for the names of variant and model.
        key: The column of the ids, where none is called `example_id`; None numbers the rows.
        columns: Of wide tables, the columns of each variant.
        by_condition: They are of corrupted pictures, which `robustness.files` names.
        boxes: They are detections, COCO's results JSON, .npz, or YOLO's text files, of which a
            folder is a table.
        predicted: The column of the predictions, where there are no `columns`.

    Raises:
        DataError: No file matches, one is no CSV, Parquet or .npz, or its name no UTF-8; or text
            files lie in object storage, or a folder of theirs is of several models.
    """
    folder, rest = split_pattern(pattern)
    expected = re.compile(_expression(rest))
    option = "robustness.files" if by_condition else "source.files"
    names = storage.list_files(folder)
    above = {str(one) for name in names for one in PurePosixPath(name).parents if one.name}
    parted = boxes is None and not storage.is_remote(folder)
    folders = [one for one in sorted(above) if parted and expected.fullmatch(one)]
    folders = [one for one in folders if sniff(Path(folder, one))]
    tables = [
        PredictionTable(
            storage.join(folder, name),
            {k: v for k, v in match.groupdict().items() if v},
            key,
            columns or {},
            by_condition,
            boxes,
            predicted,
        )
        for name in (*names, *folders)
        if (match := expected.fullmatch(name))
    ]
    if not tables:
        raise DataError(
            f"{option} {printable(pattern)} matches no file; * stands for any characters of a "
            "name, {variant} and {model} for the names of variant and model"
        )
    for table in tables:
        if table.place != table.place.encode(errors="replace").decode():
            raise DataError(
                f"{option} matches {printable(table.place)}, which must have a name in UTF-8, "
                "got other bytes; rename it"
            )
        kinds = TABLES if boxes is None else DETECTIONS
        if not table.place.lower().endswith(kinds) and not Path(table.place).is_dir():
            raise DataError(
                f"{option} matches {printable(table.place)}, which is neither "
                f"{', '.join(kinds[:-1])} nor {kinds[-1]}; narrow the pattern, or convert the file"
            )
    return tables if boxes is None else list(_with_folders(tables))


def _with_folders(tables: Iterable[PredictionTable]) -> Iterator[PredictionTable]:
    """Put the folder of YOLO's text files, one an image, in the place of the files."""
    folders: dict[str, PredictionTable] = {}
    for table in tables:
        if not table.place.lower().endswith(".txt"):
            yield table
            continue
        folder = table.place.rpartition("/")[0] or "."
        if storage.is_remote(folder):
            raise DataError(
                f"YOLO's text files are read on this machine, got {printable(folder)}; download "
                "the folder, or write COCO's results JSON"
            )
        if folder not in folders:
            folders[folder] = replace(table, place=folder)
            yield folders[folder]
        elif folders[folder].from_name != table.from_name:
            raise DataError(
                f"a folder of YOLO's text files is one model, and source.files has several in "
                f"{printable(folder)}; end it in /*.txt behind {{variant}} and {{model}}"
            )


def files_of(place: str) -> list[str]:
    """List the files of a table: itself, or the parts or text files of a folder.

    >>> files_of("said/int8.csv")
    ['said/int8.csv']
    """
    if storage.is_remote(place) or not Path(place).is_dir():
        return [place]
    return sorted(map(str, table_files(Path(place)) or Path(place).glob("*.txt")))


def split_pattern(pattern: str) -> tuple[str, str]:
    """Split a pattern into the folder below which its files lie, and the rest.

    >>> split_pattern("said/{variant}/*.csv")
    ('said', '{variant}/*.csv')
    """
    steps = pattern.split("/")
    fixed = next((i for i, step in enumerate(steps) if re.search(r"[*{]", step)), len(steps) - 1)
    return "/".join(steps[:fixed]) or ("/" if fixed else "."), "/".join(steps[fixed:])


def _expression(rest: str) -> str:
    """Build the regular expression of a pattern; a name that stands twice must be the same twice.

    `*` and names take as few characters as fit. What a wildcard has taken up to the text behind it
    is never tried again, as in `fnmatch`, since the next wildcard can take the rest: otherwise a
    dozen of them would take for ever. A name that stands twice is tried again, for it need not fit.

    >>> re.fullmatch(_expression("{variant}-*.csv"), "int8-a-b.csv")["variant"]
    'int8'
    """
    first, *others = re.split(r"(\*|\{variant\}|\{model\}|\{rerun\})", rest)
    wildcards = others[::2]
    chunks: list[str] = []  # a wildcard each, and all up to the next
    again: set[int] = set()
    for place, (wildcard, text) in enumerate(zip(wildcards, others[1::2], strict=True)):
        name = wildcard.strip("{}")
        if wildcard == "*":
            chunks.append("[^/]*?" + re.escape(text))
        elif wildcard in wildcards[:place]:
            chunks[-1] += f"(?P={name})" + re.escape(text)
        else:
            again |= {len(chunks)} if wildcards.count(wildcard) > 1 else set()
            chunks.append(f"(?P<{name}>[^/]+?)" + re.escape(text))
    again.add(len(chunks) - 1)  # must reach the end of the name
    parts = [one if place in again else f"(?>{one})" for place, one in enumerate(chunks)]
    return re.escape(first) + "".join(parts)
