"""`paired_verdict` in a pipeline of somebody else, run by kfp's own runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from scotoma.errors import ScotomaError
from scotoma.steps.kubeflow.paired import judge_artifacts

SCRIPT = """
import os, sys
from kfp import dsl, local
from scotoma.components import paired_verdict

os.environ["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
sys.executable = "python3"

@dsl.component(install_kfp_package=False)
def evaluate(source: str, answers: dsl.Output[dsl.Dataset]):
    import os, shutil
    (shutil.copytree if os.path.isdir(source) else shutil.copyfile)(source, answers.path)

@dsl.component(install_kfp_package=False)
def release(verdict: str):
    print("released after", verdict)

@dsl.pipeline
def evaluation(first: str, second: str, options: str = ""):
    original, compressed = evaluate(source=first), evaluate(source=second)
    judged = paired_verdict(
        original=original.output, compressed=compressed.output, options=options
    )
    with dsl.If(judged.outputs["Output"] == "PASS"):
        release(verdict=judged.outputs["Output"])

local.init(
    local.SubprocessRunner(use_venv=False), pipeline_root=sys.argv[1], raise_on_error=True
)
evaluation(first=sys.argv[2], second=sys.argv[3], options=sys.argv[4])
"""


def table(harm: float, path: Path) -> Path:
    """2,000 answers, right but for a tenth; of women a share of `harm` more is wrong."""
    rows = range(2000)
    wrong = [row % 10 == 0 or (row % 2 and row % 100 < 100 * harm) for row in rows]
    frame = pl.DataFrame({
        "id": rows,
        "label": [("yes", "no")[row % 3 == 0] for row in rows],
        "predicted": [("yes", "no")[(row % 3 == 0) != wrong[row]] for row in rows],
        "sex": [("m", "f")[row % 2] for row in rows],
    })  # fmt: skip
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path)
    return path


def run(here: Path, first: Path, second: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (here / "pipeline.py").write_text(SCRIPT)
    return subprocess.run(
        [
            sys.executable,
            str(here / "pipeline.py"),
            *map(str, (here / "kfp", first, second, " ".join(options))),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("ending", "harm", "verdict"),
    [("csv", 0.3, "FAIL"), ("parquet", 0.3, "FAIL"), ("jsonl", 0.0, "PASS")],
)
def test_a_pipeline_goes_on_by_the_verdict_on_two_artifacts(
    ending: str, harm: float, verdict: str, tmp_path: Path
) -> None:
    first = table(0, tmp_path / f"a.{ending}")
    second = table(harm, tmp_path / f"b.{ending}")
    done = run(tmp_path, first, second, "--group sex", "--margin=0.05", "--gate")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (output,) = (tmp_path / "kfp").rglob("paired-verdict/executor_output.json")
    content = json.loads(output.read_text())
    assert content["parameterValues"]["Output"] == verdict
    (metrics,) = content["artifacts"]["metrics"]["artifacts"]
    assert metrics["metadata"]["verdict"] == ["PASS", "UNSURE", "FAIL"].index(verdict)
    assert ("released after PASS" in done.stdout) == (verdict == "PASS")
    for artifact in ("page", "summary"):
        (shown,) = (path for path in (tmp_path / "kfp").rglob(artifact) if path.is_file())
        assert verdict in shown.read_text()
    assert ("error f " in shown.read_text()) == (verdict == "FAIL")


def test_what_the_command_refuses_the_step_says(tmp_path: Path) -> None:
    first = table(0, tmp_path / "a.csv")
    done = run(tmp_path, first, first, "--group=income")
    assert done.returncode
    said = done.stdout + done.stderr
    assert "DataError" in said or "ScotomaError" in said
    assert "income" in said
    assert "tmp" not in said.partition("DataError: ")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--help", r"^options must leave the audit where it belongs, got --help; leave out --out"),
        ("--group 'sex", r"^options must be as on a command line: No closing quotation"),
        ("--gruop sex", r"^No such option: --gruop|'--gruop'|--gruop"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_sentence(
    options: str, sentence: str, tmp_path: Path
) -> None:
    first = str(table(0, tmp_path / "a.csv"))
    with pytest.raises(ScotomaError, match=sentence):
        judge_artifacts(
            {"original": first, "compressed": first}, str(tmp_path / "audit"), options,
            shown={}, metrics={},
        )  # fmt: skip
