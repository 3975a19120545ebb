"""`scotoma compare --pair-by ID --across LANGUAGE`: the same questions in several languages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from scotoma.comparison.means import score_table
from scotoma.comparison.strata import Strata, stratum_losses
from scotoma.run import read_json
from tests.comparison.logs import DATE
from tests.helpers.commands import measured, scotoma

QUESTIONS = 400
LANGUAGES = {"en": 0.02, "de": 0.02, "sw": 0.25, "th": 0.02}  # how often right becomes wrong
PAIRED = ("--pair-by", "doc.question_id", "--across", "lang")
Scores = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def scores() -> tuple[Scores, Scores]:
    """Right and wrong of two models by language, as hard questions are hard in every one."""
    rng = np.random.default_rng(3)
    able = rng.beta(4, 1.5, QUESTIONS)
    before = {lang: (rng.random(QUESTIONS) < able).astype(float) for lang in LANGUAGES}
    after = {
        lang: np.where(rng.random(QUESTIONS) < lost, 0.0, before[lang])
        for lang, lost in LANGUAGES.items()
    }
    return before, after


def write(
    folder: Path,
    scores: Scores,
    kept: Callable[[str, int], bool] = lambda lang, i: True,
    called: Callable[[str, int], object] = lambda lang, i: f"q{i}",
) -> Path:
    """Write a log of lm-evaluation-harness in all languages."""
    rows = [
        {
            "doc_id": f"{lang}-{i}", "doc": {"question_id": called(lang, i), "lang": lang},
            "target": "1", "arguments": [[f"{i} in {lang}?", {}]], "resps": [[str(right)]],
            "filtered_resps": [str(right)], "filter": "none", "metrics": ["acc"],
            "doc_hash": f"{lang}{i}", "prompt_hash": f"p{lang}{i}", "target_hash": "t",
            "acc": float(right),
        }
        for lang, own in scores.items()
        for i, right in enumerate(own.tolist())
        if kept(lang, i)
    ]  # fmt: skip
    folder.mkdir(parents=True)
    path = folder / f"samples_mgsm_{DATE}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, scores: tuple[Scores, Scores]) -> list[Path]:
    home = tmp_path_factory.mktemp("languages")
    return [write(home / name, own) for name, own in zip(("bf16", "int4"), scores, strict=True)]


def test_the_loss_beyond_the_reference_is_that_of_a_paired_t_test(
    logs: list[Path], scores: tuple[Scores, Scores]
) -> None:
    (whole,) = measured("compare", *logs, *PAIRED)["comparisons"]
    found, (before, after) = whole["strata"], scores
    assert whole["examples"] == QUESTIONS * len(LANGUAGES)
    flipped = sum(int((before[lang] != after[lang]).sum()) for lang in LANGUAGES)
    assert whole["flips"][0]["count"] == pytest.approx(flipped)
    assert (found["reference"], found["questions"]) == ("lang=en", QUESTIONS)
    moved = {lang: before[lang] - after[lang] for lang in LANGUAGES}
    others = [lang for lang in LANGUAGES if lang != "en"]
    p = {lang: stats.ttest_rel(moved[lang], moved["en"]).pvalue for lang in others}
    ranked = sorted(others, key=lambda lang: p[lang])
    adjusted = np.maximum.accumulate([p[lang] * (3 - at) for at, lang in enumerate(ranked)])
    holm = dict(zip(ranked, adjusted.clip(max=1), strict=True))
    for row in found["strata"]:
        lang = row["group"].removeprefix("lang=")
        assert row["loss"]["value"] == pytest.approx(moved[lang].mean())
        if lang == "en":
            assert row["beyond"] is None
            continue
        beyond = moved[lang] - moved["en"]
        own = stats.ttest_1samp(beyond, 0).confidence_interval(1 - 0.05 / 3)
        assert row["beyond"]["value"] == pytest.approx(beyond.mean())
        # The floor of flips that were not seen makes it no shorter, and little longer.
        half = (own.high - own.low) / 2
        assert half * 0.99 <= row["beyond"]["high"] - row["beyond"]["value"] <= 1.25 * half
        assert (row["p_adjusted"] <= 0.05) == (holm[lang] <= 0.05)
    assert found["worst"] == "lang=sw"


def test_scores_that_are_numbers_have_the_interval_of_a_t_test(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    sides = [{lang: rng.normal(at, 1, 90) for lang in LANGUAGES} for at in (0.0, -0.2)]
    places = [write(tmp_path / str(at), own) for at, own in enumerate(sides)]
    (one,) = measured("compare", *places, *PAIRED, "--reference", "th")["comparisons"]
    before, after = sides
    for row in one["strata"]["strata"][1:]:
        lang = row["group"].removeprefix("lang=")
        beyond = (before[lang] - after[lang]) - (before["th"] - after["th"])
        assert row["beyond"]["value"] == pytest.approx(beyond.mean())
        assert row["beyond"]["se"] == pytest.approx(stats.sem(beyond))


def test_intervals_hold_for_all_strata_together() -> None:
    """Where all lose alike, no interval lies beyond 0 in at least 95% of evaluations."""
    rng, missed, audits = np.random.default_rng(7), 0, 400
    lang = pl.Series([name for name in LANGUAGES for _ in range(150)])
    for _ in range(audits):
        before = rng.random((4, 150)) < rng.beta(4, 1.5, 150)
        after = np.where(rng.random((4, 150)) < 0.08, ~before, before)
        table = score_table(before.ravel(), after.ravel(), [*range(150)] * 4)
        found = stratum_losses(table, lang, Strata("lang", "id", "en"), lower_is_better=False)
        intervals = [row.beyond for row in found.strata if row.beyond is not None]
        missed += any(not row.low <= 0 <= row.high for row in intervals)
    assert stats.binomtest(missed, audits, 0.05, alternative="greater").pvalue > 0.001


def test_the_verdict_judges_strata_and_a_folder_holds_the_same(
    logs: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    asked = ("compare", *logs, *PAIRED, "--margin", "0.05")
    (alone,) = measured(*asked)["gate"]["variants"]
    gaps = {one["group"]: one for one in alone["tests"] if one["rule"] == "error_gap"}
    assert set(gaps) == {"lang=de", "lang=sw", "lang=th"}
    assert gaps["lang=sw"]["verdict"] == "FAIL"
    assert gaps["lang=de"]["verdict"] == "PASS"
    code, text, err = scotoma(*asked, "--out", out, "--gate")
    assert code == 1, err
    shown = " ".join(text.split())
    assert "Worst (*): lang=sw loses" in shown
    assert "more than lang=en, on the same 400 questions" in shown
    (whole,) = read_json(out / "gate.json")["variants"]
    assert whole["sentences"] == alone["sentences"]
    for own, other in zip(whole["tests"], alone["tests"], strict=True):
        assert (own["where"], own["verdict"]) == (other["where"], other["verdict"])
        assert own["absolute"]["low"] == pytest.approx(other["absolute"]["low"])
    assert "beyond en" in (out / "report.html").read_text()
    assert scotoma("verify", out)[0] == 0
    judged = measured("gate", out, "--margin", "0.05", code=1)  # asks the same again
    assert judged["variants"][0]["sentences"] == whole["sentences"]
    (usual,) = measured("gate", out, code=1)["variants"]
    rules = {test["rule"] for test in usual["tests"]}
    assert rules == {"error_all", "error_groups", "error_gap"}


def test_languages_may_be_tasks_and_questions_their_ids(
    tmp_path: Path, scores: tuple[Scores, Scores], logs: list[Path]
) -> None:
    for name, side in zip(("a", "b"), scores, strict=True):
        for lang, own in side.items():
            folder = write(tmp_path / name / lang, {lang: own})
            (path,) = folder.iterdir()
            text = path.read_text().replace(f'"doc_id": "{lang}-', '"doc_id": "')
            (folder / f"samples_mgsm_{lang}_{DATE}.jsonl").write_text(text)
            path.unlink()
    asked = ("--pair-by", "doc_id", "--across", "task", "--reference", "mgsm_en")
    tasks = measured("compare", tmp_path / "a", tmp_path / "b", *asked)["comparisons"][0]["strata"]
    whole = measured("compare", *logs, *PAIRED)["comparisons"][0]["strata"]
    assert tasks["worst"] == "task=mgsm_sw"
    numbers = [[(row["loss"], row["beyond"]) for row in one["strata"]] for one in (tasks, whole)]
    assert numbers[0] == numbers[1]


def test_reruns_are_rows_of_their_question(
    tmp_path: Path, scores: tuple[Scores, Scores], logs: list[Path]
) -> None:
    sides = zip(("bf16", "int4"), scores, strict=True)
    for name, own in sides:
        for k in range(2):
            write(tmp_path / name / f"r{k}" / "org__m", own)
    places = [tmp_path / name / f"r{k}" for name in ("bf16", "int4") for k in range(2)]
    out = tmp_path / "run"
    both = measured("compare", *places, "--reruns", *PAIRED, "--out", out)
    one = measured("compare", *logs, *PAIRED)
    kept = [[row["beyond"] for row in found["comparisons"][0]["strata"]["strata"][1:]]
            for found in (both, one)]  # fmt: skip
    for twice, once in zip(*kept, strict=True):
        assert twice["value"] == pytest.approx(once["value"])
        assert twice["n"] == once["n"] == QUESTIONS
    assert both["comparisons"][0]["floor"]["within"]["value"] == 0
    (alone,) = measured("compare", *places, "--reruns", *PAIRED)["gate"]["variants"]
    assert both["gate"]["variants"][0]["sentences"] == alone["sentences"]


def test_what_is_not_in_all_languages_is_refused_or_left_out(
    tmp_path: Path, scores: tuple[Scores, Scores]
) -> None:
    def in_all(lang: str, i: int) -> bool:
        return lang != "sw" or i % 4 > 0

    sides = [write(tmp_path / f"{at}", own, in_all) for at, own in enumerate(scores)]
    code, _, err = scotoma("compare", *sides, *PAIRED)
    assert code == 4
    sentence = "100 of 400 are not in all, the first is doc.question_id 'q0', which is not in 'sw';"
    assert sentence in " ".join(err.split())
    found = measured("compare", *sides, *PAIRED, "--allow-missing")
    assert found["comparisons"][0]["strata"]["questions"] == 300
    assert any("left out: 300 answers" in note["sentence"] for note in found["admission"])


def test_a_question_asked_twice_in_one_language_is_told(tmp_path: Path) -> None:
    once = {lang: np.ones(20) for lang in LANGUAGES}

    def called(lang: str, i: int) -> str:
        return "q3" if lang == "sw" and i == 4 else f"q{i}"

    asked = []
    for kind, names in (("once", lambda lang, i: f"q{i}"), ("twice", called)):
        sides = [write(tmp_path / kind / str(k), once, called=names) for k in range(2)]
        found = measured("compare", *sides, *PAIRED, "--allow-missing")
        asked.append([one["sentence"] for one in found["admission"] if "once" in one["sentence"]])
    assert asked == [
        [],
        [
            "questions asked more than once in one lang: 1, the first is doc.question_id 'q3', 2 "
            "times in sw; all answers count"
        ],
    ]


@pytest.mark.parametrize("harmed", [False, True])
def test_one_common_question_is_unsure(tmp_path: Path, harmed: bool) -> None:
    """The only cluster: nothing varies, and one half of a search is empty."""

    def in_all(lang: str, i: int) -> bool:
        return lang == "en" or i % 4 == list(LANGUAGES).index(lang) or i == 0

    sides = [{lang: np.ones(80) for lang in LANGUAGES} for _ in range(2)]
    sides[1]["sw"] = sides[1]["sw"] - harmed
    places = [write(tmp_path / str(at), own, in_all) for at, own in enumerate(sides)]
    asked = ("compare", *places, *PAIRED, "--reference", "en", "--allow-missing")
    found = measured(*asked)
    (one,) = found["comparisons"]
    assert (one["strata"]["questions"], one["examples"]) == (1, 4)
    assert [row["loss"]["value"] for row in one["strata"]["strata"] if "sw" in row["group"]] == [
        float(harmed)
    ]
    assert all(row["loss"]["low"] is None for row in one["strata"]["strata"])
    assert [variant["verdict"] for variant in found["gate"]["variants"]] == ["UNSURE"]
    assert "on the same 1 question;" in " ".join(scotoma(*asked)[1].split())


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--pair-by", "question_id"), 2, "strata need --pair-by, which names the question, and"),
        (("--across", "lang"), 2, "got no question and lang; name both"),
        (("--pair-by", "question", "--across", "lang"), 2, "--pair-by names 'question', which the"),
        (("--pair-by", "question_id", "--across", "tongue"), 2, "--across names 'tongue', which"),
        (
            (*PAIRED, "--reference", "fr"),
            2,
            "must be a value of lang, which has 'de', 'en', 'sw', 'th', got 'fr'; name one of them",
        ),
        (("--pair-by", "question_id", "--across", "task"), 4, "--across task must have at least"),
        (("--pair-by", "doc_id", "--across", "lang"), 4, "no question is in all of en, de, sw, th"),
    ],
)
def test_what_forms_no_strata_is_refused(
    logs: list[Path], options: tuple[str, ...], code: int, sentence: str
) -> None:
    ended, _, err = scotoma("compare", *logs, *options)
    assert sentence in " ".join(err.split())
    assert ended == code
