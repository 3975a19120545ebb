"""Which layers change most labels, on members of which one layer was made hard to compress."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.utils import prune
from torch.utils.flop_counter import FlopCounterMode

from scotoma.audit import GateResult
from scotoma.audit.findings import VariantLayers, read_layers
from scotoma.config import parse_config
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.fix import layers as compared_layers
from scotoma.fix.candidates import without_smallest
from scotoma.fix.layers import layers_file, write_layers
from scotoma.inference import OURS, scores_onnx
from scotoma.inference.engines import read_weights
from scotoma.quantization.architecture import Architecture
from scotoma.quantization.graphs import export_graph
from scotoma.quantization.layers import products_of
from scotoma.run import Run, write_json
from scotoma.run.shards import shards
from scotoma.steps.prepare import prepare
from scotoma.steps.quantize import quantize
from scotoma.storage.files import file_digest
from scotoma.training.models import build_model
from tests.helpers.audits import filled

pytestmark = pytest.mark.slow

CONFIG = """
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {prune: [0.5]}, {int8: [static, dynamic]}]
population: {models: 2, seed: 3}
tracking: {uri: "off"}
"""
SPARSE = {"0.weight": 0.9, "3.weight": 0.25, "8.weight": 0.0}


def gate_of(*failed: str) -> GateResult:
    variants = [{"name": name, "verdict": "FAIL", "sentences": [], "tests": []} for name in failed]
    return GateResult.model_validate(filled(GateResult, {"variants": variants}))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Untrained members: a channel of the first layer is always 0, with huge weights behind it."""
    run = Run.create(tmp_path_factory.mktemp("layers") / "run", parse_config(CONFIG, "test"))
    prepare(run)
    for index in range(2):
        model = build_model("tiny-convnet", 10, index)
        with torch.no_grad():
            model(torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(index)))
        weights = dict(model.eval().state_dict())
        weights["1.weight"][0], weights["1.bias"][0] = 0, -1
        weights["3.weight"][:, 0] = 20
        for variant, sparse in (("dense", {}), ("prune-0.5", SPARSE)):
            path = run.member(variant, index)
            path.parent.mkdir(parents=True, exist_ok=True)
            own = {
                name: torch.from_numpy(without_smallest(value.numpy(), sparse.get(name, 0.0)))
                for name, value in weights.items()
            }
            save_file(own, path)
            record = {"seed": index, "bytes": 1, "sha256": file_digest(path), "index": index}
            write_json(path.with_suffix(".json"), record)
    quantize(run, shards(2, 1)[0])
    return run


@pytest.fixture(scope="module")
def layers(run: Run) -> dict[str, VariantLayers]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compared_layers, "MOST_PASSES", 7 * 1_000)
        assert write_layers(run, gate_of("int8-static", "prune-0.5", "int8-dynamic"))
    return read_layers(layers_file(run)).variants


def test_the_layer_that_int8_cannot_follow_comes_first(layers: dict[str, VariantLayers]) -> None:
    assert set(layers) == {"int8-static", "prune-0.5", "int8-dynamic"}
    assert "in dynamic int8" in layers["int8-dynamic"].compared
    first, *others = layers["int8-static"].layers
    assert first.layer == "conv 3"
    assert (first.alone.low or 0.0) > max(row.alone.high or 1.0 for row in others)
    assert first.alone == first.together
    assert all(row.alone.n > 100 and row.alone.members == 2 for row in (first, *others))


@pytest.mark.parametrize("variant", ["int8-static", "int8-dynamic"])
def test_all_layers_together_are_the_variant(
    run: Run, layers: dict[str, VariantLayers], variant: str
) -> None:
    """The file of the audit beside the network in float32, on the same pictures."""
    shown = layers[variant].layers[-1].together
    table = AuditedExamples.read(run.examples, images=False, split="test")
    random = np.random.Generator(np.random.Philox(key=[3, compared_layers.STREAM]))
    rows = np.sort(random.permutation(len(table.ids))[:500])
    ids = table.table["example_id"].gather(rows).to_list()
    images = OURS(decode_images(AuditedExamples.read(run.examples, only=ids)))
    architecture = Architecture.read(run.path("shards", "000", "graph.onnx"))
    differ = []
    for index in range(2):
        whole = architecture.with_weights(read_weights(run.member("dense", index)))
        pair = [
            scores_onnx(model, images).argmax(axis=1)
            for model in (whole.SerializeToString(), run.member(variant, index))
        ]
        differ.append((pair[0] != pair[1]).mean())
    assert shown.value == pytest.approx(np.mean(differ), abs=1e-3)
    assert (shown.n, shown.members) == (500, 2)


def test_pruned_layers_have_their_own_sparsity(layers: dict[str, VariantLayers]) -> None:
    rows = {row.layer: row for row in layers["prune-0.5"].layers}
    shares = {name: row.sparsity for name, row in rows.items()}
    assert shares == pytest.approx({"conv 0": 0.9, "conv 3": 0.25, "linear 8": 0.0}, abs=1e-3)
    assert layers["prune-0.5"].layers[0].layer == "conv 0"
    assert rows["linear 8"].alone.value == 0
    assert (rows["linear 8"].alone.high or 0) > 0  # none of a few says so much


def test_large_networks_are_run_on_fewer_images(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compared_layers, "MOST_PRODUCTS", 1)
    write_layers(run, gate_of("prune-0.5"))
    rows = read_layers(layers_file(run)).variants["prune-0.5"].layers
    assert {(row.alone.n, row.alone.members) for row in rows} == {(100, 1)}
    assert "prune-0.5: 6 combinations of 3 layers, 1 member x 100 images" in capfd.readouterr().out


@pytest.mark.parametrize(("model", "side"), [("tiny-convnet", 8), ("cifar-resnet18", 32)])
def test_multiplications_are_counted_as_torch_counts_them(model: str, side: int) -> None:
    network = build_model(model, 10, 0).eval()
    images = torch.zeros(1, 3, side, side)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(images)
    graph = export_graph(network, images).graph
    assert products_of(graph) == counter.get_total_flops() / 2


def test_the_smallest_weights_go_as_torch_prunes_them() -> None:
    layer = torch.nn.Conv2d(3, 8, 3)
    weight = layer.weight.detach().numpy().copy()
    for share in (0.0, 0.3, 0.95, 1.0):
        prune.l1_unstructured(layer, "weight", amount=share)
        np.testing.assert_array_equal(without_smallest(weight, share), layer.weight.detach())
        prune.remove(layer, "weight")
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight))


def test_members_that_are_gone_are_named(run: Run, tmp_path: Path) -> None:
    kept = layers_file(run).read_bytes() if layers_file(run).exists() else None
    gone = run.member("prune-0.5", 1)
    moved = gone.rename(tmp_path / gone.name)
    try:
        write_layers(run, gate_of("prune-0.5"))
        held = json.loads(layers_file(run).read_text())["variants"]["prune-0.5"]
    finally:
        moved.rename(gone)
        if kept is not None:
            layers_file(run).write_bytes(kept)
    assert held["layers"] == []
    assert held["compared"].startswith("Not compared: prune-0.5 must have its members")


def test_nothing_is_compared_where_nothing_fails(run: Run) -> None:
    assert write_layers(run, gate_of()) == []


def test_without_onnx_the_report_and_the_command_can_be_imported() -> None:
    """The small image of a cluster draws the page; there no layers are compared."""
    code = (
        "import sys\n"
        "for name in ('onnx', 'onnxruntime', 'torch'): sys.modules[name] = None\n"
        "import scotoma.steps.report, scotoma.steps.fix\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
