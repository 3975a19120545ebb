"""Columns of codes: with --categorical the slices of the words that they stand for are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.slices.asking import measured, scotoma

pytestmark = pytest.mark.slow

JOBS = [f"job {letter}" for letter in "abcdefghij"]
REGIONS = [f"region {letter}" for letter in "abcdefgh"]
PLANTS = [(3, 5), (7, 2), (8, None), (None, 3), (5, 6), (None, 6)]
FEATURES = ("--feature", "job", "--feature", "region", "--feature", "age", "--permutations", "3")
CODES = ("--categorical", "job", "--categorical", "region")


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    n = 8000
    return {
        "job": rng.integers(0, len(JOBS), n), "region": rng.integers(0, len(REGIONS), n),
        "age": rng.integers(18, 80, n), "draw": rng.random(n),
    }  # fmt: skip


def found(path: Path, *more: str) -> list[tuple[str, int]]:
    """Each slice as it is written, and how many examples its effect is of."""
    told = measured("slices", path, "--outcome", "wrong", *FEATURES, *more)
    return [(one["text"], one["effect"]["n"]) for one in told["slices"]]


def is_found(plant: tuple[int | None, int | None], slices: list[tuple[str, int]]) -> bool:
    """Whether a slice is the planted one: its conditions as words."""
    words = {"job": JOBS, "region": REGIONS}
    text = " and ".join(
        f"{column} = {words[column][code]}"
        for column, code in zip(words, plant, strict=True)
        if code is not None
    )
    return text in {one for one, _ in slices}


@pytest.mark.parametrize("plant", PLANTS)
def test_codes_named_as_names_are_searched_as_the_words_are(
    plant: tuple[int | None, int | None], people: dict[str, np.ndarray], tmp_path: Path
) -> None:
    job, region = plant
    bad = np.ones(len(people["job"]), bool)
    for column, code in (("job", job), ("region", region)):
        bad &= people[column] == code if code is not None else True
    wrong = (people["draw"] < np.where(bad, 0.75, 0.1)).astype(int)
    numbers = {"age": people["age"], "wrong": wrong}
    codes = {"job": 110 + 7 * people["job"], "region": 1000 + 13 * people["region"]}
    words = {"job": [JOBS[at] for at in people["job"]],
             "region": [REGIONS[at] for at in people["region"]]}  # fmt: skip
    spelled, coded = tmp_path / "words.csv", tmp_path / "codes.csv"
    pl.DataFrame(words | numbers).write_csv(spelled)
    pl.DataFrame(codes | numbers).write_csv(coded)
    with_words, with_codes = found(spelled), found(coded, *CODES)
    assert is_found(plant, with_words)
    name = {str(110 + 7 * at): one for at, one in enumerate(JOBS)}
    name |= {str(1000 + 13 * at): one for at, one in enumerate(REGIONS)}
    decoded = [
        (" ".join(name.get(word, word) for word in text.split()), n) for text, n in with_codes
    ]
    assert sorted(decoded) == sorted(with_words)
    # Without the option codes are ordered numbers: the slice is found, or the way to it is told.
    plain = [
        (" ".join(name.get(word, word) for word in text.split()), n) for text, n in found(coded)
    ]
    _, out, err = scotoma("slices", coded, "--outcome", "wrong", *FEATURES)
    assert is_found(plant, plain) or "--categorical" in out + err
