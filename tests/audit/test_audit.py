"""The main job from end to end, through the command, in a size that tests can afford."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from botocore.httpsession import URLLib3Session
from safetensors.numpy import load_file

from scotoma.config import load_config
from scotoma.datasets import AuditedExamples
from scotoma.predictions import Predictions
from scotoma.storage import read_bytes, upload
from tests.faults.harness import Fault, Undisturbed, disturb, in_a_network_of_its_own
from tests.helpers.audits import accuracy
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

SMALL = """\
version: 1
project: small
source:
  kind: digits-s
  recipe: {steps: 60, batch_size: 32}
label: {column: digit}
groups:
  style: {column: style}
  exposure: {column: exposure}
  intersections: [[style, exposure]]
cluster: {column: source_id}
variants: [dense, {prune: [0.5]}, {int8: [dynamic, static]}]
population: {models: 3, seed: 1}
tracking: {uri: "off"}
"""
VARIANTS = ("dense", "prune-0.5", "int8-dynamic", "int8-static")


def audit(
    config: Path, out: Path | str, *options: str, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scotoma", "audit", str(config), "--out", str(out), *options]
    return subprocess.run([*before, *command], capture_output=True, text=True, check=False)


def audit_here(config: Path, out: Path | str, *options: str) -> tuple[int, str, str]:
    """The same command, its steps in this process."""
    with steps_in_this_process(config.parent):
        return scotoma("audit", config, "--out", out, *options)


def requests_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every request to object storage from now on, as `METHOD URL`."""
    seen: list[str] = []
    send = URLLib3Session.send

    def sending(session: Any, request: Any) -> Any:
        seen.append(f"{request.method} {request.url}")
        return send(session, request)

    monkeypatch.setattr(URLLib3Session, "send", sending)
    return seen


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def run(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audit") / "my runs" / "run"
    alone = in_a_network_of_its_own(config.with_name("tried")) if os.geteuid() == 0 else []
    done = audit(config, out, "--deterministic", before=alone)
    assert done.returncode == 0, done.stderr + (out / "logs" / "pipeline.log").read_text()
    if alone:
        assert config.with_name("tried").read_text() == "0", "packets that were to leave"
    assert done.stdout.startswith("small: 1,798 test examples (899 clusters), 3 members")
    assert str(out / "report.html") in done.stderr
    return out


def test_the_folder_holds_what_the_documentation_lists(run: Path) -> None:
    expected = {"config.yaml", "measurements.json", "examples.parquet", "divergence.parquet"}
    expected |= {"audit.json", "report.html", "tracking.json"}
    assert expected <= {path.name for path in run.iterdir()}
    for variant in VARIANTS:
        manifest = json.loads((run / "populations" / variant / "manifest.json").read_text())
        assert len(manifest["members"]) == 3
        assert all(
            (run / "populations" / variant / m["file"]).exists() for m in manifest["members"]
        )
    assert load_config(run / "config.yaml").population.models == 3


def test_nothing_half_written_stays_behind(run: Path) -> None:
    assert not [path for path in run.rglob("*") if "partial" in path.name]
    assert not (run / "error.json").exists()


@pytest.mark.thorough
def test_an_audit_that_meets_five_faults_ends_with_the_bytes_of_an_undisturbed_one(
    run: Path, config: Path, tmp_path: Path
) -> None:
    at = np.random.default_rng(7).uniform(0, 1, 5)
    faults = [
        Fault("SIGKILL", "worker", "train", at[0] / 5),  # its pool ends before its step
        Fault("SIGKILL", "parent", "prune", at[1]),
        Fault("SIGTERM", "parent", "quantize", at[2]),
        Fault("memory", "largest", "predict", at[3]),
        Fault("SIGKILL", "tree", "slices", at[4]),
    ]
    outcomes = disturb(faults, Undisturbed.of(run, config), tmp_path / "again")
    assert sum(outcome.code != 0 for outcome in outcomes) >= 3
    assert outcomes[0].hit == "worker"


def test_other_groups_are_measured_with_the_models_that_are_there(
    run: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    made = {path.name: path.read_bytes() for path in (copy / "steps").glob("*-000.json")}
    assert {"train-000.json", "prune-000.json", "quantize-000.json", "predict-000.json"} == set(
        made
    )
    renamed = tmp_path / "renamed.yaml"
    groups = SMALL[SMALL.index("  style") : SMALL.index("cluster")]
    renamed.write_text(SMALL.replace(groups, "  look: {column: style}\n").replace("small", "new"))
    code, _, err = audit_here(renamed, copy, "--deterministic")
    assert code == 0, err
    assert 'note    project is "small" there and "new" here, groups.intersections is' in err
    assert "more: measured again, with the models that are there\n" in err
    keys = [group["key"] for group in json.loads((copy / "audit.json").read_text())["groups"]]
    assert [key.partition("=")[0] for key in keys] == ["all", "look", "look"]
    assert made == {name: (copy / "steps" / name).read_bytes() for name in made}

    back = tmp_path / "small.yaml"
    back.write_text(SMALL)
    assert audit_here(back, copy, "--deterministic")[0] == 0
    assert (copy / "audit.json").read_bytes() == (run / "audit.json").read_bytes()


def test_a_flipped_bit_is_named_in_every_kind_of_file(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    own = (path for path in sorted(copy.rglob("*")) if path.parent.name != "logs")
    kinds = {path.suffix: path for path in own if path.is_file() and path.suffix}
    assert set(kinds) == {
        ".json", ".parquet", ".safetensors", ".onnx", ".html", ".yaml", ".md", ".xml", ".csv",
    }  # fmt: skip
    for path in kinds.values():
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        found = scotoma("verify", copy, "--quiet")
        assert found[:2] == (4, f"damaged  {path.relative_to(copy).as_posix()}\n")
        path.write_bytes(content)
    assert scotoma("verify", copy, "--quiet") == (0, "", "")


def test_a_finished_run_is_taken_up_without_doing_anything_again(run: Path, config: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (run / "populations").rglob("member*")}
    code, out, err = audit_here(config, run, "--deterministic", "--json")
    assert code == 0, err
    assert out == (run / "audit.json").read_text()
    assert before == {p: p.stat().st_mtime_ns for p in (run / "populations").rglob("member*")}


def test_accuracy_in_the_report_is_that_of_the_predictions(run: Path) -> None:
    audit = json.loads((run / "audit.json").read_text())
    examples = AuditedExamples.read(run / "examples.parquet").split("test")
    for variant in VARIANTS:
        predictions = Predictions.read(run / "predictions" / f"{variant}.parquet")
        assert list(predictions.example_ids) == examples.ids
        correct = predictions.predicted == examples.labels[:, None]
        found = accuracy(audit, variant)
        assert found["top1"]["value"] == pytest.approx(correct.mean(), abs=1e-12)
        assert found["top1"]["n"] == 899
        np.testing.assert_allclose(found["members"], correct.mean(axis=0))
        assert found["top1"]["value"] > 0.5  # chance is 0.1


def test_pruned_members_have_their_zeros_and_int8_members_name_their_dense_one(run: Path) -> None:
    weights = load_file(run / "populations" / "prune-0.5" / "member-000.safetensors")
    convolution = weights["3.weight"]
    assert (convolution == 0).sum() == convolution.size // 2
    dense = json.loads((run / "populations" / "dense" / "manifest.json").read_text())
    int8 = json.loads((run / "populations" / "int8-static" / "manifest.json").read_text())
    for mine, theirs in zip(int8["members"], dense["members"], strict=True):
        assert mine["paired_with"] == {"variant": "dense", "sha256": theirs["sha256"]}
        assert mine["seed"] == theirs["seed"]
    pruned = json.loads((run / "populations" / "prune-0.5" / "manifest.json").read_text())
    seeds = {m["seed"] for m in pruned["members"]} & {m["seed"] for m in dense["members"]}
    assert not seeds, "pruned members are independent of the dense ones"


def test_every_number_shown_has_its_n_and_its_interval_or_a_reason(run: Path) -> None:
    found = json.loads((run / "audit.json").read_text())

    def estimates(value: object):
        if isinstance(value, dict):
            if {"value", "low", "high", "n"} <= value.keys():
                yield value
            else:
                for item in value.values():
                    yield from estimates(item)
        elif isinstance(value, list):
            for item in value:
                yield from estimates(item)

    seen = list(estimates(found))
    assert len(seen) > 500
    for estimate in seen:
        assert isinstance(estimate["n"], int)
        if None in (estimate["value"], estimate["low"], estimate["high"]):
            assert estimate["reason"] or estimate["note"], estimate


def test_divergence_scores_are_those_of_the_predictions(run: Path) -> None:
    table = pl.read_parquet(run / "divergence.parquet").filter(pl.col("variant") == "prune-0.5")
    dense = Predictions.read(run / "predictions" / "dense.parquet").predicted
    pruned = Predictions.read(run / "predictions" / "prune-0.5.parquet").predicted
    # Slow twin: the taxicab distance in the paper's letters, one example at a time.
    for x in range(0, len(dense), 17):
        b, v = (np.bincount(rows[x], minlength=10) for rows in (dense, pruned))
        assert table["taxicab"][x] == np.abs(b - v).sum()
        assert table["cie"][x] == (b.argmax() != v.argmax())


def test_nothing_in_the_audit_names_a_path_or_a_time(run: Path) -> None:
    text = (run / "audit.json").read_text()
    assert str(run) not in text
    assert "/tmp" not in text
    assert "time_s" not in text


@pytest.mark.thorough
def test_a_run_in_object_storage_has_the_same_bytes_and_is_taken_up_by_another_machine(
    run: Path, config: Path, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = s3.uri("runs", "small")
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "first machine"))
    code, _, err = audit_here(config, place, "--deterministic")
    assert code == 0, err
    (copy,) = (tmp_path / "first machine" / "runs").iterdir()
    assert err.endswith(f"\nreport  {place}/report.html\ncopy    {copy / 'report.html'}\n")
    names = ["audit.json", "report.html", "divergence.parquet", "examples.parquet"]
    names += [f"predictions/{variant}.parquet" for variant in VARIANTS]
    for name in names:
        assert read_bytes(f"{place}/{name}") == (run / name).read_bytes(), name
    sent = {name.removeprefix("runs/small/") for name in s3.names()}
    here = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert sent == here - {".lock", ".etags", "logs/pipeline.log"}

    requests = requests_sent(monkeypatch)
    assert (
        audit_here(config, place, "--deterministic", "--json")[1]
        == (run / "audit.json").read_text()
    )
    assert sum("list-type=2" in request for request in requests) <= 10
    assert len(requests) <= 20, requests  # whatever the number of models

    # Another machine, on which the first was killed when its last member was trained.
    for name in sent:
        if not name.startswith(("populations/dense/mem", "populations/prune", "steps/tr")):
            s3.client.delete_object(Bucket=s3.bucket, Key=f"runs/small/{name}")
    s3.client.delete_object(Bucket=s3.bucket, Key="runs/small/steps/train-000.json")
    upload(copy / "config.yaml", f"{place}/config.yaml")
    members = [name for name in s3.names() if "member-" in name]
    before = {name: s3.client.head_object(Bucket=s3.bucket, Key=name) for name in members}
    assert len(members) == 12
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "second machine"))
    code, out, err = audit_here(config, place, "--deterministic", "--json")
    assert code == 0, err
    assert "train" not in err
    assert out == (run / "audit.json").read_text()
    for name, head in before.items():
        found = s3.client.head_object(Bucket=s3.bucket, Key=name)
        assert found["LastModified"] == head["LastModified"], name
