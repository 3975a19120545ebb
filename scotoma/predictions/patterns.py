"""Which files does a pattern name, of which variant and model?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from scotoma import storage
from scotoma.detection.table import BoxReading
from scotoma.errors import DataError
from scotoma.predictions.tables import KEY, PREDICTED, PredictionTable
from scotoma.printable import printable
from scotoma.readers.tables import table_parts

TABLES = (".csv", ".csv.gz", ".parquet", ".npz")
DETECTIONS = (".json", ".npz", ".txt")


def find_tables(
    pattern: str,
    key: str | None = KEY,
    columns: Mapping[str, Sequence[str]] | None = None,
    *,
    called: str = "",
    option: str = "source.files",
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
        called: As of `PredictionTable`.
        option: The key of the configuration that names them.
        boxes: They are detections, COCO's results JSON, .npz, or YOLO's text files, of which a
            folder is a table.
        predicted: The column of the predictions, where there are no `columns`.

    Raises:
        DataError: No file matches, one is no CSV, Parquet or .npz, or its name no UTF-8; or a
            folder of text files is of several models.
    """
    folder, rest = split_pattern(pattern)
    expected = re.compile(_expression(rest))
    names = storage.list_files(folder)
    above = {str(one) for name in names for one in PurePosixPath(name).parents if one.name}
    folders = [one for one in sorted(above) if boxes is None and expected.fullmatch(one)]
    below = {one: [name[len(one) + 1:] for name in names if name.startswith(f"{one}/")]
             for one in folders}  # fmt: skip
    parts = {one: tuple(own) for one in folders if (own := table_parts(below[one]))}
    tables = [
        PredictionTable(
            storage.join(folder, name),
            {k: v for k, v in match.groupdict().items() if v},
            key,
            columns or {},
            called,
            boxes,
            predicted,
            parts.get(name, ()),
        )
        for name in (*names, *parts)
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
        if not table.place.lower().endswith(kinds) and not table.parts:
            raise DataError(
                f"{option} matches {printable(table.place)}, which is neither "
                f"{', '.join(kinds[:-1])} nor {kinds[-1]}; narrow the pattern, or convert the file"
            )
    return tables if boxes is None else list(_with_folders(tables, folder, names))


def _with_folders(
    tables: Iterable[PredictionTable], root: str, names: Iterable[str]
) -> Iterator[PredictionTable]:
    """Put the folder of YOLO's text files, one an image, in the place of the files."""
    texts: dict[str, list[str]] = {}
    for name in names:
        if name.endswith(".txt"):
            folder, _, file = storage.join(root, name).rpartition("/")
            texts.setdefault(folder, []).append(file)
    folders: dict[str, PredictionTable] = {}
    for table in tables:
        if not table.place.lower().endswith(".txt"):
            yield table
            continue
        folder = table.place.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = replace(table, place=folder or ".", parts=tuple(texts[folder]))
            yield folders[folder]
        elif folders[folder].from_name != table.from_name:
            raise DataError(
                f"a folder of YOLO's text files is one model, and source.files has several in "
                f"{printable(folder)}; end it in /*.txt behind {{variant}} and {{model}}"
            )


def files_of_tables(pattern: str, tables: Iterable[PredictionTable]) -> storage.StampedFiles:
    """List the files of the tables that a pattern names, of a folder its parts or text files.

    >>> files_of_tables("said/*.csv", [PredictionTable("said/int8.csv", {})]).names
    ('int8.csv',)
    """
    root = split_pattern(pattern)[0]
    folder = PurePosixPath(storage.join(root))
    places = [PurePosixPath(one.place, part) for one in tables for part in one.parts or ("",)]
    return storage.StampedFiles(root, tuple(p.relative_to(folder).as_posix() for p in places))


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
