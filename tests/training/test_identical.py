"""One seed for all members of a variant: what the software alone adds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.bias.fairness import NAMES
from scotoma.config import Config, parse_config
from scotoma.datasets import AuditedExamples, store_images
from scotoma.errors import ConfigError
from scotoma.run import Run, read_json
from scotoma.steps.prepare import prepare
from scotoma.storage.files import file_digest
from scotoma.training import population
from tests.helpers.commands import scotoma

AUDIT = """
source: {kind: digits-s, recipe: {steps: 10, batch_size: 16}}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
population: {models: 3, identical: true}
"""
COMMAND = """
source: {{kind: digits-s, styled: dim, model: "{model}", recipe: {{steps: 20, batch_size: 16}}}}
label: {{column: digit}}
groups: {{style: {{column: style}}}}
variants: [dense, {{prune: [0.5]}}]
tracking: {{uri: "off"}}
"""
EXTERNAL = """
source: {kind: onnx, models: m, images: i, attributes: a.csv,
         split: {column: s, train: 0, test: 1}}
label: {column: y}
variants: [dense, {onnx: [small]}]
"""


def config() -> Config:
    return parse_config(AUDIT, "test")


def test_members_of_a_variant_share_their_seed_and_on_a_processor_their_weights(
    tmp_path: Path,
) -> None:
    run = Run.create(tmp_path / "run", config())
    prepare(run)
    examples = AuditedExamples.read(run.examples).split("train")
    stored = store_images(run.examples, "train", tmp_path)
    worker = population.Trainer(run, stored, examples.labels, 10, file_digest(run.examples))
    records = []
    for variant in ("dense", "prune-0.5"):
        for index in range(3):
            worker.train(variant, [index], "loop", "test")
            records.append(read_json(run.member(variant, index).with_suffix(".json")))
    seeds = [record["seed"] for record in records]
    assert len({*seeds[:3]}) == len({*seeds[3:]}) == 1
    assert seeds[0] != seeds[3]
    weights = [record["sha256"] for record in records]
    assert len({*weights[:3]}) == len({*weights[3:]}) == 1


def test_runs_of_one_seed_are_trained_timed_and_compared_by_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("audit.yaml").write_text(COMMAND.format(model="tiny-convnet"))
    asked = ("audit", "audit.yaml", "--identical", "3", "--both-modes", "--out", "runs")
    code, out, err = scotoma(*asked, "--json")
    assert code == 0, err
    found = json.loads(out)
    modes = {"as configured": "runs", "deterministic": "runs-deterministic"}
    assert found["audits"] == modes
    assert found["different_weights"] == dict.fromkeys(modes, 1)
    assert found["published_cost"] == 17.8
    cost = found["cost"]
    assert cost["n"] == 2  # three pairs, of which the first warms up
    assert cost["low"] < cost["value"] < cost["high"]
    spreads = {(row["group"], row["metric"], row["what"]): row["value"] for row in found["rows"]}
    metrics = ["accuracy", *(f"style {name}" for name in NAMES)]
    assert {key[1] for key in spreads} == set(metrics)
    assert all(spreads[mode, one, "STDEV"] == 0 for mode in modes for one in metrics)
    for mode, place in modes.items():
        run = Run.open(place)
        assert run.config.deterministic is (mode == "deterministic")
        assert [variant.name for variant in run.config.resolved_variants] == [
            "dense",
            "int8-dynamic",
        ]
        assert set(read_json(run.path("identical.json"))["seconds"]) == {"0", "1", "2"}
        times = read_json(run.path("identical.json"))["seconds"].values()
        assert min(times) > 0
    trained = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*.safetensors")}
    assert len(trained) == 3
    code, out, err = scotoma(*asked, "--quiet")  # again: nothing is trained, the same is said
    assert code == 0, err
    text = " ".join(out.split())
    assert text.count("all have the same weights, as is expected on a CPU") == 2
    assert text.count("Nothing varies, so no interval can be estimated.") == 1
    assert "not estimable" not in text
    assert "(n = 2 pairs). Qian et al. 2021 measured +17.8% for ResNet-18 on a GPU." in text
    assert {path: path.stat().st_mtime_ns for path in trained} == trained


def test_runs_that_differ_on_a_processor_are_told_with_their_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that draws its weights from the system and not from the seed."""
    monkeypatch.chdir(tmp_path)
    Path("unseeded.py").write_text(
        "import os, torch\nfrom torch import nn\n\ndef make(classes):\n"
        "    net = nn.Sequential(nn.Flatten(), nn.Linear(192, classes))\n"
        "    draw = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), 'big'))\n"
        "    with torch.no_grad():\n"
        "        net[1].weight.copy_(torch.randn(net[1].weight.shape, generator=draw))\n"
        "    return net\n"
    )
    Path("audit.yaml").write_text(COMMAND.format(model="unseeded:make"))
    asked = ("audit", "audit.yaml", "--identical", "4", "--allow-code", "--out", "runs")
    code, out, err = scotoma(*asked)
    assert code == 0, err
    text = " ".join(out.split())
    assert (
        "4 runs as configured on cpu have 4 different sets of weights, though they ran on" in text
    )
    assert "Deterministic mode" not in text
    said = pl.read_parquet("runs/predictions/dense.parquet")["predicted"].to_numpy()
    examples = AuditedExamples.read(Run.open("runs").examples, images=False, split="test")
    right = (np.stack(list(said)) == examples.labels[:, None]).mean(axis=0)
    row = next(line.split() for line in out.splitlines() if "accuracy" in line)
    assert [float(cell) for cell in row[4:6]] == pytest.approx(
        [np.ptp(right), right.std()], abs=1e-4
    )
    assert right.std() > 0


@pytest.mark.parametrize("arguments", [(), ("--identical", "3", "--deterministic")])
def test_both_modes_are_for_identical_runs(arguments: tuple[str, ...]) -> None:
    code, out, err = scotoma("audit", "audit.yaml", "--both-modes", *arguments)
    assert (code, out) == (2, "")
    assert "--both-modes needs --identical, and no --deterministic; correct that" in err


def test_what_is_not_trained_here_has_no_identical_runs(tmp_path: Path) -> None:
    path = tmp_path / "audit.yaml"
    path.write_text(EXTERNAL)
    assert scotoma("audit", path, "--identical", "3") == (
        2, "", "scotoma: --identical trains one seed several times, and source.kind onnx trains "
        "nothing; leave it out\n",
    )  # fmt: skip


def test_models_made_elsewhere_have_no_seeds_to_share() -> None:
    text = EXTERNAL + "population: {identical: true}\n"
    with pytest.raises(ConfigError, match=r"identical is for networks .*kind is onnx"):
        parse_config(text, "test")
