"""Of which tool is a file, by what it holds?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from scotoma.evallogs.every_eval_ever import EVERY_EVAL_EVER, is_every_eval_ever
from scotoma.evallogs.frames import column_names
from scotoma.evallogs.helm import HELM
from scotoma.evallogs.inspect_ai import INSPECT_AI, INSPECT_AI_JSON
from scotoma.evallogs.json_lines import json_lines
from scotoma.evallogs.lighteval import LIGHTEVAL, LIGHTEVAL_COLUMNS
from scotoma.evallogs.lm_eval import LM_EVAL, is_lm_eval
from scotoma.evallogs.record import Format
from scotoma.evallogs.tables import LogColumns, is_timm, table_format
from scotoma.evallogs.zip_members import ZipMembers
from scotoma.storage.regular import open_regular

__all__ = ["FORMATS", "SUFFIXES", "detect"]

FORMATS = ("lm-eval", "inspect", "helm", "lighteval", "every-eval-ever", "timm", "mlflow", "table")
SUFFIXES = (".jsonl", ".eval", ".json", ".parquet", ".csv", ".csv.gz")
BEGINNING = 2**14  # bytes of a file of JSON that are looked at
INSPECT = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
SPLIT = re.compile(rb'\s*\{\s*"columns"\s*:\s*\[')
EXAMPLES = re.compile(rb'\s*\[\s*\{\s*"instance_id"\s*:')
STATISTICS = re.compile(rb'"stats"\s*:\s*\[')


def detect(path: Path, columns: LogColumns, scores: Sequence[str]) -> Format | None:
    """Tell the format of a file; None where it is no log and no table.

    Args:
        path: The file.
        columns: Columns of tables.
        scores: Columns of scores of tables.

    Raises:
        DataError: It cannot be read.
    """
    name = path.name.lower()
    with open_regular(path) as file:
        begins = file.read(BEGINNING)
    if begins.startswith(b"PK\x03\x04"):
        with ZipMembers(path) as members:
            logged = {"header.json", "_journal/start.json"} & set(members.names)
        return INSPECT_AI if logged else None
    if name.endswith((".parquet", ".csv", ".csv.gz")):
        names = column_names(path)
        if set(names) >= LIGHTEVAL_COLUMNS:
            return LIGHTEVAL
        return table_format(columns, scores, "timm" if is_timm(names) else "table")
    if INSPECT.match(begins):
        return INSPECT_AI_JSON
    if EXAMPLES.match(begins) and STATISTICS.search(begins):
        return HELM
    if SPLIT.match(begins):
        return table_format(columns, scores, "mlflow")
    if not name.endswith(".jsonl"):
        return None
    first = next(json_lines(path), None)
    if first is None:
        return None
    if is_lm_eval(first):
        return LM_EVAL
    if is_every_eval_ever(first):
        return EVERY_EVAL_EVER
    return table_format(columns, scores, "timm" if is_timm(list(first)) else "table")
