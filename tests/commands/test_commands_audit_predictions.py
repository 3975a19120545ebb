"""`scotoma audit` of predictions: the commonest audits, through the command, to their verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from scotoma.run import read_json
from tests.helpers.audits import addresses
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

CONFIG = """\
project: elsewhere
source:
  kind: predictions
  files: preds/{variant}/{model}.csv
  examples: examples.csv
label: {column: label}
tracking: {uri: "off"}
"""
CLASSES = np.array(["bird", "cat", "dog"])


def write(
    home: Path,
    dense: int,
    compressed: int,
    *,
    flips: float,
    n: int = 3000,
    extra: str = "",
    classes: Any = CLASSES,
) -> None:
    """Dense models that err on 10%, and copies of them that answer anew on a share of examples."""
    rng = np.random.default_rng(3)
    ids = [f"e{place}" for place in range(n)]
    label = rng.choice(classes, n)
    sex = rng.choice(["m", "f"], n)
    pl.DataFrame({"example_id": ids, "label": label, "sex": sex}).write_csv(home / "examples.csv")
    models = []
    for place in range(dense):
        models.append(np.where(rng.random(n) < 0.1, rng.choice(classes, n), label))
        _write_model(home / "preds" / "dense" / f"m{place}.csv", ids, models[-1])
    for place in range(compressed):
        anew = np.where(rng.random(n) < flips, rng.choice(classes, n), models[place])
        _write_model(home / "preds" / "int8" / f"m{place}.csv", ids, anew)
    (home / "audit.yaml").write_text(CONFIG + extra)


def _write_model(path: Path, ids: list[str], predicted: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"example_id": ids, "predicted": predicted}).write_csv(path)


def audited(home: Path, *options: str) -> tuple[int, dict[str, Any]]:
    with steps_in_this_process(home):
        code, _, err = scotoma("audit", "audit.yaml", "--out", "run", "--gate", *options)
    assert (home / "run" / "gate.json").exists(), err
    return code, read_json(home / "run" / "gate.json")


PAIRED = "variants: [dense, {predictions: [int8], paired: true}]\n"


@pytest.mark.parametrize("groups", ["", "groups: {sex: {column: sex}}\n"])
@pytest.mark.parametrize("paired", ["", PAIRED])
def test_one_model_and_its_identical_copy_pass(tmp_path: Path, groups: str, paired: str) -> None:
    """Nothing flips and, without groups, the rates of all examples are asked: PASS, not UNSURE."""
    write(tmp_path, 1, 1, flips=0, extra=groups + paired)
    code, gate = audited(tmp_path)
    assert (code, gate["verdict"], gate["scope"]) == (0, "PASS", "shipped")
    (variant,) = gate["variants"]
    over = "error_groups" if groups else "error_all"
    assert [rule["id"] for rule in gate["rules"]["rules"]] == [over, "classes"]
    assert {test["verdict"] for test in variant["tests"]} == {"PASS"}
    for test in variant["tests"]:
        assert test["absolute"]["value"] == 0
        assert 0 < test["absolute"]["high"] < test["margins"]["clearing"]


def test_rates_of_five_models_and_their_identical_copies_pass(tmp_path: Path) -> None:
    write(tmp_path, 5, 5, flips=0, extra=PAIRED)
    code, gate = audited(tmp_path)
    assert (code, gate["scope"]) == (0, "population")
    assert [rule["id"] for rule in gate["rules"]["rules"]] == ["error_all", "cie", "classes"]
    (variant,) = gate["variants"]
    rates = [test for test in variant["tests"] if test["rule"] != "cie"]
    assert {test["verdict"] for test in rates} == {"PASS"}


@pytest.mark.parametrize(("flips", "verdict", "code"), [(0.0, "PASS", 0), (0.3, "FAIL", 1)])
def test_three_dense_models_and_one_compressed_are_judged(
    tmp_path: Path, flips: float, verdict: str, code: int
) -> None:
    write(tmp_path, 3, 1, flips=flips, n=12_000)
    ended, gate = audited(tmp_path)
    assert (ended, gate["verdict"]) == (code, verdict)
    assert (gate["scope"], gate["variants"][0]["members"]) == ("shipped", 1)
    audit = read_json(tmp_path / "run" / "audit.json")
    assert {v["name"]: v["members"] for v in audit["variants"]} == {"dense": 3, "int8": 1}


def test_a_misspelt_group_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    write(tmp_path, 1, 1, flips=0.01, extra="groups: {sex: {column: sex}}\n")
    rule = "{id: e, metric: error, max_increase: {absolute: 0.01}}"
    (tmp_path / "gate.yaml").write_text(f"must: [sexx]\nrules: [{rule}]\n")
    with steps_in_this_process(tmp_path):
        code, out, err = scotoma("audit", "audit.yaml", "--out", "run", "--rules", "gate.yaml")
    assert (code, out) == (4, "")
    sentence = "must names 'sexx', which no test example has; did you mean 'sex'?"
    assert err.splitlines()[-1].endswith(sentence)
    assert not (tmp_path / "run" / "audit.json").exists()
    assert not list((tmp_path / "run").rglob("bias*"))


def test_metrics_of_the_labels_are_of_the_training_table(tmp_path: Path) -> None:
    """KL and TVD of two facets, counted by hand; the test examples stand beside them."""
    write(tmp_path, 1, 1, flips=0.01, extra="groups: {sex: {column: sex}}\n")
    config = (tmp_path / "audit.yaml").read_text()
    named = config.replace("  examples:", "  training: trained.csv\n  examples:")
    (tmp_path / "audit.yaml").write_text(named)
    men, women = ["cat"] * 30 + ["dog"] * 10, ["cat"] * 5 + ["dog"] * 15
    rows = {"label": men + women, "sex": ["m"] * 40 + ["f"] * 20}
    pl.DataFrame(rows).write_csv(tmp_path / "trained.csv")
    audited(tmp_path)
    audit = read_json(tmp_path / "run" / "audit.json")
    assert (audit["examples"]["train"], audit["examples"]["test"]) == (60, 3000)
    data = [at for at in addresses(audit, "clarify") if "labels" in at]
    found = {(at["split"], at["metric"]): at["labels"]["number"] for at in data}
    assert {at["disadvantaged"] for at in data} == {"sex=f"}
    assert (found["training", "TVD"]["value"], found["training", "TVD"]["n"]) == (0.5, 60)
    kl = 0.75 * np.log(0.75 / 0.25) + 0.25 * np.log(0.25 / 0.75)
    assert found["training", "KL"]["value"] == pytest.approx(kl)
    assert found["test", "TVD"]["n"] == 3000
    (tmp_path / "trained.csv").write_text("label\ncat\ndog\n")
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", "audit.yaml", "--out", "other")
    assert code == 4
    assert "groups.sex column 'sex' is not in " in err


def test_the_spread_of_many_classes_is_judged_and_written_down(tmp_path: Path) -> None:
    write(tmp_path, 5, 5, flips=0.1, classes=np.array([f"c{place:02d}" for place in range(25)]))
    _, gate = audited(tmp_path)
    (variant,) = gate["variants"]
    (spread,) = [t for t in variant["tests"] if t["where"].startswith("spread of the recall")]
    assert 0 <= spread["absolute"]["low"] <= spread["absolute"]["value"]
    assert spread["absolute"]["scale"] == "q-profile"


def test_training_runs_are_compared_in_fairness_as_scipy_compares_them(tmp_path: Path) -> None:
    write(tmp_path, 6, 6, flips=0.2, extra="groups: {sex: {column: sex}}\n")
    with_positive = CONFIG.replace("{column: label}", "{column: label, positive: cat}")
    config = (tmp_path / "audit.yaml").read_text().replace(CONFIG, with_positive)
    (tmp_path / "audit.yaml").write_text(config)
    audited(tmp_path)
    audit = read_json(tmp_path / "run" / "audit.json")
    dense, int8 = addresses(audit, "fairness", metric="DP")
    assert (dense["variant"], int8["variant"]) == ("dense", "int8")
    examples = pl.read_csv(tmp_path / "examples.csv")
    men = (examples["sex"] == "m").to_numpy()
    for row, variant in ((dense, "dense"), (int8, "int8")):
        wanted = []
        for place in range(6):
            said = pl.read_csv(tmp_path / "preds" / variant / f"m{place}.csv")["predicted"] == "cat"
            wanted.append(abs(said.to_numpy()[men].mean() - said.to_numpy()[~men].mean()))
        assert row["mean"]["models"] == pytest.approx(wanted)
        assert row["MaxDiff"]["number"]["value"] == pytest.approx(max(wanted) - min(wanted))
        assert row["STDEV"]["number"]["value"] == pytest.approx(np.std(wanted))
    pair = int8["mean"]["models"], dense["mean"]["models"]
    compared = {
        "U p": stats.mannwhitneyu(*pair).pvalue, "raw Levene p": stats.levene(*pair).pvalue,
    }  # fmt: skip
    one_sided = "greater" if np.mean(pair[0]) > np.mean(pair[1]) else "less"
    published = stats.mannwhitneyu(*pair, alternative=one_sided, method="asymptotic").pvalue
    compared["one-sided U p"] = published
    for what, p in compared.items():
        assert int8[what]["number"]["value"] == pytest.approx(p)
    assert "difference" not in dense
    assert "Fairness of models that differ only in their seed" in (
        tmp_path / "run" / "report.html"
    ).read_text("utf-8")
