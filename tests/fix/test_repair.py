"""`scotoma fix --by layers` on models in which one layer harms one group, known in advance."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from PIL import Image

from examples import planted_layer
from scotoma.audit import read_audit, read_gate
from scotoma.audit.findings import VariantLayers, read_layers
from scotoma.config import parse_config
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.errors import ConfigError, DataError
from scotoma.fix import layer_models as external
from scotoma.fix.candidates import without_smallest
from scotoma.fix.layers import layers_file, write_layers
from scotoma.fix.refusals import repairable
from scotoma.fix.repair import repair_variant
from scotoma.inference import scores_onnx
from scotoma.inference.members import labels_network
from scotoma.inference.model_process import runtime_on_demand
from scotoma.predictions import Predictions
from scotoma.run import Run
from tests.fix.test_layers import gate_of
from tests.helpers.commands import ended, scotoma, stdout_of
from tests.helpers.steps import steps_in_this_process
from tests.test_docs import ROOT, blocks

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "fix.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What docs/fix.md leaves: an audit in `shipped`, and its repair in `repaired`."""
    folder = tmp_path_factory.mktemp("planted")
    (config,) = (text for text in blocks(PAGE, "yaml") if text.startswith("# planted.yaml"))
    (folder / "planted.yaml").write_text(config)
    script, *commands = (line.partition(" #")[0] for line in blocks(PAGE, "sh")[0].splitlines())
    with steps_in_this_process(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", shlex.split(script)[1:])
        planted_layer.main()
        for command in commands:
            out = stdout_of(*shlex.split(command)[1:], "--quiet")
    (folder / "printed.txt").write_text(out)
    return folder


@pytest.fixture(scope="module")
def repaired(home: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((home / "repaired" / "fix.json").read_text())
    return content


def test_the_planted_layer_is_named_and_its_group_recovers(
    home: Path, repaired: dict[str, Any]
) -> None:
    assert "fc3" in repaired["layers"]
    assert set(repaired["layers"]) <= {"fc3", "fc4"}
    assert repaired["harm"]["group"] == "ink=faint"
    alone = {row["layer"]: row["rise"] for row in repaired["sensitivities"]}
    assert max(alone, key=lambda name: alone[name]["value"]) == "fc3"
    assert alone["fc3"]["low"] > 0.2 > 0.02 > max(alone[n]["value"] for n in alone if n != "fc3")
    before, after = (repaired["worst_group"][when] for when in ("before", "after"))
    assert before["low"] > 0.2
    assert after["high"] < 0.03
    assert (repaired["before"]["verdict"], repaired["after"]["verdict"]) == ("FAIL", "PASS")


def test_it_says_so_in_one_sentence_with_intervals_and_n(
    home: Path, repaired: dict[str, Any]
) -> None:
    printed = (home / "printed.txt").read_text()
    sentence = " ".join(printed.partition("\n\n")[0].split())
    assert sentence == repaired["sentence"]
    before, after = (repaired["worst_group"][when] for when in ("before", "after"))
    assert sentence.startswith("With minmax ranges, keeping fc3 in float32: worst group ")
    value, low, high = (
        f"{100 * after[end]:+.2f}".replace("-", "−") for end in ("value", "low", "high")
    )
    shown = f"{value if after['value'] else '0.00'} points [{low}, {high}]"
    assert f" from {100 * before['value']:+.2f} points [" in sentence
    assert f" to {shown}, ink=faint, n {after['n']}, size +" in sentence
    assert sentence.endswith(": PASS on the half that did not choose it.")
    (layer,) = (line for line in printed.splitlines() if line.startswith("fc3 "))
    row = next(row for row in repaired["sensitivities"] if row["layer"] == "fc3")
    assert f"  +{100 * row['rise']['value']:.2f} [" in layer
    assert layer.split()[-2:] == [f"{row['rise']['n']}", f"{100 * row['size']:+.1f}%"]


def test_numbers_are_those_of_the_audit_of_the_other_half(
    home: Path, repaired: dict[str, Any]
) -> None:
    audit = read_audit(home / "repaired" / "audit" / "audit.json")
    assert [one.name for one in audit.variants] == ["dense", "int8", "int8+repair"]
    gate = read_gate(home / "repaired" / "audit" / "gate.json")
    verdicts = {one.name: one.verdict for one in gate.variants}
    assert verdicts == {"int8": "FAIL", "int8+repair": "PASS"}
    for when, name in (("before", "int8"), ("after", "int8+repair")):
        known = {"group": "ink=faint", "metric": "error", "class_name": None, "what": "absolute"}
        (row,) = audit.numbers("rates", name, **known)
        own = repaired["worst_group"][when]
        assert (row.number.value, row.number.low) == (own["value"], own["low"])
    examples, judged = (
        pl.read_parquet(home / folder / "examples.parquet") for folder in ("shipped", "repaired")
    )
    chosen, other = repaired["chosen_on"], repaired["judged_on"]
    assert chosen["examples"] + other["examples"] == examples.height
    assert other["examples"] == judged.height
    rest = examples.join(judged, on="example_id", how="anti")
    assert not set(rest["cluster"]) & set(judged["cluster"])


def test_the_models_that_it_leaves_predict_what_was_judged(
    home: Path, repaired: dict[str, Any]
) -> None:
    """Run as anybody would, on the pictures themselves."""
    table = pl.read_parquet(home / "repaired" / "predictions.parquet")
    own = table.filter(pl.col("variant") == "int8+repair", pl.col("model") == "model-001")
    pixels = np.stack([np.asarray(Image.open(home / "pictures" / n)) for n in own["example_id"]])
    images = (pixels.transpose(0, 3, 1, 2) / np.float32(127.5) - 1).astype(np.float32)
    path = home / "repaired" / "populations" / "int8+repair" / "member-001.onnx"
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    (scores,) = onnxruntime.InferenceSession(path, options).run(None, {"images": images})
    same = scores.argmax(axis=1).astype(str) == own["predicted"].to_numpy()
    assert same.mean() > 0.998
    size = repaired["size"]
    assert size["after"] <= 1.25 * size["before"]
    first = path.with_name("member-000.onnx")
    assert first.stat().st_size == size["after"]
    assert (home / "shipped" / "populations" / "int8" / "member-000.onnx").stat().st_size == size[
        "before"
    ]


def test_the_models_that_it_leaves_can_be_audited(home: Path, tmp_path: Path) -> None:
    """They bear ONNX Runtime's stamps of operators that nobody needs."""
    for name in ("models", "pictures"):
        shutil.copytree(home / name, tmp_path / name)
    for path in (*home.glob("*.csv"), home / "planted.yaml"):
        shutil.copyfile(path, tmp_path / path.name)
    left = sorted((home / "repaired" / "populations" / "int8+repair").glob("*.onnx"))
    audited = sorted((tmp_path / "models" / "int8").glob("*.onnx"))
    assert len(left) == len(audited) == 2
    for own, other in zip(left, audited, strict=True):
        assert {"ai.onnx.training"} <= {one.domain for one in onnx.load(own).opset_import}
        shutil.copyfile(own, other)
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", "planted.yaml", "--out", "again", "--quiet")
    assert code == 0, err
    audit = read_audit(tmp_path / "again" / "audit.json")
    assert [one.bits for one in audit.variants] == [32, 8]
    lost = []
    for one in (read_audit(home / "shipped" / "audit.json"), audit):
        dense, int8 = (row.number.value for row in one.numbers("accuracy"))
        lost.append(dense - int8)
    assert lost[0] > 0.05 > 0.01 > lost[1]


@pytest.mark.thorough
def test_the_half_that_judges_chooses_nothing(
    home: Path, repaired: dict[str, Any], tmp_path: Path
) -> None:
    """Pictures of that half turned to noise leave the choice and its numbers as they were."""
    shutil.copytree(home / "shipped", tmp_path / "run")
    judged = set(pl.read_parquet(home / "repaired" / "examples.parquet")["example_id"])
    path = tmp_path / "run" / "examples.parquet"
    examples = AuditedExamples.read(path)
    table = examples.table
    (other,) = table.filter(~pl.col("example_id").is_in(judged))["image"].head(1).to_list()
    images = [
        other if name in judged else image
        for name, image in zip(table["example_id"], table["image"].to_list(), strict=True)
    ]
    column = pl.Series("image", images, dtype=table.schema["image"])
    AuditedExamples(
        table.with_columns(column), examples.classes, examples.attributes, examples.intersections,
        examples.notes, examples.size, examples.over_indexed,
    ).write(path)  # fmt: skip
    run = Run.open(tmp_path / "run")
    again = repair_variant(run, repairable(run, "int8"), 0.25, tmp_path / "models")
    assert again.facts["layers"] == repaired["layers"]
    assert again.facts["ranges"]["tried"] == repaired["ranges"]["tried"]
    rises = [row["rise"]["value"] for row in again.facts["sensitivities"]]
    assert rises == [row["rise"]["value"] for row in repaired["sensitivities"]]
    assert len(np.unique(again.predicted)) < 4  # one picture for all


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--variant", "in8"], "--variant must be one of int8, got 'in8'; did you mean 'int8'?"),
        (["--max-size-increase", "10"], "must be a percentage from 0%, such as 10%, got '10'"),
        (["--out", "."], "--out must be a new folder"),
    ],
)
def test_what_is_misspelt_is_one_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    monkeypatch.chdir(home)
    code, out, err = scotoma("fix", "shipped", "--by", "layers", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not (home / "shipped-int8+repair").exists()


def test_within_too_few_bytes_nothing_is_repaired(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    out = stdout_of("fix", "shipped", "--by", "layers", "--max-size-increase", "0%")
    assert out.startswith("No ranges, and no layer in float32 within 0%, lower the harm of int8:")
    assert "fc3" in out
    assert not (home / "shipped-int8+repair").exists()


TRAINED = """\
variants: [dense, {prune: [0.9], then: int8-static}, {int8: [dynamic]}, {float16: true}]
tracking: {uri: "off"}
"""


@pytest.mark.parametrize(
    ("variant", "sentence"),
    [
        ("prune-0.9", "prune-0.9 is pruned; take scotoma fix RUN --by dfr --variant prune-0.9"),
        ("float16", "got float16, which is float16; take prune-0.9+int8-static, int8-dynamic"),
        ("dense", "--variant must be one of prune-0.9, prune-0.9+int8-static, "),
    ],
)
def test_variants_that_are_not_int8_are_refused(
    tmp_path: Path, variant: str, sentence: str
) -> None:
    run = Run.create(tmp_path / "run", parse_config(TRAINED, "test"))
    assert repairable(run, None).name == "prune-0.9+int8-static"
    assert repairable(run, "int8-dynamic").mode == "dynamic"
    with pytest.raises(ConfigError) as refused:
        repairable(run, variant)
    assert sentence in str(refused.value)


def test_an_audit_without_int8_says_what_to_add(tmp_path: Path) -> None:
    config = parse_config('variants: [dense, {prune: [0.9]}]\ntracking: {uri: "off"}\n', "test")
    with pytest.raises(ConfigError, match=r"add int8: \[static\] to its variants"):
        repairable(Run.create(tmp_path / "run", config), None)


def test_predictions_alone_cannot_be_repaired(tmp_path: Path) -> None:
    text = "source: {kind: predictions, files: a, examples: b}\nlabel: {column: y}\n"
    run = Run.create(tmp_path / "run", parse_config(text, "test"))
    with pytest.raises(ConfigError, match="this audit has predictions alone"):
        repairable(run, None)


def test_external_dynamic_models_stay_dynamic(home: Path, tmp_path: Path) -> None:
    """Their layer is the same; the models that are left are read by ONNX Runtime's own names."""
    shutil.copytree(home / "shipped", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    for index in range(2):
        dense, int8 = (run.member(variant, index) for variant in ("dense", "int8"))
        quantize_dynamic(dense, int8, weight_type=QuantType.QUInt8)
    variant = repairable(run, None)
    assert variant.mode == "dynamic-per-layer"
    repaired = repair_variant(run, variant, 0.25, tmp_path / "models")
    facts = repaired.facts
    assert (facts["layers"], facts["ranges"]["before"]) == (["fc3"], "as audited")
    assert set(facts["ranges"]["tried"]) == {"as audited", "per-channel", "per-layer"}
    nodes = onnx.load(repaired.members[0]).graph.node
    assert "QuantizeLinear" not in {node.op_type for node in nodes}
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= {node.op_type for node in nodes}
    (kept,) = (one["nodes"] for one in facts["sensitivities"] if one["layer"] == "fc3")
    assert {node.op_type for node in nodes if node.name in kept} == {"MatMul", "Relu"}
    own = tmp_path / "own.onnx"
    quantize_dynamic(
        run.member("dense", 0), own, weight_type=QuantType.QUInt8, nodes_to_exclude=list(kept)
    )
    counts = [
        Counter(node.op_type for node in onnx.load(path).graph.node)["MatMulInteger"]
        for path in (own, repaired.members[0])
    ]
    assert counts == [3, 3]
    shown = compared(run)
    assert "one layer after the other in dynamic int8" in shown.compared
    assert shown.layers[0].layer == "fc3"


def compared(run: Run) -> VariantLayers:
    write_layers(run, gate_of("int8"))
    return read_layers(layers_file(run)).variants["int8"]


def test_the_page_of_external_models_names_the_layer(home: Path, tmp_path: Path) -> None:
    first, *others = read_layers(home / "shipped" / "layers.json").variants["int8"].layers
    assert first.layer == "fc3"
    assert (first.alone.low or 0.0) > 0.2 > max(row.alone.high or 1.0 for row in others)
    assert all(row.alone.n > 800 and row.alone.members == 2 for row in (first, *others))
    page = (home / "shipped" / "report.html").read_text()
    assert "Which layer did it" in page
    assert "one layer after the other in static int8, quantized again" in page


def test_external_layers_begin_at_the_dense_model_and_end_at_int8(
    home: Path, tmp_path: Path
) -> None:
    run = Run.open(home / "shipped")
    examples = AuditedExamples.read(run.examples, split="test")
    images, network = decode_images(examples)[:300], labels_network(run.config, examples)
    with runtime_on_demand() as process:
        own = external.external_layers(run, run.config.variant("int8"), network, tmp_path, process)
        own.show(images, 1)
        for name, layers, same in (("dense", (), 1.0), ("int8", range(4), 0.9)):
            said = Predictions.read(run.predictions(name)).predicted[:300, :1]
            (tried := tmp_path / f"as-{name}").mkdir()
            assert (own.predict(own.write(frozenset(layers), tried)) == said).mean() >= same


def test_layers_of_external_pruned_models_are_those_of_their_files(
    home: Path, tmp_path: Path
) -> None:
    """All layers pruned at once are the pruned file itself, which ONNX Runtime runs here."""
    shutil.copytree(home / "shipped", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    share = {"fc2.weight": 0.7, "fc4.weight": 0.2}
    for index in range(2):
        model = onnx.load(run.member("dense", index))
        for held in model.graph.initializer:
            own = without_smallest(numpy_helper.to_array(held), share.get(held.name, 0.0))
            held.CopyFrom(numpy_helper.from_array(own, held.name))
        onnx.save_model(model, run.member("int8", index))
    shown = compared(run)
    assert "pruned by magnitude" in shown.compared
    assert {row.layer: row.sparsity for row in shown.layers} == pytest.approx(
        {"fc1": 0, "fc2": 0.7, "fc3": 0, "fc4": 0.2}, abs=0.03
    )
    table = AuditedExamples.read(run.examples, split="test")
    images = decode_images(table).astype(np.float32) / np.float32(127.5) - 1
    differ = [
        np.not_equal(
            *(scores_onnx(run.member(name, k), images).argmax(1) for name in ("dense", "int8"))
        ).mean()
        for k in range(2)
    ]
    assert shown.layers[-1].together.value == pytest.approx(np.mean(differ), abs=0.01)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("dense", "models of int8 must be int8 or pruned, got neither a quantized node nor"),
        ("cut", "Not compared: ONNX Runtime must compress the layers of int8/"),
        ("large", "dense models must have at most 0 MB for 4 layers, got 0 MB; take scotoma fix"),
    ],
)
def test_why_layers_are_not_compared_is_one_line(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, sentence: str
) -> None:
    shutil.copytree(home / "shipped", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    path = run.member("int8", 0)
    if change == "dense":
        shutil.copy(run.member("dense", 0), path)
    elif change == "cut":
        path.write_bytes(path.read_bytes()[:-99])
    else:
        monkeypatch.setattr(external, "MOST_BYTES", 10)
    shown = compared(run)
    assert shown.layers == ()
    assert sentence in shown.compared
    assert "\n" not in shown.compared


def test_without_images_or_with_few_examples_it_refuses(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "shipped", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    examples = AuditedExamples.read(run.examples)
    kept = examples.table.filter(pl.col("cluster").is_in(examples.table["cluster"].unique()[:30]))
    for table, sentence in (
        (examples.table.drop("image"), "layers are chosen on images, and"),
        (kept, "each must have at least 20 clusters, got 1"),
    ):
        AuditedExamples(table, examples.classes, examples.attributes, examples.intersections).write(
            run.examples
        )
        with pytest.raises(DataError, match=sentence):
            repair_variant(run, repairable(run, None), 0.1, tmp_path / "models")


def test_evidence_of_external_models_knows_no_training_seeds(home: Path, tmp_path: Path) -> None:
    """Its manifest says in words that the models were trained elsewhere."""
    model = home / "models" / "int8" / "1.onnx"
    ended("evidence", home / "shipped", "--model", model, "--out", tmp_path)
    assert "training-seed:" not in (tmp_path / "bom.cdx.json").read_text()
    assert "- **training seeds**: not known" in (tmp_path / "dossier.md").read_text()
