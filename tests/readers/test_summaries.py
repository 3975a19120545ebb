"""Results that keep no samples: what they show, and the flag that would have kept them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm

from tests.helpers.commands import measured, scotoma, stderr_of
from tests.readers.conftest import FILES

pytestmark = pytest.mark.slow

Content = dict[str, Any] | list[Any]


def lm_eval(acc: float, error: float = 0.05) -> Content:
    scores = {"alias": "arc", "acc,none": acc, "acc_stderr,none": error}
    return {"results": {"arc": scores}, "n-samples": {"arc": {"original": 90, "effective": 80}}}


def lm_eval_3(acc: float) -> Content:
    return {"results": {"arc": {"acc": acc, "acc_stderr": 0.05}}, "versions": {"arc": 0}}


def lighteval(acc: float) -> Content:
    scores = {"acc": acc, "acc_stderr": 0.05}
    return {
        "config_general": {}, "results": {"arc": scores, "all": scores},
        "config_tasks": {"arc": {"effective_num_docs": -1}},
    }  # fmt: skip


def inspect(acc: float) -> Content:
    metrics = {"accuracy": {"value": acc}, "stderr": {"value": 0.05}}
    scores = [{"name": "match", "metrics": metrics, "scored_samples": 80}]
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "arc"},
        "results": {"scores": scores},
    }


def every_eval_ever(acc: float) -> Content:
    uncertainty = {"standard_error": {"value": 0.05}, "num_samples": 80}
    one = {
        "evaluation_name": "arc", "metric_config": {"metric_name": "acc"},
        "score_details": {"score": acc, "uncertainty": uncertainty},
    }  # fmt: skip
    return {"schema_version": "0.3.0", "evaluation_results": [one]}


def helm(acc: float) -> Content:
    def stat(name: str, mean: float, **more: object) -> dict[str, Any]:
        return {"name": {"name": name, "split": "test", **more}, "count": 1, "mean": mean}

    other = stat("exact_match", 0.1, perturbation={"name": "robustness"})
    return [stat("exact_match", acc), other, stat("num_instances", 80), stat("num_references", 4)]


def scores(acc: float) -> Content:
    return {"arc": acc}


def nested(acc: float) -> Content:
    return {"arc": {"acc": acc, "acc_stderr": 0.05, "n": 80}}


def written(folder: Path, name: str, content: Content) -> Path:
    (folder / "arc").mkdir(parents=True)
    (folder / "arc" / name).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("tool", "name", "score", "n", "way_out"),
    [
        (lm_eval, "results_2026-01-01.json", "acc", 80, "run lm_eval again with --log_samples"),
        (lm_eval, "20260101_000000_results.json", "acc", 80, "--log_samples"),
        (lm_eval_3, "out.json", "acc", None, "--log_samples"),
        (lighteval, "results_2026-01-01.json", "acc", None, "lighteval again with --save-details"),
        (inspect, "log.json", "match.accuracy", 80, "again without --no-log-samples"),
        (every_eval_ever, "a.json", "acc", 80, "name its file of samples"),
        (helm, "stats.json", "exact_match,test", 80, "keep per_instance_stats.json of the run"),
        (nested, "scores.json", "acc", 80, "evaluate with a tool that keeps samples"),
    ],
)
def test_averages_show_their_difference_and_no_verdict(
    tmp_path: Path, tool: Any, name: str, score: str, n: int | None, way_out: str
) -> None:
    places = [written(tmp_path / side, name, tool(acc)) for side, acc in (("a", 0.75), ("b", 0.6))]
    (found,) = measured("compare", *places)["comparisons"]
    (one,) = found["averages"]
    assert (one["task"], one["metric"], one["n"]) == ("arc", score, n)
    assert (found["verdict"], one["before"], one["after"]) == ("UNSURE", 0.75, 0.6)
    error = ((0.75 * 0.25 + 0.6 * 0.4) / 79) ** 0.5 if tool is helm else 0.05 * 2**0.5
    assert one["change"] == pytest.approx(-0.15)
    assert [one["low"], one["high"]] == pytest.approx(norm.interval(0.95, -0.15, error))
    # The power of a test at 2.5% of a loss of this size is 80%.
    assert norm.cdf(one["smallest"] / error - norm.ppf(0.975)) == pytest.approx(0.8)
    code, out, _ = scotoma("compare", *places)
    text = " ".join(out.split())
    assert code == 0
    assert "UNSURE b: averages do not show which examples changed" in text
    assert way_out in text
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    "content", [lambda acc: lm_eval(acc, "N/A"), lambda acc: {"arc": 100 * acc}]
)
def test_averages_without_n_or_error_say_why_they_have_no_interval(
    tmp_path: Path, content: Any
) -> None:
    places = [
        written(tmp_path / side, "scores.json", content(acc))
        for side, acc in (("a", 0.5), ("b", 1))
    ]
    if "results" in content(0.5):
        for place in places:  # without the number of examples, either
            text = (place / "arc" / "scores.json").read_text()
            (place / "arc" / "scores.json").write_text(text.replace("effective", "other"))
    (found,) = measured("compare", *places)["comparisons"]
    (one,) = found["averages"]
    assert one["change"] in (0.5, 50)
    assert (one["low"], one["high"], one["smallest"]) == (None, None, None)
    assert one["reason"].startswith("the files hold no standard error")
    assert "No interval for arc" in scotoma("compare", *places)[1]


def test_where_all_are_right_the_interval_is_not_empty(tmp_path: Path) -> None:
    places = [written(tmp_path / side, "results.json", lm_eval(1.0, 0.0)) for side in "ab"]
    (one,) = measured("compare", *places)["comparisons"][0]["averages"]
    assert one["low"] < -0.02
    assert one["high"] > 0.02


def test_averages_of_a_named_file_and_the_file_of_a_model_beside_it(tmp_path: Path) -> None:
    """Numbers by name are scores in a file that was named, not in any of a folder."""
    places = [written(tmp_path / side, "config.json", {"hidden_size": 768}) for side in "ab"]
    code, _, err = scotoma("compare", *places)
    assert (code, "holds no log of an evaluation" in err) == (2, True)
    files = [place / "arc" / "config.json" for place in places]
    assert measured("compare", *files)["comparisons"][0]["averages"][0]["task"] == "hidden_size"


@pytest.mark.parametrize("option", [("--group", "age"), ("--out", "run"), ("--reruns",)])
def test_what_needs_samples_is_refused_with_the_flag_that_keeps_them(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    places = [written(tmp_path / side, "results.json", lm_eval(0.5)) for side in "ab"]
    code, _, err = scotoma("compare", *places, *option)
    assert (code, "\n" in err.strip()) == (2, False)
    assert f"{option[0]} needs samples, and results.json holds averages" in err
    assert err.strip().endswith("run lm_eval again with --log_samples")


def test_samples_of_one_model_and_averages_of_the_other(tmp_path: Path) -> None:
    (log,) = (FILES / "lm_eval" / "bf16").rglob("samples_bbq*")
    place = written(tmp_path / "b", "results.json", lm_eval(0.5))
    err = stderr_of("compare", log, place, code=4)
    assert "holds no averages, and results.json has no samples; run lm_eval again with --log" in err


def test_averages_of_real_tools_are_theirs(tmp_path: Path) -> None:
    sides = []
    for side in ("bf16", "w4a16"):
        (path,) = (FILES / "lm_eval" / side).rglob("results_*")
        sides.append(written(tmp_path / side, path.name, json.loads(path.read_text())))
    (found,) = measured("compare", *sides, "--tasks", "bbq_local", "--score", "acc")["comparisons"]
    (one,) = found["averages"]
    logged = [json.loads(next(place.rglob("*.json")).read_text())["results"] for place in sides]
    before, after = (one["bbq_local"] for one in logged)
    assert (one["n"], one["before"], one["after"]) == (24, before["acc,none"], after["acc,none"])
    error = (before["acc_stderr,none"] ** 2 + after["acc_stderr,none"] ** 2) ** 0.5
    assert one["high"] - one["change"] == pytest.approx(norm.ppf(0.975) * error)


def test_predictions_without_scores_are_refused_here_too(tmp_path: Path) -> None:
    content = {"results": {"arc": {"bypass,none": 999, "bypass_stderr,none": "N/A"}}}
    places = [written(tmp_path / side, "results.json", content) for side in "ab"]
    code, _, err = scotoma("compare", *places)
    assert (code, "run lm_eval again without --predict_only" in err) == (4, True)
