"""The verdict on two artifacts of any pipeline: `scotoma compare`, as one component."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from scotoma.audit import read_gate
from scotoma.errors import DataError
from scotoma.run import Run
from scotoma.steps.kubeflow.show import show

# Kubeflow names an artifact after an output, without the ending that says what the file holds.
ENDINGS = {b"PAR1": ".parquet", b"PK": ".eval"}
LONGEST_LINE = 2**26


def judge_artifacts(
    answers: Mapping[str, str],
    folder: str,
    options: Sequence[str],
    *,
    shown: Mapping[str, str],
    metrics: MutableMapping[str, float],
) -> str:
    """Compare the answers of an original and a compressed model.

    Args:
        answers: What each model is called, and the file or folder of its logs or table.
        folder: Where to leave the audit.
        options: Further ones of `scotoma compare`.
        shown: Files of the audit that Kubeflow shows, each with the path of its copy for Kubeflow.
        metrics: Gets the numbers that Kubeflow compares.

    Returns:
        PASS, UNSURE or FAIL.

    Raises:
        DataError: What `scotoma compare` refuses, in its words.
    """
    with tempfile.TemporaryDirectory() as scratch:
        places = [_named(place, Path(scratch, name)) for name, place in answers.items()]
        command = [sys.executable, "-m", "scotoma", "compare", *map(str, places), "--out", folder]
        command += filter(None, map(str.strip, options))
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(ended.stderr)
    if ended.returncode:
        raise DataError(ended.stderr.strip().rpartition("scotoma: ")[2])
    show(Run.open(folder), shown, metrics)
    return read_gate(Path(folder, "gate.json")).verdict


def _named(place: str, name: Path) -> Path:
    """A file or folder under another name, with the ending that its content asks for."""
    source = Path(place).absolute()
    ending = "".join(source.suffixes) or _ending(source) if source.is_file() else ""
    link = name.with_name(name.name + ending)
    link.symlink_to(source)
    return link


def _ending(file: Path) -> str:
    """The ending that fits a file without one."""
    with file.open("rb") as content:
        first, more = content.readline(LONGEST_LINE), content.readline(1)
    for start, ending in ENDINGS.items():
        if first.startswith(start):
            return ending
    if not first.lstrip().startswith((b"{", b"[")):
        return ".csv"
    return ".jsonl" if more and first.rstrip().endswith(b"}") else ".json"
