"""`scotoma fix` on predictions with scores, and on members that are run again."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from scotoma.audit import read_audit
from scotoma.config import parse_config
from scotoma.datasets import AuditedExamples
from scotoma.document.text import document_text
from scotoma.errors import ConfigError, DataError
from scotoma.fix.before_after import Fixed
from scotoma.fix.outputs import member_outputs
from scotoma.fix.rules import apply_technique
from scotoma.mitigation import decide
from scotoma.predictions import Predictions
from scotoma.predictions.external import read_score_lists
from scotoma.run import Run, write_json
from scotoma.run.shards import shards
from scotoma.steps.fix import rules_document
from scotoma.steps.predict import predict
from scotoma.steps.prepare import prepare
from scotoma.steps.quantize import quantize
from scotoma.storage.files import file_digest
from scotoma.training.models import build_model
from tests.helpers.commands import measured, scotoma
from tests.helpers.external_predictions import audited
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

CONFIG = """\
project: loans
source: {kind: predictions, files: preds.parquet, examples: examples.csv}
label: {column: label, positive: paid}
groups: {sex: {column: sex}, region: {column: region}}
keep_scores: true
tracking: {uri: "off"}
"""


def loans(home: Path, n: int = 800, models: int = 6) -> Path:
    """Scores of int8 are shifted against women, who are then refused too often."""
    rng = np.random.default_rng(1)
    ids = [f"r{i}" for i in range(n)]
    y, woman = rng.integers(2, size=n), rng.integers(2, size=n)
    examples = pl.DataFrame(
        {
            "example_id": ids,
            "label": np.where(y == 1, "paid", "lost").tolist(),
            "sex": np.where(woman == 1, "f", "m").tolist(),
            "region": rng.choice(["n", "s"], n).tolist(),
        }
    )
    examples.write_csv(home / "examples.csv")
    parts = []
    for variant, shift in {"dense": 0.0, "int8": 2.0}.items():
        for model in range(models):
            s = 3 * (2 * y - 1) + rng.normal(size=n) * 1.5 - shift * woman
            p = 1 / (1 + np.exp(-s))
            parts.append(
                pl.DataFrame(
                    {
                        "example_id": ids,
                        "variant": variant,
                        "model": f"m{model}",
                        "predicted": np.where(s > 0, "paid", "lost").tolist(),
                        "score": np.where(s > 0, p, 1 - p).tolist(),
                    }
                )
            )
    pl.concat(parts).write_parquet(home / "preds.parquet")
    return home


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = loans(tmp_path_factory.mktemp("loans"))
    before = Path.cwd()
    os.chdir(home)
    try:
        return audited(home, CONFIG)
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def mended(run: Run) -> Fixed:
    return apply_technique(run, "offsets", "int8", "sex", together=2)


def test_offsets_mend_what_a_shift_of_one_group_broke(run: Run, tmp_path: Path) -> None:
    files = {p: file_digest(p) for p in sorted(run.root.rglob("*")) if p.is_file()}
    with steps_in_this_process(tmp_path):  # the new folder is named from there
        found = measured(
            "fix", run.root, "--by", "offsets", "--attribute", "sex", "--out", "fair/er"
        )
    assert found["mitigated"] == "int8+offsets"
    assert found["needs"]["attributes"] == "each example"
    assert found["fitted_on"]["examples"] + found["judged_on"]["examples"] == 800
    assert abs(found["fitted_on"]["examples"] - 400) <= 1
    before, after = found["before"], found["after"]
    assert before["worst_rise"]["group"] == "sex=f"
    assert before["worst_rise"]["low"] > 0.05 > after["worst_rise"]["value"]
    assert after["accuracy"]["low"] > before["accuracy"]["value"]
    assert (before["verdict"], after["verdict"]) == ("FAIL", "UNSURE")  # 6 models

    assert {p: file_digest(p) for p in sorted(run.root.rglob("*")) if p.is_file()} == files

    folder = tmp_path / "fair" / "er"
    assert json.loads((folder / "fix.json").read_text()) == found
    audit = read_audit(folder / "audit" / "audit.json")
    assert [variant.name for variant in audit.variants] == ["dense", "int8", "int8+offsets"]
    assert audit.examples.test == found["judged_on"]["examples"]
    assert scotoma("verify", folder / "audit")[0] == 0
    rules = json.loads((folder / "rules.json").read_text())
    again = [decide.read_rule(json.dumps(rule)) for rule in rules]
    assert len(again) == 6
    # the shift of two logits against women (sex=f is group 0), in their sharper scores
    assert all(rule.offsets[0][1] - rule.offsets[1][1] > 0.3 for rule in again)  # type: ignore[attr-defined]
    code, out, _ = scotoma("fix", run.root, "--by", "offsets", "--out", folder)
    assert (code, out) == (2, "")  # a folder is never written twice


def test_csv_is_the_table_of_both(run: Run, tmp_path: Path) -> None:
    asked = ("--by", "offsets", "--attribute", "sex", "--out", tmp_path / "new")
    code, out, err = scotoma("fix", run.root, *asked, "--csv")
    assert code == 0, err
    found = json.loads((tmp_path / "new" / "fix.json").read_text())
    rows = pl.read_csv(io.StringIO(out)).to_dicts()
    assert [row["variant"] for row in rows] == ["int8", "int8+offsets"]
    for row, side in zip(rows, (found["before"], found["after"]), strict=True):
        assert row["verdict"] == side["verdict"]
        assert row["accuracy"] == pytest.approx(side["accuracy"]["value"])


def test_the_table_says_needs_sizes_and_both_verdicts() -> None:
    change = {"group": "all", "value": 0.9, "low": 0.85, "high": 0.94, "n": 400, "reason": ""}
    side = {"verdict": "FAIL", "because": ["error f +9%"], "accuracy": change}
    side |= {
        "worst_error": change | {"group": "sex=f"},
        "worst_rise": change | {"value": None, "reason": "no group has enough events"},
    }
    content = {
        "technique": "offsets",
        "variant": "int8",
        "mitigated": "int8+offsets",
        "attribute": "sex",
        "needs": {"sentence": "It needs."},
        "fitted_on": {"examples": 1000, "clusters": 500},
        "judged_on": {"examples": 998, "clusters": 499},
        "before": side,
        "after": side | {"verdict": "PASS", "because": []},
    }
    assert (
        document_text(rules_document(content))
        == """\
offsets by sex: It needs.

Fitted on 1,000 test examples (500 clusters), judged on the other 998 (499
  clusters).
Highest error and largest rise: of any group; rises are points beside dense.
variant       verdict    accuracy    n  highest error  largest rise
int8          FAIL     90.0% ±5.0  400     90.0% ±5.0     undefined
    highest error: sex=f, n 400; no group has enough events
int8+offsets  PASS     90.0% ±5.0  400     90.0% ±5.0     undefined
    highest error: sex=f, n 400; no group has enough events

int8: error f +9%"""
    )


@pytest.mark.parametrize("technique", ["thresholds", "offsets"])
def test_rules_fitted_on_one_half_hold_on_the_other(
    run: Run, mended: Fixed, technique: str
) -> None:
    mitigated = mended
    if technique != mended.facts["technique"]:
        mitigated = apply_technique(run, technique, "int8", "sex", together=2)
    examples = AuditedExamples.read(run.examples, split="test").keep(mitigated.judged)
    right = mitigated.predicted == examples.labels[:, None]
    women = (examples.table["sex"] == "f").to_numpy()
    paid = examples.labels == examples.classes.index("paid")
    gap = [right[paid & who].mean() for who in (women, ~women)]
    assert abs(gap[0] - gap[1]) < 0.05  # int8 itself: 0.2


def test_every_technique_is_judged_on_the_same_half(run: Run, mended: Fixed) -> None:
    asked = [("thresholds", "region"), ("ensemble", None)]
    halves = [apply_technique(run, t, "int8", a, together=2).judged for t, a in asked]
    assert all((half == mended.judged).all() for half in halves)


def test_the_judging_half_does_not_decide_the_rules(run: Run, mended: Fixed) -> None:
    """Labels that are wrong on the judging half alone leave every rule as it was."""
    one = mended
    examples = AuditedExamples.read(run.examples, split="test")
    same_strata = examples.table.with_columns(
        pl.when(pl.Series(one.judged)).then(pl.lit("lost")).otherwise("label").alias("label")
    )
    fitted = {}
    for name, table in {"as they are": examples.table, "wrong": same_strata}.items():
        labels = table["label"].cast(pl.Enum(examples.classes)).to_physical().to_numpy()
        group = (table["sex"] == "m").to_numpy().astype(int)
        scores = member_outputs(run, "int8", features=False)[0]
        rows = ~one.judged
        fitted[name] = decide.fit("offsets", scores[rows], labels[rows], group[rows])
    assert fitted["as they are"] == fitted["wrong"] == one.rules[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--by", "dfr"], "--attribute must name one of sex, region; several by commas"),
        (["--by", "dfr", "--attribute", "sex"], "dfr needs the last layer's inputs"),
        (["--by", "drf"], "--by should be 'dfr', 'thresholds'"),
        (["--by", "offsets", "--attribute", "age"], "got 'age'"),
        (["--by", "offsets", "--variant", "dense"], "--variant must be one of"),
        (["--by", "ensemble", "--together", "9"], "number of members, 6, got 9"),
    ],
)
def test_what_a_technique_lacks_is_one_sentence(
    run: Run, tmp_path: Path, options: list[str], sentence: str
) -> None:
    code, out, err = scotoma("fix", run.root, *options, "--out", tmp_path / "new")
    assert code in (2, 4)
    assert (out, err.count("\n")) == ("", 1)
    assert sentence in err
    assert not (tmp_path / "new").exists()


def test_a_list_of_scores_gives_rules_what_one_score_gives_them(run: Run, tmp_path: Path) -> None:
    """Probabilities in lists, of two classes: the same margins, but for float16."""
    home = Path(str(run.config.source.examples)).parent  # type: ignore[union-attr]
    paid = pl.when(pl.col("predicted") == "paid").then("score").otherwise(1 - pl.col("score"))
    table = pl.read_parquet(home / "preds.parquet").with_columns(
        scores=pl.concat_list(1 - paid, paid)
    )
    table.drop("score").write_parquet(tmp_path / "lists.parquet")
    text = CONFIG.replace("preds.parquet", str(tmp_path / "lists.parquet"))
    text = text.replace("examples.csv", str(home / "examples.csv")).replace(": true", ": full")
    own = Run.create(tmp_path / "run", parse_config(text, "test").completed())
    prepare(own)
    one, lists = (member_outputs(each, "int8", features=False) for each in (run, own))
    margins = [np.diff(each)[..., 0].clip(-5, 5) for each in (one, lists)]
    np.testing.assert_allclose(*margins, atol=0.05)
    kept = [Predictions.read(each.predictions("int8")).scores for each in (run, own)]
    np.testing.assert_allclose(*kept, atol=1e-3)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("scores", "got"),
    [
        ([0.5, 0.25, 0.25], "got [0.5, 0.25, 0.25] of example 'a' (2 such rows)"),
        ([0.25, 0.75], "the highest that of the predicted class, got [0.25, 0.75]"),
        ([0.5, np.nan], "finite numbers"),
        ("no list", "got no list of example 'a'"),
    ],
)
def test_lists_of_scores_that_do_not_fit_are_one_sentence(scores: Any, got: str) -> None:
    frame = pl.DataFrame({"example_id": ["a", "b"], "scores": [scores, scores]})
    with pytest.raises(DataError) as caught:
        read_score_lists(frame, np.array([0, 0]), 2, "preds.csv")
    assert got in str(caught.value)
    assert str(caught.value).startswith("scores in preds.csv must list 2 finite numbers")


# --- members that are run again -------------------------------------------------------------------

TRAINED = """
label: {column: digit}
groups: {style: {column: style}}
variants:
  - dense
  - int8: [static, dynamic]
  - {int8: [static], calibration: group-balanced}
  - float16: true
population: {models: 2, seed: 3}
tracking: {uri: "off"}
"""
VARIANTS = ["dense", "int8-static", "int8-dynamic", "int8-static-group-balanced", "float16"]
(SHARD,) = shards(2, 1)


def untrained(place: Path, text: str, classes: int) -> Run:
    """Members that nothing has trained, compressed and run by the steps."""
    run = Run.create(place, parse_config(text, "test"))
    prepare(run)
    for index in SHARD.members:
        model = build_model("tiny-convnet", classes, index)
        with torch.no_grad():
            model(torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(index)))
        path = run.member("dense", index)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(model.eval().state_dict()), path)
        record = {"seed": index, "bytes": 1, "sha256": file_digest(path), "index": index}
        write_json(path.with_suffix(".json"), record)
    quantize(run, SHARD)
    predict(run, SHARD)
    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return untrained(tmp_path_factory.mktemp("trained") / "run", TRAINED, classes=10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_scores_are_those_that_the_audit_decided_on(trained: Run, variant: str) -> None:
    predicted = Predictions.read(trained.predictions(variant, 0)).predicted
    scores = member_outputs(trained, variant, features=False)
    assert (predicted == scores.argmax(axis=2).T).all()


@pytest.mark.parametrize(("variant", "apart"), [("dense", 1e-4), ("float16", 2e-2)])
def test_dfr_with_the_dense_head_is_the_member(trained: Run, variant: str, apart: float) -> None:
    """What the probe of a graph calls features are the inputs of the last layer."""
    features = member_outputs(trained, variant, features=True)
    scores = member_outputs(trained, variant, features=False)
    for index in SHARD.members:
        weights = load_file(trained.member("dense", index))
        head = [name for name, value in weights.items() if value.ndim == 2][-1]
        bias = weights[head.replace("weight", "bias")].numpy()
        rule = decide.LastLayer.of(weights[head].numpy(), bias)
        np.testing.assert_allclose(rule.scores(features[index]), scores[index], atol=apart)


@pytest.mark.parametrize("variant", ["int8-static", "int8-dynamic"])
def test_features_of_quantized_members_are_near_the_dense_ones(trained: Run, variant: str) -> None:
    dense = member_outputs(trained, "dense", features=True)
    own = member_outputs(trained, variant, features=True)
    assert own.shape == dense.shape
    assert np.corrcoef(own.ravel(), dense.ravel())[0, 1] > 0.9


def test_dfr_gives_untrained_members_a_head_that_knows_digits(trained: Run) -> None:
    mitigated = apply_technique(trained, "dfr", "int8-static", None, together=2)
    examples = AuditedExamples.read(trained.examples, images=False, split="test").keep(
        mitigated.judged
    )
    right = (mitigated.predicted == examples.labels[:, None]).mean()
    assert mitigated.name == "int8-static+dfr"
    assert mitigated.paired
    assert right > 0.7  # random features; without a fitted head 0.1


def test_two_classes_are_asked_for_before_anything_runs(trained: Run) -> None:
    with pytest.raises(ConfigError, match="this audit has 10; take --by offsets"):
        apply_technique(trained, "thresholds", "int8-static", None, together=2)


def test_heads_of_groups_keep_their_own_rule(trained: Run) -> None:
    config = parse_config(f"{TRAINED}mitigation: {{technique: DI2, attribute: style}}", "test")
    with pytest.raises(ConfigError, match="members trained with DI2 have a head a group"):
        apply_technique(replace(trained, config=config), "dfr", "int8-static", None, together=2)


def test_members_that_are_gone_are_named(trained: Run, tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(trained.root, tmp_path / "run")
    (copy / "populations" / "float16" / "member-001.onnx").unlink()
    with pytest.raises(DataError, match=r"float16 must have its members .* got no member-001.onnx"):
        member_outputs(Run.open(copy), "float16", features=False)


def test_balanced_calibration_is_due_again_when_groups_change(trained: Run) -> None:
    from scotoma.inference.members import calibration_digest

    every: dict[str, Any] = {v.name: v for v in trained.config.resolved_variants}
    plain = calibration_digest(trained, [every["int8-static"]])
    balanced = calibration_digest(trained, [every["int8-static-group-balanced"]])
    assert balanced.startswith(plain)
    assert len(balanced) == 2 * len(plain) > 0


# --- ONNX models whose every score was kept ------------------------------------------------------


def test_onnx_models_decide_by_every_score_that_the_audit_kept(
    trained: Run, tmp_path: Path
) -> None:
    """Ten classes: the kept scores are the models' own, whatever the order of the files."""
    from scotoma.predictions.scores import ScoreHeads, write_scores
    from scotoma.sources.onnx import OnnxSource

    examples = AuditedExamples.read(trained.examples, images=False, split="test")
    source = OnnxSource(kind="onnx", models="models", images="pictures", attributes="table.csv")
    update = {"source": source, "keep_scores": "full"}
    run = replace(trained, root=tmp_path, config=trained.config.model_copy(update=update))
    run.examples.write_bytes(trained.examples.read_bytes())
    own = member_outputs(trained, "int8-static", features=False)
    for member, scores in enumerate(own):
        heads = ScoreHeads("int8-static", member, examples.classes)
        path = run.scores("int8-static", member)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_scores(path, [(examples.ids, scores)], heads)
    assert (member_outputs(run, "int8-static", features=False) == own).all()
    mitigated = apply_technique(run, "offsets", "int8-static", None, together=2)
    assert mitigated.predicted.shape == (int(mitigated.judged.sum()), 2)
    run.scores("int8-static", 1).unlink()
    with pytest.raises(DataError, match=r"must have its scores, got no member-001.parquet"):
        member_outputs(run, "int8-static", features=False)


def test_onnx_models_get_a_new_last_layer_on_features_of_their_own(
    trained: Run, tmp_path: Path
) -> None:
    """In a process apart, the members' files give the features that they give here."""
    import shutil

    from scotoma.inference import Preprocessing
    from scotoma.sources.onnx import OnnxSource

    ready = Preprocessing()
    source = OnnxSource.model_validate(
        {"kind": "onnx", "models": "models", "images": "pictures", "attributes": "table.csv",
         "preprocessing": {"scale": ready.scale, "mean": list(ready.mean), "std": list(ready.std)}}
    )  # fmt: skip
    run = replace(
        trained, root=tmp_path, config=trained.config.model_copy(update={"source": source})
    )
    shutil.copytree(trained.member("int8-static", 0).parent, run.member("int8-static", 0).parent)
    run.examples.write_bytes(trained.examples.read_bytes())
    own = member_outputs(trained, "int8-static", features=True)
    assert (member_outputs(run, "int8-static", features=True) == own).all()
