"""`scotoma compare`: from logs to numbers and a verdict, as a user calls it."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from mlflow import MlflowClient

from scotoma.comparison.answers import OTHER
from scotoma.run import read_json
from scotoma.tracking.connection import quiet
from tests.comparison.logs import PLANTED, write_bbq, write_generation
from tests.helpers.audits import rates
from tests.helpers.commands import measured, scotoma

pytestmark = pytest.mark.slow

N = 900


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("logs")
    for rerun in range(2):
        write_bbq(home / "bf16" / f"run{rerun}" / "org__model", n=N, seed=rerun)
        folder = home / "w4a16" / f"run{rerun}" / "org__model"
        write_bbq(folder, n=N, harm=1.5, noise=0.2, seed=10 + rerun)
    write_generation(home / "text" / "bf16")
    write_generation(home / "text" / "w4a16", reword=0.3, seed=2)
    return home


def right(log: Path) -> np.ndarray:
    return np.array([json.loads(line)["acc"] for line in log.read_text().splitlines()])


def log_of(folder: Path) -> Path:
    (path,) = folder.rglob("*.jsonl")
    return path


def test_numbers_are_those_of_the_logs_and_the_planted_group_fails(home: Path) -> None:
    sides = home / "bf16" / "run0", home / "w4a16" / "run0"
    found = measured("compare", *sides, "--group", "doc.category,doc.age:18,40,65")
    (one,) = found["comparisons"]
    before, after = (right(log_of(side)) for side in sides)
    assert one["models"] == ["bf16", "w4a16"]
    assert one["examples"] == N
    assert one["paired_by"] == "content_hash"
    assert one["score"]["change"]["value"] == pytest.approx(after.mean() - before.mean())
    counts = {flip["kind"]: flip["count"] for flip in one["flips"]}
    assert counts["right_to_wrong"] == pytest.approx(((before == 1) & (after == 0)).sum())
    worst = min(one["groups"], key=lambda row: row["score"]["change"]["high"])
    assert worst["group"] == f"category={PLANTED}"
    assert {row["group"] for row in one["groups"]} >= {"age=18 to 39", "age=65 or more"}
    assert {(row["category"], row["context"]) for row in one["bias"]} >= {
        ("all", "ambiguous"), (PLANTED, "disambiguated"),
    }  # fmt: skip
    assert found["gate"]["verdict"] == "FAIL"
    assert PLANTED in " ".join(found["gate"]["variants"][0]["sentences"])


def test_reruns_give_a_floor_and_no_training_runs(home: Path) -> None:
    places = [home / model / f"run{k}" for model in ("bf16", "w4a16") for k in range(2)]
    code, out, err = scotoma("compare", *places, "--reruns", "--group", "category", "--gate")
    assert code == 1, err
    assert "2 and 2 reruns" in out
    assert "examples flip between two runs of bf16 itself;" in " ".join(out.split())
    assert "FAIL    w4a16" in out
    scope = "These numbers are about these two models; another training run may differ."
    assert scope in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    first, second = (right(log_of(place)) for place in places[:2])
    (counts,) = re.findall(r"answers: ([\d.]+) change \([^)]*\): ([\d.]+) right to wrong, "
                           r"([\d.]+) wrong to right, ([\d.]+)", " ".join(out.split()))  # fmt: skip
    whole, *parts = map(Decimal, counts)
    (one,) = measured("compare", *places, "--reruns")["comparisons"]
    assert sum(parts) == whole
    for shown, flip in zip((whole, *parts), one["flips"], strict=True):
        assert float(shown) == pytest.approx(flip["count"], abs=0.1)
    assert one["floor"]["within"]["value"] >= (first != second).mean()  # other wrong answers, too
    assert one["score"]["change"]["n"] == N


def test_an_audit_is_left_with_page_gate_and_examples(home: Path, tmp_path: Path) -> None:
    sides = home / "bf16" / "run0", home / "w4a16" / "run0"
    out = tmp_path / "run"
    code, _, err = scotoma("compare", *sides, "--group", "category", "--out", out, "--gate")
    assert code == 1, err
    assert {path.name for path in out.iterdir()} >= {
        "audit.json", "gate.json", "junit.xml", "report.html", "compared",
    }  # fmt: skip
    audit = read_json(out / "audit.json")
    assert audit["scope"] == "shipped"
    assert OTHER in audit["examples"]["classes"]
    before, after = (right(log_of(side)) for side in sides)
    rows = rates(audit, audit["variants"][1]["name"])
    (rise,) = [r["absolute"] for r in rows if r["group"] == "all" and r["metric"] == "error"]
    assert rise["value"] == pytest.approx(before.mean() - after.mean())
    assert scotoma("verify", out)[0] == 0
    alone = measured("compare", *sides, "--group", "category")["gate"]
    whole = read_json(out / "gate.json")
    of_folder = {name: whole[name] for name in ("audit_sha256", "config_sha256")}
    assert alone | of_folder == whole  # of fewer numbers and without a configuration, the same
    assert scotoma("gate", out, "--quiet")[0] == read_json(out / "gate.json")["exit_code"]
    page = (out / "report.html").read_text()
    assert "Question and answers" in page
    assert "Who of them" in page
    assert "says nothing about the next one." in page
    assert "says nothing about the next one.." not in page
    assert "&lt;b&gt;Not known" not in page


def test_accuracy_is_what_the_answers_of_a_table_average_to(tmp_path: Path) -> None:
    """`--score` takes what its help says it compares where nothing is named."""
    for name, answers in (("a", "xxyyxx"), ("b", "xxyxxy")):
        table = {"id": range(60), "label": [*"xxyyxx"] * 10, "predicted": [*answers] * 10}
        pl.DataFrame(table).write_csv(tmp_path / f"{name}.csv")
    sides = tmp_path / "a.csv", tmp_path / "b.csv"
    (usual,) = measured("compare", *sides)["comparisons"]
    assert usual["score"]["after"]["value"] == pytest.approx(4 / 6)
    for score in ("accuracy", "acc", "correct"):
        assert measured("compare", *sides, "--score", score)["comparisons"] == [usual]
    code, _, err = scotoma("compare", *sides, "--score", "quality")
    assert code == 2
    assert "share correct; name one of them" in " ".join(err.split())


def test_free_text_and_numbers_are_compared_without_a_verdict(home: Path) -> None:
    sides = home / "text" / "bf16", home / "text" / "w4a16"
    found = measured("compare", *sides, "--score", "f1", "--group", "level")
    (one,) = found["comparisons"]
    assert found["gate"] is None
    assert one["binary"] is False
    assert one["wording"]["refusals"]["after"]["value"] > 0
    (scored,) = measured("compare", *sides, "--score", "exact_match")["comparisons"]
    assert scored["wording"]["reworded_count"] > 40
    (quiet,) = measured("compare", *sides, "--score", "f1", "--refusal", "^never$")["comparisons"]
    assert quiet["wording"]["refusals"]["after"]["value"] == 0
    judged = measured("compare", *sides, "--score", "f1", "--right-from", "0.5")
    assert judged["gate"]["verdict"] in ("PASS", "UNSURE")


def test_tables_keep_their_classes_and_take_groups_from_a_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    label = rng.choice(["cat", "dog", "owl"], 400)
    ids = [f"e{i}" for i in range(400)]
    for name, rate in (("fp32", 0.1), ("int8", 0.15)):
        said = np.where(rng.random(400) < rate, "cat", label)
        pl.DataFrame({"id": ids, "truth": label, "said": said}).write_csv(tmp_path / f"{name}.csv")
    sex = rng.choice(["f", "m"], 400)
    pl.DataFrame({"id": ids, "sex": sex}).write_csv(tmp_path / "people.csv")
    found = measured(
        "compare", tmp_path / "fp32.csv", tmp_path / "int8.csv", "--label", "truth",
        "--predicted", "said", "--examples", tmp_path / "people.csv",
    )  # fmt: skip
    assert [row["group"] for row in found["comparisons"][0]["groups"]] == ["sex=f", "sex=m"]
    assert {rule["id"] for rule in found["gate"]["rules"]["rules"]} == {"error_groups", "classes"}


def test_a_table_of_groups_is_joined_by_the_hash_of_the_content(home: Path, tmp_path: Path) -> None:
    sides = home / "bf16" / "run0", home / "w4a16" / "run0"
    lines = map(json.loads, log_of(sides[0]).read_text().splitlines())
    rows = [{"doc_hash": row["doc_hash"], "category": row["doc"]["category"]} for row in lines]
    pl.DataFrame(rows).sample(fraction=1, shuffle=True, seed=0).write_csv(tmp_path / "topics.csv")
    joined = measured("compare", *sides, "--examples", tmp_path / "topics.csv")
    named = measured("compare", *sides, "--group", "doc.category")
    assert joined["comparisons"][0]["groups"] == named["comparisons"][0]["groups"]


def test_what_a_log_holds_is_listed(home: Path) -> None:
    code, out, _ = scotoma("compare", home / "bf16" / "run0", "--list")
    assert code == 0
    assert "doc.category" in out
    assert "numbers" in out


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["{bf16}"], 2, "needs the logs of an original and a compressed model, got 1 model"),
        (["{bf16}", "{text}"], 4, "must share a task"),
        (["{bf16}", "{w4}", "--group", "categroy"], 2, "did you mean"),
        (["{bf16}", "{w4}", "--score", "f1"], 2, "is not in both logs"),
        (["{text}", "{other}", "--score", "f1", "--gate"], 2, "--right-from"),
        (["{bf16}", "{w4}", "--refusal", "("], 2, "must be a regular expression"),
        (["{bf16}", "{typed}"], 4, "got acc and none; Score acc of task bbq is text in 1 example"),
        (["{bf16}", "{w4}", "--tasks", "mmlu"], 2, ", which has bbq"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    home: Path, tmp_path: Path, arguments: list[str], code: int, sentence: str
) -> None:
    typed = tmp_path / log_of(home / "w4a16" / "run0").name
    first, *others = log_of(home / "w4a16" / "run0").read_text().splitlines()
    typed.write_text("\n".join([json.dumps(json.loads(first) | {"acc": "yes"}), *others]))
    places = {
        "typed": typed,
        "bf16": home / "bf16" / "run0", "w4": home / "w4a16" / "run0",
        "text": home / "text" / "bf16", "other": home / "text" / "w4a16",
    }  # fmt: skip
    found, _, err = scotoma("compare", *(one.format(**places) for one in arguments))
    assert (found, err.count("\n")) == (code, 1)
    assert sentence in err


WRITTEN = Path(__file__).resolve().parents[1] / "readers" / "files" / "lm_eval"


def test_averages_are_those_that_lm_eval_wrote() -> None:
    """Accuracy and BBQ's ambiguous bias score of real logs beside the tool's own results."""
    names = ("bf16", "w4a16")
    places = [WRITTEN / name for name in names]
    found = measured("compare", *places, "--tasks", "bbq_local", "--filter", "strict-match")
    (one,) = found["comparisons"]
    bias = next(row for row in one["bias"] if row["category"] == "all")
    assert bias["context"] == "ambiguous"
    for name, side in zip(names, ("before", "after"), strict=True):
        (path,) = WRITTEN.glob(f"{name}/*/results_*.json")
        told = read_json(path)["results"]["bbq_local"]
        assert one["score"][side]["value"] == pytest.approx(told["acc,none"])
        assert bias[side]["value"] == pytest.approx(told["amb_bias_score,none"])


def test_tasks_of_several_scores_are_taken_together_where_answers_are_right_or_wrong() -> None:
    places = [WRITTEN / name for name in ("bf16", "bf16-2", "w4a16")]
    code, out, err = scotoma("compare", *places, "--reruns", "--filter", "strict-match")
    assert code == 0, err
    assert "score acc and exact_match, 2 and 1 reruns" in " ".join(out.split())
    assert "task text_local has the score log_likelihood_per_word, a number, and is left out" in err


def test_of_a_task_that_is_named_no_filter_of_another_is_asked() -> None:
    places = [WRITTEN / name for name in ("bf16", "w4a16")]
    code, _, err = scotoma("compare", *places)
    assert (code, "task maths_local was scored after 2 filters" in err) == (2, True)
    assert measured("compare", *places, "--tasks", "bbq_local")["comparisons"][0]["metric"] == "acc"


def test_models_of_other_reruns_are_judged_on_the_examples_of_all(
    home: Path, tmp_path: Path
) -> None:
    """The third model was run once, and lacks five of the examples."""
    short = write_bbq(tmp_path / "int8" / "org__model", n=N, harm=1.5, seed=20)
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:-5]))
    places = [home / model / f"run{k}" for model in ("bf16", "w4a16") for k in range(2)]
    names = [tmp_path / f"{place.parent.name}-{k % 2}" for k, place in enumerate(places)]
    for name, place in zip(names, places, strict=True):
        name.symlink_to(place)
    asked = "compare", *names, tmp_path / "int8", "--reruns", "--group", "category"
    out = tmp_path / "out"
    assert scotoma(*asked, "--out", out, "--quiet")[0] == 0
    whole, alone = read_json(out / "gate.json"), measured(*asked)["gate"]
    of_folder = {name: whole[name] for name in ("audit_sha256", "config_sha256")}
    assert alone | of_folder == whole
    before, after = (
        np.mean([right(log_of(home / model / f"run{k}"))[:-5] for k in range(2)])
        for model in ("bf16", "w4a16")
    )
    for name, score in (("w4a16", after), ("int8", right(short).mean())):
        rows = rates(read_json(out / "audit.json"), name)
        (rise,) = [r["absolute"] for r in rows if r["group"] == "all" and r["metric"] == "error"]
        assert rise["value"] == pytest.approx(before - score)
        assert rise["n"] == N - 5


@pytest.mark.thorough
def test_a_wrong_answer_that_becomes_another_is_the_same_with_reruns_and_without(
    home: Path, tmp_path: Path
) -> None:
    """An audit of one rerun a side, and one of two, label other wrong answers alike."""
    sides = [home / model / f"run{k}" for model in ("bf16", "w4a16") for k in range(2)]
    for name, places in (("one", sides[::2]), ("two", [*sides, "--reruns"])):
        assert scotoma("compare", *places, "--out", tmp_path / name, "--quiet")[0] == 0
    one, two = (
        pl.read_parquet(tmp_path / name / "compared" / "predictions.parquet")
        for name in ("one", "two")
    )
    again = two.join(one, on=["example_id", "variant", "rerun"], suffix="_of_one")
    assert again.height == one.height
    assert (again["predicted"] == again["predicted_of_one"]).all()
    logs = [[json.loads(x) for x in log_of(side).read_text().splitlines()] for side in sides]
    usual = {}
    for row in (row for log in logs for row in log if not row["acc"]):
        usual.setdefault(row["doc_id"], row["filtered_resps"])
    others = sum(
        not row["acc"] and row["filtered_resps"] != usual[row["doc_id"]]
        for log in logs
        for row in log
    )
    assert (two["predicted"] == OTHER).sum() == others > 0


def test_the_script_of_a_prompt_is_a_slice(tmp_path: Path) -> None:
    """Answers to Cyrillic questions alone become wrong; no attribute of the log says so."""
    rng = np.random.default_rng(0)
    for name, harm in (("bf16", 0.0), ("w4a16", 0.4)):
        rows = []
        for k in range(800):
            cyrillic = k % 4 == 0
            right = float(rng.random() >= 0.1 + harm * cyrillic)
            asked = f"Сколько будет {k} + {k}?" if cyrillic else f"How much is {k} + {k}?"
            rows.append(
                {
                    "doc_id": k, "doc": {"k": k}, "target": str(2 * k), "metrics": ["exact_match"],
                    "arguments": [[asked, {}]], "resps": [["?"]], "exact_match": right,
                    "filtered_resps": [str(2 * k if right else 0)], "filter": "none",
                }
            )  # fmt: skip
        (tmp_path / name).mkdir()
        path = tmp_path / name / "samples_sums_2026-01-01T00-00-00.000000.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (one,) = measured("compare", tmp_path / "bf16", tmp_path / "w4a16")["comparisons"]
    assert one["search"]["slices"][0]["text"] == "prompt script = Cyrillic"
    assert one["search"]["slices"][0]["size"] == 200


@pytest.mark.thorough
def test_audits_of_logs_are_compared_and_logged(home: Path, tmp_path: Path) -> None:
    """Two comparisons beside each other, and MLflow where it is asked for."""
    sides = home / "bf16" / "run0", home / "w4a16" / "run0"
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    for name, more in (("first", ["--tracking", database]), ("second", ["--group", "category"])):
        code, _, err = scotoma("compare", *sides, "--out", tmp_path / name, *more)
        assert code == 0, err
    runs = tmp_path / "first", tmp_path / "second"
    code, out, err = scotoma("compare", *runs)
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    reruns = home / "bf16" / "run0", home / "bf16" / "run1"
    code, _, err = scotoma("compare", *reruns, "--out", tmp_path / "third")
    assert code == 0, err
    code, out, err = scotoma("compare", runs[0], tmp_path / "third")
    assert code == 0, err
    assert "w4a16, then run1: FAIL became " in out
    told = " ".join(out.split())
    assert "w4a16 of the first run is compared with run1 of the second" in told
    assert "w4a16, then run1" in scotoma("compare", runs[0], tmp_path / "third", "--html")[1]
    with quiet(database):
        client = MlflowClient(database)
        runs = client.search_runs([client.get_experiment_by_name("compare").experiment_id])
    assert {run.data.tags.get("scotoma.variant", "") for run in runs} == {"", "dense", "w4a16"}
    assert "FAIL" in {run.data.params.get("verdict") for run in runs}
    code, _, err = scotoma("compare", *sides, "--tracking", database)
    assert (code, "name its folder with --out" in err) == (2, True)
