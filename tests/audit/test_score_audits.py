"""An audit of scores: a number for each example and model, means and quantiles of every group."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import scotoma as package
from scotoma.audit import read_audit, read_gate
from scotoma.audit.base import cells_at
from scotoma.comparison.means import score_table
from scotoma.comparison.quantiles import errors_needed, quantile_change
from scotoma.config import load_config, parse_config
from scotoma.config.gate import parse_rules
from scotoma.errors import ConfigError, DataError
from scotoma.run import Run
from scotoma.steps.table import groups
from scotoma.tracking.kubeflow import scalar_metrics
from scotoma.tracking.records import audit_records, member_records
from scotoma.verdict.gate import judge
from tests.helpers.audits import addresses
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

CONFIG = """\
project: minutes
source:
  kind: scores
  files: forecasts/{variant}/{model}.csv
  examples: deliveries.csv
  measure: absolute_error
  unit: min <b>
baseline: fp32
label: {column: minutes}
groups:
  region: {column: region}
  vehicle: {column: vehicle}
tracking: {uri: "off"}
"""
N = 360


def write(home: Path, *, models: int = 1, harm: float = 0.4) -> Path:
    """Forecasts: `int8` is off by more on rural deliveries."""
    rng = np.random.default_rng(3)
    table = pl.DataFrame(
        {
            "example_id": [f"d{i}" for i in range(N)],
            "minutes": rng.uniform(5, 60, N).round(2),
            "region": rng.choice(["city", "rural"], N),
            "vehicle": rng.choice(["bike", "car", None], N).tolist(),
            "courier": rng.integers(0, 60, N),
        }
    )
    table.write_csv(home / "deliveries.csv")
    off, rural = rng.normal(0, 4, N), (table["region"] == "rural").to_numpy()
    for variant, own in (("fp32", 0.0), ("int8", harm)):
        (home / "forecasts" / variant).mkdir(parents=True, exist_ok=True)
        for model in range(models):
            said = table["minutes"] + off * (1 + own * rural) + rng.normal(0, 0.3, N)
            rows = pl.DataFrame({"example_id": table["example_id"], "predicted": said})
            rows.sample(fraction=1, shuffle=True, seed=model).write_csv(
                home / "forecasts" / variant / f"{model}.csv"
            )
    return home


def audited(home: Path, text: str = CONFIG) -> Run:
    """All steps in this process."""
    (home / "audit.yaml").write_text(text)
    run = Run.create(home / "run", load_config(home / "audit.yaml").completed())
    for group in groups(run.config):
        for step in group:
            step.function(run)
    return run


def errors(home: Path, variant: str, model: int = 0) -> np.ndarray:
    """Absolute errors in the order of the examples, joined by a route of the test's own."""
    examples = pl.read_csv(home / "deliveries.csv")
    said = pl.read_csv(home / "forecasts" / variant / f"{model}.csv")
    known = dict(zip(said["example_id"], said["predicted"], strict=True))
    return np.array(
        [
            abs(known[i] - y)
            for i, y in zip(examples["example_id"], examples["minutes"], strict=True)
        ]
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return audited(write(tmp_path_factory.mktemp("scores")))


@pytest.fixture(scope="module")
def rows(run: Run) -> dict[str, dict[str, Any]]:
    known = addresses(json.loads(run.path("audit.json").read_text()), "scores", variant="int8")
    return {
        at["group"]: {what.removeprefix("means."): row["number"]
                      for what, row in at.items() if what.startswith("means.")}
        for at in known if "means.worse" in at
    }  # fmt: skip


def test_means_and_their_change_are_those_of_scipy(
    run: Run, rows: dict[str, dict[str, Any]]
) -> None:
    home = run.root.parent
    before, after = errors(home, "fp32"), errors(home, "int8")
    rural = (pl.read_csv(home / "deliveries.csv")["region"] == "rural").to_numpy()
    for key, inside in (("all", rural | True), ("region=rural", rural), ("region=city", ~rural)):
        row, change = rows[key], after[inside] - before[inside]
        assert row["dense"]["value"] == pytest.approx(before[inside].mean())
        assert row["compressed"]["value"] == pytest.approx(after[inside].mean())
        assert row["absolute"]["value"] == pytest.approx(change.mean())
        assert row["absolute"]["se"] == pytest.approx(stats.sem(change))
        assert row["absolute"]["n"] == inside.sum()
        ratio = after[inside].mean() / before[inside].mean()
        assert row["relative"]["value"] == pytest.approx(ratio - 1)
        assert row["worse"] == row["absolute"]
        assert row["absolute"]["effective_events"] == pytest.approx(
            np.abs(change).sum() ** 2 / (change**2).sum()
        )
    assert set(rows) == {
        "all", "region=city", "region=rural", "vehicle=(missing)", "vehicle=bike", "vehicle=car",
    }  # fmt: skip


def test_relative_intervals_hold_those_of_a_bootstrap(
    run: Run, rows: dict[str, dict[str, Any]]
) -> None:
    home, rng = run.root.parent, np.random.default_rng(0)
    before, after = errors(home, "fp32"), errors(home, "int8")
    draws = rng.integers(0, N, (2_000, N))
    ratios = after[draws].mean(axis=1) / before[draws].mean(axis=1) - 1
    low, high = np.quantile(ratios, [0.025, 0.975])
    relative = rows["all"]["relative"]
    width = high - low
    assert relative["low"] == pytest.approx(low, abs=0.12 * width)
    assert relative["high"] == pytest.approx(high, abs=0.12 * width)


def test_quantiles_are_those_of_numpy_and_their_intervals_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    scores = rng.gamma(2, 1, 500)
    table = score_table(scores, 2 * scores + 1)
    for share in (0.1, 0.5, 0.9):
        found = quantile_change(table, share)
        assert found.before.value == np.quantile(scores, share, method="inverted_cdf")
        assert found.after.value == pytest.approx(2 * found.before.value + 1)
        exact = stats.quantile_test(scores, q=found.before.value, p=share).confidence_interval(0.95)
        # Woodruff's ends are order statistics within a few places of the exact ones.
        places = np.searchsorted(np.sort(scores), [*exact, found.before.low, found.before.high])
        assert np.abs(places[:2] - places[2:]).max() <= 4
    few = quantile_change(score_table(scores[:9], scores[:9]), 0.9)
    assert few.before.reason == (
        "interval not estimable (9 examples are too few for this quantile)"
    )
    tied = quantile_change(score_table(np.ones(50), np.ones(50)), 0.5)
    assert "not estimable" in tied.change.reason
    nobody = quantile_change(table, 0.5, np.zeros(500, np.bool_))
    assert nobody.change.reason == "undefined (no examples)"


def test_a_change_of_a_quantile_has_the_spread_of_a_bootstrap() -> None:
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(200), 3)
    before = rng.gamma(2, 1, 200)[clusters] + rng.gamma(2, 1, 600)
    after = before * 1.2 + rng.normal(0, 0.3, 600)
    found = quantile_change(score_table(before, after, clusters), 0.5).change
    changes = []
    for draw in rng.integers(0, 200, (400, 200)):
        rows = (3 * draw[:, None] + np.arange(3)).ravel()
        changes.append(np.median(after[rows]) - np.median(before[rows]))
    assert found.se == pytest.approx(np.std(changes), rel=0.3)
    assert found.n == 200


def test_harm_fails_the_gate_and_every_reader_names_it(run: Run) -> None:
    gate = read_gate(run.path("gate.json"))
    failed = {test.group for test in gate.variants[0].tests if test.verdict == "FAIL"}
    assert "region=rural" in failed
    assert "region=city" not in failed
    page = run.path("report.html").read_text(encoding="utf-8")
    assert "rural" in page
    assert "min &lt;b&gt;" in page
    assert " points" not in page.partition("<script>")[0].partition("<body>")[2]
    assert "top-1" not in run.path("summary.md").read_text()
    audit = read_audit(run.path("audit.json"))
    _, records = audit_records(audit, gate, "2027-03", {})
    numbers = {name: value for name, value, _ in records[0].metrics}
    assert numbers["mean_score"] == pytest.approx(errors(run.root.parent, "int8").mean())
    assert numbers["worse_relative_worst"] > 0.3
    assert numbers["detail/region is rural/scores/means/rise_relative"] > 0.3
    assert "rural" in records[0].params["worst_group"]
    members = {v.name: [{"index": 0, "seed": "", "sha256": ""}] for v in audit.variants}
    (dense, _) = member_records(audit, {}, members, "", {})
    assert {name: value for name, value, _ in dense.metrics}["mean_score"] > 0
    assert scalar_metrics(audit, gate)["int8/worst_group_relative"] > 0.3
    opened = package.open(run.root)
    assert opened.variants["mean"].to_list() == pytest.approx(
        [errors(run.root.parent, name).mean() for name in ("fp32", "int8")]
    )
    assert set(opened.groups["metric"]) == {"mean"}


def test_the_examples_that_get_worse_are_ranked(run: Run) -> None:
    home = run.root.parent
    worse = errors(home, "int8") - errors(home, "fp32")
    audit = read_audit(run.path("audit.json"))
    assert audit.scores is not None
    first = audit.scores.examples["int8"]
    assert [one.example_id for one in first] == [f"d{i}" for i in np.argsort(-worse)[:20]]
    ranked = pl.read_parquet(run.path("divergence.parquet"))
    assert ranked["worse"].to_numpy() == pytest.approx(worse)


def test_higher_may_be_better_and_models_may_be_paired(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    ids = [f"q{i}" for i in range(200)]
    group = np.where(np.arange(200) < 100, "a", "b")
    pl.DataFrame({"example_id": ids, "group": group}).write_csv(tmp_path / "deliveries.csv")
    scores = rng.uniform(1, 2, (200, 5))
    lost = scores - 0.5 * (group == "b")[:, None] + rng.normal(0, 0.01, (200, 5))
    for variant, own in (("dense", scores), ("int8", lost)):
        (tmp_path / "s" / variant).mkdir(parents=True)
        for model in range(5):
            pl.DataFrame({"example_id": ids, "score": own[:, model]}).write_parquet(
                tmp_path / "s" / variant / f"{model}.parquet"
            )
    run = audited(
        tmp_path,
        "source: {kind: scores, files: 's/{variant}/{model}.parquet', examples: deliveries.csv, "
        "lower_is_better: false}\ngroups: {group: {column: group}}\n"
        "variants: [dense, {predictions: [int8], paired: true}]\ntracking: {uri: 'off'}\n",
    )
    audit = read_audit(run.path("audit.json"))
    _, a, b = (cells_at(at) for at in audit.at("scores", "int8", "means."))
    before, after = scores[100:].mean(), lost[100:].mean()
    assert b["worse"].value == pytest.approx(before - after)
    assert b["absolute"].value == pytest.approx(after - before)
    assert b["relative"].value == pytest.approx(before / after - 1)
    assert (b["worse"].low, b["worse"].high) == (-b["absolute"].high, -b["absolute"].low)  # type: ignore[operator]
    # Paired members leave their own noise alone, not that of the examples.
    assert a["absolute"].se == pytest.approx(np.std((lost - scores)[:100].mean(1)) / 10, rel=0.5)
    tests = read_gate(run.path("gate.json")).variants[0].tests
    assert {test.group: test.verdict for test in tests} == {"group=a": "PASS", "group=b": "FAIL"}
    slices = audit.slices["int8"].slices
    assert [one.text for one in slices] == ["group = b"]
    asked = "rules: [{id: s, metric: mean_score, over: slices, max_worse: {absolute: 0.1}}]"
    (judged,) = judge(audit, parse_rules(asked, "g"), datetime.date(2027, 3, 1)).variants
    assert [test.verdict for test in judged.tests] == ["FAIL"]  # a fall of a half is harm


def test_rules_ask_for_means_and_refuse_classes(run: Run) -> None:
    audit = read_audit(run.path("audit.json"))

    def verdicts(rules: str) -> dict[str, str]:
        gate = judge(audit, parse_rules(f"rules: [{rules}]", "g"), datetime.date(2027, 3, 1))
        return {f.where: f.verdict for f in gate.variants[0].tests}

    both = "{id: r, metric: mean_score, max_worse: {relative: 0.1, absolute: %s}}"
    assert verdicts(both % 0.1)["mean absolute error of rural"] == "FAIL"
    assert verdicts(both % 50)["mean absolute error of rural"] == "PASS"
    assert "mean absolute error of all" in verdicts(
        "{id: r, metric: mean_score, over: all, max_worse: {relative: 9}}"
    )
    on_slices = verdicts("{id: r, metric: mean_score, over: slices, max_worse: {absolute: 0.1}}")
    assert on_slices == {"mean absolute error of slice region = rural": "FAIL"}
    left = "{id: r, metric: mean_score, exclude: ['region=rural'], max_worse: {relative: 0.5}}"
    assert "mean absolute error of rural" not in verdicts(left)
    with pytest.raises(DataError, match="scores and no classes; ask for mean_score"):
        verdicts("{id: r, metric: error, max_increase: {absolute: 0.1}}")
    for wrong, sentence in {
        "max_worse: {}": "needs relative, absolute or both",
        "over: slices, max_worse: {relative: 0.1}": "write max_worse.absolute",
        "over: all, attributes: [a], max_worse: {relative: 0.1}": "remove attributes",
        "max_worse: {relativ: 0.1}": "did you mean 'relative'",
    }.items():
        with pytest.raises(ConfigError, match=sentence):
            parse_rules(f"rules: [{{id: r, metric: mean_score, {wrong}}}]", "g")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("measure: absolute_error", "measure: given"), "lower_is_better is missing"),
        (
            ("measure: absolute_error", "measure: given\n  lower_is_better: true"),
            "label.column is not read where the score is given",
        ),
        (("label: {column: minutes}", ""), "label.column is missing"),
        (("{column: minutes}", "{column: minutes, threshold: 3}"), "are for classes"),
        (("unit: min <b>", "lower_is_better: false"), "a smaller absolute error is better"),
        (("unit: min <b>", "classes: [a]"), "scores have no classes"),
        (("unit: min <b>", "measures: 1"), "did you mean 'measure'"),
        (("project:", "retraining: {cron: 0 0 3 1 * *}\nproject:"), "compares classes, and source"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(
    change: tuple[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_config(CONFIG.replace(*change), "a.yaml")


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        # Admission: "unscored by the judge stays out".
        ("forecasts/int8/0.csv", r"\nd7,[^\n]*", "\nd7,nan", "is not scored stays out: remove it"),
        ("forecasts/int8/0.csv", r"\nd7,[^\n]*", "\nd7,", "got 'none' of example 'd7'"),
        (
            "forecasts/int8/0.csv",
            r"\nd7,[^\n]*",
            "\nd7,much",
            "must hold finite numbers, got 'much'",
        ),
        ("forecasts/int8/0.csv", r"\nd7,[^\n]*", "", "has no prediction for 1 of 360 examples"),
        ("forecasts/int8/0.csv", r"\nd7,", "\nd8,", "more than once"),
        ("forecasts/int8/0.csv", r"\nd7,", "\nx7,", "the first is 'x7'"),
        ("forecasts/int8/0.csv", "predicted", "said", "must have the column 'predicted'"),
        ("deliveries.csv", r"\nd7,[^,]*", "\nd7,", "'minutes' of .* must hold finite numbers"),
        ("deliveries.csv", "minutes", "hours", "label column 'minutes' is not in"),
    ],
)
def test_bad_numbers_are_one_sentence(
    tmp_path: Path, file: str, old: str, new: str, sentence: str
) -> None:
    import re

    place = write(tmp_path) / file
    place.write_text(re.sub(old, new, place.read_text()))
    (tmp_path / "audit.yaml").write_text(CONFIG)
    with steps_in_this_process(tmp_path):
        code, out, err = scotoma("audit", "--plan", "audit.yaml")
    assert code != 0
    assert re.search(sentence, " ".join(err.split())), err
    assert "Traceback" not in err + out


def test_reruns_are_rows_of_one_cluster(tmp_path: Path) -> None:
    run = audited(write(tmp_path, models=2), CONFIG.replace("{model}", "{rerun}"))
    audit = read_audit(run.path("audit.json"))
    assert (audit.examples.test, audit.examples.clusters) == (2 * N, N)
    everyone = audit.at("scores", "int8", "means.")[0]["absolute"].number
    change = np.mean(
        [errors(tmp_path, "int8", k) - errors(tmp_path, "fp32", k) for k in range(2)], axis=0
    )
    assert (everyone.n, everyone.members) == (N, 1)
    assert everyone.se == pytest.approx(stats.sem(change))


def test_generic_is_another_name_of_predictions() -> None:
    rest = "label: {column: y}\ngroups: {g: {column: g}}\n"
    one = parse_config(
        "source: {kind: generic, table: t.csv, columns: {dense: a, int8: b}}\n" + rest, "a"
    )
    same = (
        "source: {kind: predictions, files: t.csv, examples: t.csv, columns: {dense: a, int8: b}}\n"
    )
    assert one == parse_config(same + rest, "a")


def test_commands_read_scores(tmp_path: Path, run: Run) -> None:
    home = write(tmp_path)
    with steps_in_this_process(home):
        code, _, err = scotoma(
            "init", "deliveries.csv", "--predictions", "forecasts/{variant}/{model}.csv",
            "--score", "absolute_error", "--label", "minutes", "--group", "region",
        )  # fmt: skip
        assert code == 0, err
        assert load_config(home / "audit.yaml").source.kind == "scores"
        code, out, err = scotoma("audit", "--plan", "audit.yaml", "--json")
        assert code == 0, err
        told = {row["key"]: row for row in json.loads(out)["groups"]}
        before, after = errors(home, "fp32"), errors(home, "int8")
        d, c = before / before.mean(), after / after.mean()
        se = stats.sem(c - d)
        promised = told["all"]["worse"]["int8"]
        assert promised == pytest.approx(errors_needed(1e5, 3) * se, rel=0.1)
        assert told["all"]["mean"] == pytest.approx(before.mean())
        code, out, err = scotoma("audit", "--plan", "audit.yaml")
        assert "80% power" in " ".join(out.split())
        wide = pl.read_csv("deliveries.csv")
        for name in ("fp32", "int8"):
            said = pl.read_csv(home / f"forecasts/{name}/0.csv").rename({"predicted": name})
            wide = wide.join(said, on="example_id")
        wide.write_csv("wide.csv")
        asked = [
            "compare",
            "wide.csv",
            "--predicted",
            "int8",
            "--baseline",
            "fp32",
            "--group",
            "region",
        ]
        code, out, err = scotoma(
            *asked, "--score", "absolute_error", "--label", "minutes", "--json"
        )
        assert code == 0, err
        groups = {row["group"]: row for row in json.loads(out)["groups"]}
        assert groups["all"]["predicted"]["value"] == pytest.approx(after.mean())
        code, out, err = scotoma(*asked, "--score", "absolute_error", "--label", "minutes")
        assert "surely gets worse for 'region=rural'" in " ".join(out.split())
        for score, sentence in (("up", "must be one of lower"), ("absolute_error", "--label is")):
            code, _, err = scotoma(*asked, "--score", score)
            assert (code, sentence in err) == (2, True)
        code, _, err = scotoma("show", run.root, "examples", "--percentile", "95")
        assert "this command reads classes" in " ".join(err.split())
        code, _, err = scotoma("gate", str(run.root), "--previous", str(run.root))
        assert code == 4
        assert "the previous audit must have classes, got means of" in " ".join(err.split())
