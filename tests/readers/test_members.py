"""Other members of the kinds of log that once failed: forms, versions and tools beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.errors import ConfigError, DataError
from tests.readers.conftest import Read, Write, lm_eval_row

pytestmark = pytest.mark.slow

RESULTS = "results_2026-01-01T00-00-00.000000.json"


def unnamed(number: int, **changed: Any) -> dict[str, Any]:
    """A row as lm-evaluation-harness 0.4.5 wrote it, with no filter and no list of metrics."""
    row = lm_eval_row(number, **changed)
    return {name: one for name, one in row.items() if name not in ("filter", "metrics")}


def two_filters(n: int = 4, **second: Any) -> list[dict[str, Any]]:
    return [
        *(unnamed(number, exact_match=1.0) for number in range(n)),
        *(unnamed(number, exact_match=0.0, **second) for number in range(n)),
    ]


# --- lm-evaluation-harness ------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_read_with_the_name_of_its_task(
    read: Read, tmp_path: Path, indent: int | None
) -> None:
    path = tmp_path / "pretrained__org__m,dtype__float16_arc_easy.jsonl"
    path.write_text(json.dumps([unnamed(number) for number in range(3)], indent=indent))
    (log,) = read(path).values()
    assert (log.task, log.model, log.examples.height) == (
        "arc_easy",
        "pretrained/org/m,dtype/float16",
        3,
    )
    (tmp_path / "results.json").write_text(json.dumps({"configs": {"easy": {}, "dtype": {}}}))
    (log,) = read(path).values()
    assert (log.task, log.model) == ("easy", "pretrained/org/m,dtype/float16_arc")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[{"doc_id": 0,', r"must hold JSON, and value 1 does not \(Expecting property name"),
        ("[1]", "an array of objects, and value 1 is a int"),
        ('[{"id": 1, "acc": 1} {}]', r"value 2 does not \(Expecting ',' delimiter"),
        ("[" * 100_000, r"value 1 does not \(it cannot be decoded\)"),
        ("[", r"value 1 does not \(it cannot be decoded\)"),
    ],
)
def test_an_array_that_is_damaged(read: Read, tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "samples_x.jsonl").write_text(text)
    with pytest.raises(DataError, match=sentence):
        read(tmp_path / "samples_x.jsonl")


def test_without_results_filters_are_numbered(read: Read, write: Write) -> None:
    path = write(two_filters())
    with pytest.raises(ConfigError, match=r"after 2 filters \(filter-1, filter-2\); choose one wi"):
        read(path)
    for name, right in (("filter-1", 1.0), ("filter-2", 0.0)):
        (log,) = read(path, filter=name).values()
        assert log.examples["score.exact_match"].to_list() == [right] * 4


def test_rows_that_answer_otherwise_are_no_filters_but_two_logs(read: Read, write: Write) -> None:
    with pytest.raises(DataError, match="it may be two logs in one file"):
        read(write(two_filters(resps=[["another answer"]])))
    path = write(two_filters() + two_filters())
    listed = {"configs": {"sums": {"filter_list": [{"name": "a"}, {"name": "b"}]}}}
    path.with_name(RESULTS).write_text(json.dumps(listed))
    with pytest.raises(DataError, match="it may be two logs in one file"):
        read(path)


def test_answers_that_were_not_scored_are_refused_by_the_name_of_the_flag(
    read: Read, write: Write
) -> None:
    for row in (lm_eval_row(0, metrics=["bypass"], bypass=999), unnamed(0) | {"bypass": 999}):
        row.pop("exact_match")
        with pytest.raises(DataError, match=r"run lm_eval again without --predict_only$"):
            read(write([row]))


@pytest.mark.parametrize(
    ("metric", "value", "score", "right"),
    [
        ("word_perplexity", [-30.0, 10], "log_likelihood_per_word", -3.0),
        ("byte_perplexity", [-30.0, 60], "log_likelihood_per_byte", -0.5),
        ("bits_per_byte", [-30.0, 60], "log_likelihood_per_byte", -0.5),
        ("perplexity", -2.5, "log_likelihood", -2.5),  # of lambada: a log-likelihood by its sign
        ("perplexity", 12.5, "perplexity", 12.5),
    ],
)
def test_likelihoods_of_texts(
    read: Read, write: Write, metric: str, value: object, score: str, right: float
) -> None:
    path = write([lm_eval_row(n, metrics=[metric], **{metric: value}) for n in range(3)])
    (log,) = read(path).values()
    assert log.scores == (score,)
    assert log.examples[f"score.{score}"].to_list() == [right] * 3


def test_a_text_of_no_words_has_no_likelihood_of_a_word(read: Read, write: Write) -> None:
    path = write([lm_eval_row(0, metrics=["word_perplexity"], word_perplexity=[0.0, 0])])
    (log,) = read(path).values()
    assert log.scores == ()


# --- lmms-eval ------------------------------------------------------------------------------------


def lmms_row(number: int, metric: dict[str, Any]) -> dict[str, Any]:
    """A row as lmms-eval writes it since 0.3: `doc` and `arguments` are left out."""
    return {
        "doc_id": number, "target": "yes", "filtered_resps": ["yes"], "doc_hash": f"d{number}",
        "input": f"Is there a cat in {number}?", "mme_score": metric,
    }  # fmt: skip


def lmms_log(folder: Path, date: str, *metrics: dict[str, Any]) -> Path:
    path = folder / f"{date}_samples_mme.jsonl"
    path.write_text("".join(json.dumps(lmms_row(*one)) + "\n" for one in enumerate(metrics)))
    return path


def test_a_row_of_lmms_eval_without_doc(read: Read, tmp_path: Path) -> None:
    metrics = ({"question_id": 7, "category": "count", "score": right} for right in (1.0, 0.0))
    path = lmms_log(tmp_path, "20260101_000000", *metrics)
    (log,) = read(path, attributes=["mme_score.category"]).values()
    assert (log.task, log.scores) == ("mme", ("mme_score.score",))
    assert log.examples["mme_score.category"].to_list() == ["count", "count"]
    assert log.read_texts([0])["prompt"].to_list() == ["Is there a cat in 0?"]


@pytest.mark.parametrize(
    "metric",
    [
        {"id": "validation_1", "answer": "B", "parsed_pred": "B"},  # mmmu_acc
        {"question_id": 3, "index": 4},
        {"image_id": 3, "pred": "a cat", "answer": ["a cat"]},  # coco_Bleu_4
    ],
)
def test_an_object_without_a_score_is_none(
    read: Read, tmp_path: Path, metric: dict[str, Any]
) -> None:
    (log,) = read(lmms_log(tmp_path, "20260101_000000", metric)).values()
    assert log.scores == ()
    assert "is an object without a number called score in 1 example" in log.notes[-1]


# --- inspect_ai -----------------------------------------------------------------------------------


def inspect_log(
    folder: Path, name: str, status: str, task_id: str, created: str, *samples: dict[str, Any]
) -> Path:
    spec = {"task": "sums", "model": "m", "task_id": task_id, "created": created}
    folder.mkdir(exist_ok=True)
    path = folder / name
    content = {"version": 2, "status": status, "eval": spec, "samples": list(samples)}
    path.write_text(json.dumps(content))
    return path


def sample(number: int, value: str | None = "C", **changed: Any) -> dict[str, Any]:
    scores = {} if value is None else {"match": {"value": value, "answer": "a"}}
    return {
        "id": number, "epoch": 1, "input": f"q{number}", "target": "a", "scores": scores,
        "output": {"completion": "a"}, **changed,
    }  # fmt: skip


def test_the_newest_success_of_a_task_counts(read: Read, tmp_path: Path) -> None:
    for name, status, hour, value in (
        ("1.json", "success", "01", "I"),
        ("2.json", "error", "04", "I"),
        ("3.json", "success", "03", "C"),
        ("4.json", "cancelled", "05", "I"),
    ):
        time = f"2026-01-01T{hour}:00:00+00:00"
        inspect_log(tmp_path, name, status, "T", time, sample(0, value))
    for options in ({}, {"reruns": True}):
        (log,) = read(tmp_path, **options).values()
        assert log.examples["score.match"].to_list() == [1.0]
        assert [note.split()[0] for note in log.notes] == ["1.json", "2.json", "4.json"]


def test_a_failed_evaluation_is_no_rerun_of_one_that_succeeded(read: Read, tmp_path: Path) -> None:
    inspect_log(tmp_path, "1.json", "error", "T", "2026-01-01", sample(0, "I"))
    inspect_log(tmp_path, "2.json", "success", "U", "2026-01-02", sample(0))
    (log,) = read(tmp_path, reruns=True).values()
    assert log.examples["score.match"].to_list() == [1.0]


def test_successes_of_two_tasks_are_reruns(read: Read, tmp_path: Path) -> None:
    inspect_log(tmp_path, "1.json", "success", "T", "2026-01-01", sample(0, "I"))
    inspect_log(tmp_path, "2.json", "success", "U", "2026-01-02", sample(0))
    (log,) = read(tmp_path, reruns=True).values()
    assert log.examples["score.match"].to_list() == [0.0, 1.0]
    with pytest.raises(ConfigError, match="name one, or take all as reruns with --reruns"):
        read(tmp_path)


def test_failed_tries_are_never_offered_as_reruns(read: Read, tmp_path: Path) -> None:
    for name in "TU":
        inspect_log(tmp_path, f"{name}.json", "error", name, "2026-01-01", sample(0, "I"))
    with pytest.raises(ConfigError, match=r"none of them succeeded: evaluate again, or name one$"):
        read(tmp_path)


# --- Every Eval Ever -----------------------------------------------------------------------------


def test_several_results_of_one_sample_are_chosen_among(read: Read, tmp_path: Path) -> None:
    """Schema 0.2.2: a sample has a row for each aggregate result, of one name."""
    rows = [
        {
            "model_id": "m", "evaluation_name": "qa", "evaluation_result_id": result,
            "sample_id": str(number), "interaction_type": "single_turn", "answer_attribution": [],
            "input": {"raw": f"q{number}", "reference": ["a"]}, "output": {"raw": ["a"]},
            "evaluation": {"score": right, "is_correct": right == 1},
        }
        for number in range(3)
        for result, right in (("qa::em", 0.0), ("qa::f1", 1.0))
    ]  # fmt: skip
    path = tmp_path / "a_samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigError, match=r"2 filters \(qa::em, qa::f1\); choose one"):
        read(path)
    (log,) = read(path, filter="qa::f1").values()
    assert log.examples["score.score"].to_list() == [1.0] * 3
    assert (log.settings, log.notes) == ({}, ())


# --- lighteval before 0.10 ------------------------------------------------------------------------


def old_details(folder: Path, metrics: list[Any], **columns: list[Any]) -> Path:
    n = len(metrics)
    path = folder / "details_own|sums|0_2024-11-02T10-00-00.000000.parquet"
    pl.DataFrame(
        {
            "example": [f"q{number}" for number in range(n)],
            "full_prompt": [f"Q: q{number}" for number in range(n)],
            "predictions": [str([f"it is {number}"]) for number in range(n)],
            "gold": [str([str(number)]) for number in range(n)],
            "gold_index": ["[0]"] * n,
            "choices": [str([str(number)]) for number in range(n)],
            "metrics": metrics,
            "specifics": [str({"level": number}) for number in range(n)],
            **columns,
        },
        strict=False,
    ).write_parquet(path)
    return path


def test_cells_that_are_text_of_python(read: Read, tmp_path: Path) -> None:
    metrics = [
        "{'em': 1}", "{'em': np.float64(0.5)}", "{'em': tensor(0.)}", "{'em': np.True_}",
        "{'em': nan}", "{'em': array(1.)}",
    ]  # fmt: skip
    path = old_details(tmp_path, metrics)
    (log,) = read(path, attributes=["specifics.level"]).values()
    assert log.examples["score.em"].fill_nan(None).to_list() == [1.0, 0.5, 0.0, 1.0, None, 1.0]
    assert log.examples["answer"].to_list() == [f"it is {number}" for number in range(6)]
    assert log.examples["specifics.level"].to_list() == list(range(6))
    assert log.read_texts([0])["target"].to_list() == ["0"]


def test_metrics_that_are_a_struct(read: Read, tmp_path: Path) -> None:
    (log,) = read(old_details(tmp_path, [{"em": 1.0}, {"em": 0.0}])).values()
    assert log.examples["score.em"].to_list() == [1.0, 0.0]


@pytest.mark.parametrize("call", ["__import__('os').abort()", "exit(3)", "open('a', 'w')"])
def test_text_of_python_never_runs(read: Read, tmp_path: Path, call: str) -> None:
    path = old_details(tmp_path, [f"{{'em': {call}}}", "{'em': 1}"])
    (log,) = read(path).values()
    assert log.examples["score.em"].fill_nan(None).to_list() == [None, 1.0]
