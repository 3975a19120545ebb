"""The audit command around its pipeline: places it refuses, faults of its own, violent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import load_config
from scotoma.run import Run
from scotoma.run.lock import locked
from scotoma.steps import audit as audit_run
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

CONFIG = """\
source: {kind: image_folder, images: pictures, attributes: tabel.csv,
         split: {column: part, train: train, test: test}}
label: {column: face}
variants: [dense, {prune: [0.5]}]
population: {models: 1}
tracking: {uri: "off"}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration whose data are not there."""
    (tmp_path / "audit.yaml").write_text(CONFIG)
    (tmp_path / "pictures").mkdir()
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audited(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command in the folder of the fixture."""
    with steps_in_this_process(Path.cwd()):
        return scotoma("audit", *arguments)


def test_a_bucket_that_does_not_exist_is_refused_before_anything_is_done(
    s3: Any, home: Path
) -> None:
    code, out, err = audited("audit.yaml", "--out", "s3://no-such-bucket-here/run")
    assert (code, out) == (4, "")
    assert err == (
        "scotoma: s3://no-such-bucket-here/run cannot be read: the bucket "
        "'no-such-bucket-here' does not exist; correct its name\n"
    )
    assert not (home / "cache").exists()


def test_missing_credentials_are_refused_before_anything_is_done(
    s3: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    code, out, err = audited("audit.yaml", "--out", s3.uri("run"))
    assert (code, out) == (4, "")
    assert err.count("\n") == 1
    assert "there are no credentials, or half of them; set AWS_ACCESS_KEY_ID" in err
    assert not (home / "cache").exists()


def test_another_scheme_is_refused(home: Path) -> None:
    code, out, err = audited("audit.yaml", "--out", "gs://bucket/run")
    assert (code, out) == (2, "")
    assert err == (
        "scotoma: gs://bucket/run has the scheme gs://, which cannot be read; name a path of this "
        "machine or s3://BUCKET/PREFIX\n"
    )


def test_data_that_cannot_be_audited_leave_nothing_in_the_storage(s3: Any, home: Path) -> None:
    s3.put("beside", b"mine")
    code, _, err = audited("audit.yaml", "--out", s3.uri("deep", "run"))
    assert code == 4, err
    assert err.startswith("scotoma: source.attributes ")
    assert err.count("\n") == 1
    assert s3.names() == ["beside"]
    assert not (home / "cache").exists()


def test_data_may_be_elsewhere_than_the_configuration_says(home: Path) -> None:
    text = "{kind: parquet, data: here}, variants: [dense, {prune: [0.5]}], label: {column: x}"
    (home / "audit.yaml").write_text(f"{{source: {text}}}\n")
    code, out, err = audited("audit.yaml", "--data", "there")
    assert code == 4
    assert f"{home}/there" in err
    assert "here " not in err.replace("there", "")
    code, out, err = audited("--data", "there")
    assert (code, out) == (2, "")
    assert err == (
        "scotoma: --data replaces source.data, and source.kind 'digits-s' has none; leave it "
        "out, or use parquet, celeba, coco, imsitu, cifar10 or cifar10s\n"
    )


def test_members_are_counted_only_where_some_are_trained(home: Path) -> None:
    text = "{kind: predictions, files: a, examples: b}, label: {column: x}"
    (home / "audit.yaml").write_text(f"{{source: {text}}}\n")
    code, out, err = audited("audit.yaml", "--models", "30")
    assert (code, out) == (2, "")
    assert err == (
        "scotoma: --models sets how many members to train, and source.kind 'predictions' trains "
        "none; leave it out\n"
    )


def test_a_folder_in_use_is_refused_and_left_as_it_is(home: Path) -> None:
    run = Run.create(home / "run", load_config(home / "audit.yaml"))
    with locked(run.root):
        code, out, err = audited("audit.yaml", "--out", "run")
    assert (code, out) == (2, "")
    assert err == (
        f"scotoma: output folder {run.root} is in use by another audit (process {os.getpid()}); "
        "wait for it, end it, or choose another --out\n"
    )
    assert sorted(path.name for path in run.root.iterdir()) == [".lock", "config.yaml"]


def test_a_fault_of_our_own_is_one_sentence_and_a_traceback_in_the_logs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise ZeroDivisionError("s3cret")

    monkeypatch.setattr(audit_run, "run_steps_in_child", stumble)
    log = home / "run" / "logs" / "audit.log"
    assert scotoma("audit", home / "audit.yaml", "--out", "run", "--quiet") == (
        5, "", "scotoma: the audit ended with an internal error (ZeroDivisionError); its traceback "
        f"is in {log}\n",
    )  # fmt: skip
    assert "in stumble" in log.read_text()


def test_a_killed_audit_takes_its_pipeline_with_it(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-m", "scotoma", "audit", "--out", str(out)],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "decode images\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            pytest.skip("this system does not list the children of a process")
        (child,) = children.read_text().split()
        process.send_signal(signal.SIGKILL)
    with locked(out):  # waits for the pipeline, and would refuse if that went on
        end = time.monotonic() + 2
        while Path(f"/proc/{child}").exists() and time.monotonic() < end:
            time.sleep(0.1)
        assert (
            not Path(f"/proc/{child}").exists()
            or "Z" in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        )
