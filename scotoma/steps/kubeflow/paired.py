"""The verdict on two artifacts of any pipeline: `scotoma compare`, as one component."""

from __future__ import annotations

import gzip
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from scotoma.audit import read_gate
from scotoma.errors import ConfigError, DataError
from scotoma.run import Run
from scotoma.steps.kubeflow.show import show

# Kubeflow names an artifact after an output, without the ending that says what the file holds.
ENDINGS = {b"PAR1": ".parquet", b"PK": ".eval"}
GZIP = b"\x1f\x8b"
VERDICTS = (0, 1, 3)  # of `--gate`
LONGEST_LINE = 2**26


def judge_artifacts(
    answers: Mapping[str, str],
    folder: str,
    options: str,
    *,
    shown: Mapping[str, str],
    metrics: MutableMapping[str, float],
) -> str:
    """Compare the answers of an original and a compressed model.

    Args:
        answers: What each model is called, and the file or folder of its logs or table.
        folder: Where to leave the audit.
        options: Further ones of `scotoma compare`, as on its command line.
        shown: Files of the audit that Kubeflow shows, each with the path of its copy for Kubeflow.
        metrics: Gets the numbers that Kubeflow compares.

    Returns:
        PASS, UNSURE or FAIL.

    Raises:
        ScotomaError: What `scotoma compare` refuses, in its words.
    """
    try:
        asked = shlex.split(options, comments=True)
    except ValueError as error:
        raise ConfigError(
            f"options must be as on a command line: {error}; close the quote"
        ) from error
    with tempfile.TemporaryDirectory() as scratch:
        places = [str(_named(place, Path(scratch, name))) for name, place in answers.items()]
        command = [sys.executable, "-m", "scotoma", "compare", *places, "--out", folder, *asked]
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        said = ended.stderr.replace(f"{scratch}/", "")
    sys.stderr.write(said)
    if ended.returncode not in VERDICTS:
        raise DataError(said.strip().rpartition("scotoma: ")[2])
    if not Path(folder, "gate.json").exists():
        raise ConfigError(
            f"options must leave the audit where it belongs, got {options.strip()}; leave out "
            "--out and --help"
        )
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
        packed = content.read(2) == GZIP
    with gzip.open(file) if packed else file.open("rb") as content:
        first, more = content.readline(LONGEST_LINE), content.readline(1)
    for start, ending in ENDINGS.items():
        if first.startswith(start):
            return ending
    ending = ".csv"
    if first.lstrip().startswith((b"{", b"[")):
        ending = ".jsonl" if more and first.rstrip().endswith(b"}") else ".json"
    return f"{ending}.gz" if packed else ending
