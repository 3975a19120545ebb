"""Which choices a reader of logs must make, and what is said of each."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest

from scotoma.errors import ConfigError
from scotoma.readers.evaluation_tables import LogColumns
from scotoma.readers.logs import attributes_of
from tests.readers.conftest import FILES, Read, Write, lm_eval_row

pytestmark = pytest.mark.slow

LM_EVAL = FILES / "lm_eval"


def test_several_filters_are_a_choice(read: Read) -> None:
    with pytest.raises(ConfigError) as refused:
        read(LM_EVAL / "bf16")
    assert str(refused.value) == (
        "task maths_local was scored after 2 filters (strict-match, flexible-extract); choose one "
        "with --filter"
    )
    with pytest.raises(ConfigError, match=r"filter 'strict' is in none .* mean 'strict-match'"):
        read(LM_EVAL / "bf16", filter="strict")


def test_two_evaluations_at_one_place_are_reruns_only_if_said(read: Read, write: Write) -> None:
    path = write([lm_eval_row(n) for n in range(4)])
    path.with_name(path.name.replace("-00.0", "-59.0")).write_bytes(path.read_bytes())
    with pytest.raises(ConfigError, match=r"holds 2 evaluations of task sums .*--reruns$"):
        read(path.parent)
    (log,) = read(path.parent, reruns=True).values()
    assert log.examples["rerun"].to_list() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_two_models_are_never_reruns(read: Read, write: Write) -> None:
    one = write([lm_eval_row(0)], model="org__a")
    other = write([lm_eval_row(0)], model="org__b")
    with pytest.raises(ConfigError, match="must be of one model, got org/a, org/b"):
        read([one, other])
    with pytest.raises(ConfigError, match=r"holds logs of 2 models .* \(org/a, org/b\)"):
        read(one.parent.parent, reruns=True)


def test_reruns_must_be_asked_alike(read: Read, write: Write) -> None:
    places = []
    for model, shots in (("a", 0), ("b", 5)):
        path = write([lm_eval_row(0)], model=model)
        results = {"model_name": "m", "n-shot": {"sums": shots}}
        path.with_name("results_2026-01-01T00-00-00.000000.json").write_text(json.dumps(results))
        places.append(path)
    with pytest.raises(ConfigError, match=r"asked alike, but few_shot is 0 in .* and 5 in"):
        read(places)


def test_a_log_without_its_results_says_what_is_not_checked(read: Read, write: Write) -> None:
    (log,) = read(write([lm_eval_row(0)])).values()
    assert log.settings == {"filter": "none"}
    assert "few-shot examples, limit and generation settings are not checked" in log.notes[0]
    assert (log.model, log.task) == ("org/m", "sums")


def test_nothing_at_a_place_is_said(read: Read, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run_spec.json").write_text("{}")
    with pytest.raises(
        ConfigError, match="holds no log of an evaluation; logs are of lm-eval, ins"
    ):
        read(tmp_path / "empty")
    with pytest.raises(ConfigError, match="nowhere does not exist; name a log"):
        read(tmp_path / "nowhere")


def test_a_score_is_a_number_or_unscored(read: Read, write: Write) -> None:
    values = [1, 0.5, True, None, "0.25", "False", float("nan"), float("inf"), 0]
    (log,) = read(write([lm_eval_row(n, exact_match=v) for n, v in enumerate(values)])).values()
    got = [None if math.isnan(one) else one for one in log.examples["score.exact_match"]]
    assert got == [1.0, 0.5, 1.0, None, 0.25, 0.0, None, None, 0.0]


def test_a_score_of_some_examples_is_unscored_elsewhere(read: Read, write: Write) -> None:
    rows = [lm_eval_row(n) for n in range(3)]
    rows[1] |= {"metrics": ["exact_match", "late"], "late": 0.5}
    (log,) = read(write(rows)).values()
    assert log.examples["score.late"].fill_nan(None).to_list() == [None, 0.5, None]


def test_logs_of_older_versions_name_no_metrics(read: Read, write: Write) -> None:
    row = lm_eval_row(3)
    for name in ("metrics", "doc_hash", "prompt_hash", "target_hash", "filter"):
        row.pop(name)
    row["arguments"] = [["Q: q3\nA:", {"until": ["\n"]}]]
    (log,) = read(write([row])).values()
    assert log.scores == ("exact_match",)
    assert log.examples["content_hash"].null_count() == 0
    assert log.read_texts([0])["prompt"].to_list() == ["Q: q3\nA:"]


def test_a_table_is_read_by_its_columns(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "fp32.csv"
    path.write_text("id,label,predicted,age,sex\na,1,1,30,f\nb,0,1,,m\nc,1,,50,f\n")
    (log,) = read(path, attributes=["age", "sex"]).values()
    assert (log.model, log.task, log.format) == ("fp32", "table", "table")
    assert log.examples["score.correct"].to_list() == [1.0, 0.0, 0.0]  # no answer is wrong
    assert log.examples["age"].to_list() == [30, None, 50]  # numbers, as in Parquet
    with pytest.raises(ConfigError, match=r"column 'prediction' is not .*mean 'predicted'\?"):
        read(path, columns=LogColumns(answer="prediction"))
    path.write_text("label,predicted\n1,1\n")
    with pytest.raises(ConfigError, match="must have a column of ids, and has label, predicted"):
        read(path)


def test_parquet_and_jsonl_tables_say_the_same_as_csv(read: Read, tmp_path: Path) -> None:
    table = pl.DataFrame(
        {"id": ["a", "b"], "label": ["x", "y"], "predicted": ["x", "x"], "score.f1": [0.5, 0.25]}
    )
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    table.write_ndjson(tmp_path / "t.jsonl")
    logs = [read(tmp_path / f"t.{suffix}")["table"] for suffix in ("csv", "parquet", "jsonl")]
    assert logs[0].scores == ("score.f1",)
    for log in logs[1:]:
        assert log.examples.equals(logs[0].examples)


def test_timm_labels_are_what_the_model_says(read: Read, tmp_path: Path) -> None:
    # As timm's inference.py writes with --topk 2 --include-index --label-type name.
    (tmp_path / "resnet-224.csv").write_text(
        "filename,index,label,prob\na.jpg,[3 1],['cat' 'dog'],[0.9 0.1]\n"
        "b.jpg,[1 3],['dog' 'cat'],[0.6 0.4]\n"
    )
    log = read(tmp_path / "resnet-224.csv")["table"]
    assert (log.format, log.examples["answer"].to_list()) == ("timm", ["cat", "dog"])
    assert log.examples["target"].null_count() == 2
    assert log.examples["score.prob"].to_list() == [0.9, 0.6]
    best = {"index": [[3, 1], [1, 3]], "prob": [[0.9, 0.1], [0.6, 0.4]]}
    pl.DataFrame(best | {"filename": ["a.jpg", "b.jpg"]}).write_parquet(tmp_path / "r.parquet")
    log = read(tmp_path / "r.parquet")["table"]
    assert (log.format, log.examples["answer"].to_list()) == ("timm", ["3", "1"])
    assert log.examples["score.prob"].to_list() == [0.9, 0.6]


def test_of_timm_a_column_of_true_labels_says_what_is_right(read: Read, tmp_path: Path) -> None:
    # As with --topk 2 --results-separate-col, and a column that was added.
    (tmp_path / "resnet.csv").write_text(
        "filename,label_0,label_1,prob_0,prob_1,truth\na.jpg,cat,dog,0.9,0.1,cat\n"
        "b.jpg,dog,cat,0.6,0.4,cat\n"
    )
    log = read(tmp_path / "resnet.csv", columns=LogColumns(label="truth"))["table"]
    assert log.examples["score.correct"].to_list() == [1.0, 0.0]


def test_tables_beside_logs_of_a_tool_are_passed_over(read: Read, write: Write) -> None:
    path = write([lm_eval_row(0)])
    (path.parent / "notes.csv").write_text("a,b\n1,2\n")
    assert list(read(path.parent)) == ["sums"]
    assert list(attributes_of([path.parent])) == ["sums"]


def test_long_text_stays_on_disk(read: Read, write: Write) -> None:
    text = "x" * 5_000
    rows = [lm_eval_row(n, resps=[[text + str(n)]], filtered_resps=[text]) for n in range(3)]
    (log,) = read(write(rows)).values()
    assert log.examples["text_length"].to_list() == [5001] * 3
    assert log.examples["answer"].str.len_chars().to_list() == [200] * 3
    assert log.examples["answer_hash"].n_unique() == 1
    assert log.examples["text_hash"].n_unique() == 3
    assert log.read_texts([2, 0])["text"].to_list() == [text + "0", text + "2"]
