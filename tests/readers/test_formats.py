"""What is read of logs which the real tools wrote is what these tools say of them.

`make_files.py` says with which versions; it makes the files again.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

from scotoma.readers.logs import attributes_of
from scotoma.readers.pairing import pair
from tests.readers.conftest import FILES, Read

pytestmark = pytest.mark.slow  # each starts a process

MODELS = ["bf16", "w4a16"]


def results(model: str) -> dict[str, Any]:
    """What lm_eval itself says of its evaluation."""
    (path,) = (FILES / "lm_eval" / model).rglob("results_*.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("chosen", ["strict-match", "flexible-extract"])
def test_scores_of_lm_eval_average_to_what_it_says(read: Read, model: str, chosen: str) -> None:
    logs = read(FILES / "lm_eval" / model, filter=chosen)
    means = results(model)["results"]
    assert set(logs) == set(means)
    maths, bbq = logs["maths_local"], logs["bbq_local"]
    assert (
        maths.examples["score.exact_match"].mean() == means["maths_local"][f"exact_match,{chosen}"]
    )
    assert bbq.examples["score.acc"].mean() == means["bbq_local"]["acc,none"]
    assert maths.format == "lm-eval"
    assert maths.model == f"org/{model}"
    assert (maths.settings["few_shot"], maths.settings["filter"]) == ("2", chosen)
    assert (bbq.settings["few_shot"], bbq.settings["filter"]) == ("0", "none")


def test_an_lm_eval_log_gives_answers_choices_text_and_hashes(read: Read) -> None:
    logs = read(FILES / "lm_eval" / "w4a16", filter="strict-match")
    (path,) = (FILES / "lm_eval" / "w4a16").rglob("samples_bbq*.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    bbq = logs["bbq_local"].examples
    for row, example in zip(rows, bbq.iter_rows(named=True), strict=True):
        likelihoods = [float(one[0]) for one in row["filtered_resps"]]
        best = max(range(len(likelihoods)), key=likelihoods.__getitem__)
        options = [one["arg_1"].strip() for one in row["arguments"].values()]
        assert (example["choice"], example["answer"]) == (best, options[best])
        assert example["target"] == options[int(row["target"])]
        assert example["content_hash"] == row["doc_hash"]
        assert example["text_length"] is None
    maths = logs["maths_local"]
    first = maths.read_texts([maths.examples["row"][0]]).row(0, named=True)
    assert first["prompt"].endswith("Question: What is 0 + 1?\nAnswer:")
    assert first["text"].endswith(f"#### {first['answer']}")
    assert maths.examples["prompt_length"][0] == len(first["prompt"])
    assert logs["text_local"].examples["answer"].null_count() == 20  # likelihoods are no answers


def test_scores_that_are_no_numbers_are_left_out_and_named(read: Read) -> None:
    bbq = read(FILES / "lm_eval" / "bf16", filter="strict-match")["bbq_local"]
    assert bbq.scores == ("acc", "margin")
    assert [note for note in bbq.notes if "amb_bias_score" in note] == [
        "Score amb_bias_score of task bbq_local is a list of 4 values in 24 examples, not a "
        "number, and is left out."
    ]


def test_no_token_of_a_log_is_kept(read: Read) -> None:
    secret = "hf_" + "a1B2c3D4e5F6g7H8i9"
    assert secret in json.dumps(results("bf16"))
    for log in read(FILES / "lm_eval" / "bf16", filter="strict-match").values():
        assert secret not in repr(log)


def test_attributes_are_dotted_paths_with_their_number_of_values() -> None:
    paths = {one.path: one for one in attributes_of([FILES / "lm_eval" / "bf16"])["bbq_local"]}
    assert (paths["doc.category"].values, paths["doc.category"].kind) == (3, "text")
    assert (paths["doc.label"].examples, paths["doc.label"].kind) == (24, "numbers")
    assert "doc.additional_metadata.stereotyped_groups" in paths


def test_attributes_are_numbers_only_where_all_are(read: Read) -> None:
    asked = ["doc.topic.digits", "doc.language", "doc.category"]
    log = read(FILES / "lm_eval" / "bf16", filter="strict-match", attributes=asked)["maths_local"]
    assert log.examples.select(asked).dtypes == [pl.Int64, pl.String, pl.String]
    assert log.examples["doc.topic.digits"].to_list() == [1, 1, 1] + [2] * 17
    assert log.examples["doc.category"].null_count() == 20


def test_places_are_reruns_of_one_model(read: Read) -> None:
    places = [FILES / "lm_eval" / "bf16", FILES / "lm_eval" / "bf16-2"]
    log = read(places, filter="strict-match")["maths_local"]
    assert log.examples["rerun"].value_counts().sort("rerun").rows() == [(0, 20), (1, 20)]
    assert log.examples["row"].n_unique() == 40
    texts = log.read_texts(log.examples["row"])
    assert texts["row"].to_list() == sorted(log.examples["row"])
    alone = read(places[1], filter="strict-match")["maths_local"]
    second = log.examples.filter(pl.col("rerun") == 1)
    assert second["text_hash"].to_list() == alone.examples["text_hash"].to_list()


def header(path: Path) -> dict[str, Any]:
    """The header of an .eval file, by libraries alone."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        info = archive.getinfo("header.json")
        file.seek(info.header_offset + 26)
        lengths = file.read(4)
        file.seek(sum(lengths[i] << 8 * (i % 2) for i in range(4)), 1)
        packed = file.read(info.compress_size)
    unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    found: dict[str, Any] = json.loads(unpacked)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_scores_of_inspect_average_to_what_it_says(read: Read, model: str) -> None:
    logs = read(FILES / "inspect_ai" / "eval" / model)
    (path,) = (FILES / "inspect_ai" / "eval" / model).glob("*_maths_*.eval")
    means = {
        one["name"]: next(iter(one["metrics"].values()))["value"]
        for one in header(path)["results"]["scores"]
    }
    maths = logs["maths"].examples
    assert maths["score.pattern"].mean() == pytest.approx(means["pattern"])
    assert maths["score.graded"].mean() == pytest.approx(means["graded"])
    # inspect averages the epochs of an example first; an epoch without score is left out
    polite = maths.filter(pl.col("score.parts.polite").is_not_nan())
    by_example = polite.group_by("example_id").agg(pl.col("score.parts.polite").mean())
    assert by_example["score.parts.polite"].mean() == pytest.approx(means["polite"])
    assert maths["rerun"].value_counts().sort("rerun").rows() == [(0, 20), (1, 20)]
    assert set(logs["bbq"].examples["answer"]) <= set("ABC")
    assert logs["bbq"].examples["choice"].null_count() == 0


def test_what_inspect_left_unscored_is_nan_and_no_answer_is_wrong(read: Read) -> None:
    maths = read(FILES / "inspect_ai" / "eval" / "w4a16")["maths"]
    texts = maths.scan_texts().select("row", "text").collect()
    refused = maths.examples.join(texts, on="row").filter(pl.col("text").str.contains("sorry"))
    assert refused.height > 0
    assert refused["score.parts.polite"].is_nan().all()
    assert refused["score.graded"].to_list() == [0.0] * refused.height


def test_both_forms_of_an_inspect_log_say_the_same(read: Read) -> None:
    zipped = read(FILES / "inspect_ai" / "eval" / "w4a16")["bbq"]
    plain = read(FILES / "inspect_ai" / "json" / "w4a16")["bbq"]
    assert zipped.settings == plain.settings
    kept = [name for name in zipped.examples.columns if name != "row"]
    assert zipped.examples.select(kept).equals(plain.examples.select(kept))


def test_helm_gives_perturbed_examples_of_their_own(read: Read) -> None:
    (log,) = read(FILES / "helm" / "run", attributes=["perturbation", "split"]).values()
    assert log.task == "simple_mcqa:data_augmentation=lower"
    assert (log.model, log.format) == ("simple/model1", "helm")
    assert log.examples["example_id"].n_unique() == log.examples.height == 12
    assert log.examples["perturbation"].to_list() == [None, "lowercase"] * 6
    assert log.scores[0] == "exact_match"
    assert log.settings["few_shot"] == "5"
    stats = json.loads((FILES / "helm" / "run" / "per_instance_stats.json").read_text())
    for row, example in zip(stats, log.examples.iter_rows(named=True), strict=True):
        by_name = {one["name"]["name"]: one for one in row["stats"]}
        assert example["score.exact_match"] == by_name["exact_match"]["sum"]
        assert example["score.num_prompt_tokens"] == by_name["num_prompt_tokens"]["mean"]
    assert log.examples["target"].to_list()[:2] == ["Even", "Even"]
    assert log.examples["prompt_hash"][0] != log.examples["prompt_hash"][1]


@pytest.mark.parametrize("chosen", ["strict-match", "flexible-extract"])
def test_a_converted_log_says_the_same_as_the_log_it_was_made_of(read: Read, chosen: str) -> None:
    """every_eval_ever converted the logs of lm_eval: scores and hashes must be those."""
    native = read(FILES / "lm_eval" / "w4a16", filter=chosen)["maths_local"].examples
    log = read(FILES / "every_eval_ever" / "w4a16", filter=chosen)["maths_local"]
    assert (log.format, log.model) == ("every-eval-ever", "org/w4a16")
    assert log.examples["score.exact_match"].to_list() == native["score.exact_match"].to_list()
    assert log.examples["content_hash"].to_list() == native["content_hash"].to_list()
    assert log.examples["answer"].to_list() == native["answer"].to_list()
    assert "which drops the attributes in doc" in log.notes[0]


def test_a_converted_log_without_a_number_is_unscored(read: Read) -> None:
    """The converter writes score 0 and is_correct false where no metric is a number."""
    log = read(FILES / "every_eval_ever" / "bf16", filter="strict-match")["text_local"]
    assert log.scores == ()


def test_a_table_of_mlflow_is_read_by_what_was_asked(read: Read) -> None:
    logs = [read(FILES / "mlflow" / model)["eval_results_table"] for model in MODELS]
    path = FILES / "mlflow" / "w4a16" / "eval_results_table.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    examples = logs[1].examples
    assert (logs[1].format, logs[1].model) == ("mlflow", "w4a16")
    assert logs[1].scores == ("exact/v1/score",)
    assert examples["score.exact/v1/score"].to_list() == [row["exact/v1/score"] for row in rows]
    assert examples["answer"].to_list() == [row["outputs"] for row in rows]
    assert examples["target"].to_list() == [row["ground_truth"] for row in rows]
    assert pair(*logs).examples == 20


@pytest.mark.parametrize("model", MODELS)
def test_scores_of_lighteval_average_to_what_it_says(read: Read, model: str) -> None:
    logs = read(FILES / "lighteval" / model, attributes=["doc.specific.category"])
    (path,) = (FILES / "lighteval" / model).rglob("results_*.json")
    said = json.loads(path.read_text(encoding="utf-8"))["results"]
    bbq, maths = logs["own_bbq|0"], logs["own_maths|0"]
    assert bbq.examples["score.acc"].mean() == pytest.approx(said["own_bbq|0"]["acc"])
    assert maths.examples["score.em"].mean() == said["own_maths|0"]["em"]
    assert (bbq.format, bbq.model) == ("lighteval", model)
    assert bbq.settings["generation"] == '{"temperature": 0}'
    assert bbq.examples["doc.specific.category"].n_unique() == 3
    right = bbq.examples["answer"] == bbq.examples["target"]
    assert right.cast(pl.Float64).to_list() == bbq.examples["score.acc"].to_list()
    assert maths.examples["answer"].str.contains("#### |sorry").all()
    assert bbq.examples["text_length"].null_count() == 24
