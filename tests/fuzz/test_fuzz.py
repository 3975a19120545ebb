"""What comes from outside ends in a result or one sentence: a few inputs of each reader."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import pytest

from scotoma.errors import DataError
from tests.fuzz.harness import Watch, fuzz
from tests.fuzz.mutate import mutants
from tests.fuzz.targets import CORPUS, TARGETS, Target, seeds

SEED = 12


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()  # an audit hook cannot be taken away again


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.quick])
def test_a_reader_gives_a_result_or_a_sentence(name: str, watch: Watch, tmp_path: Path) -> None:
    target = TARGETS[name]
    tally = fuzz(target, tmp_path, watch, seed=SEED, inputs=target.quick, seconds=60)
    assert tally.failures == {}
    assert tally.tried == max(target.quick, len(seeds(target))) + len(target.bombs)
    assert tally.results + tally.refused == tally.tried


def test_every_folder_of_the_corpus_has_a_reader() -> None:
    assert {path.name for path in CORPUS.iterdir()} - {"gated"} <= {
        target.corpus for target in TARGETS.values()
    }
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 240_000


def test_the_same_seed_spoils_in_the_same_way() -> None:
    known, words = [b"one: two", b"three"], [b"&a", b"*a"]
    first, again, other = (list(islice(mutants(known, words, s), 99)) for s in (1, 1, 2))
    assert first == again != other
    assert first[:2] == known
    assert len(set(first)) > 60


FAULTS = {
    "ZeroDivisionError": lambda data, folder: 1 / 0,
    "no sentence": lambda data, folder: (_ for _ in ()).throw(DataError("no")),
    "did os.system": lambda data, folder: os.system("true"),
    "did wrote": lambda data, folder: (folder.parent / "elsewhere").write_text(""),
    "did pickle.find_class": lambda data, folder: __import__("pickle").loads(b"cmath\nsin\n."),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_harness_hears_of_what_no_reader_may_do(
    fault: str, watch: Watch, tmp_path: Path
) -> None:
    tally = fuzz(Target(FAULTS[fault], "place"), tmp_path, watch, seed=0, inputs=1, seconds=9)
    assert any(fault in said for said in tally.failures), tally


def test_the_harness_ends_what_hangs(
    monkeypatch: pytest.MonkeyPatch, watch: Watch, tmp_path: Path
) -> None:
    def forever(data: bytes, folder: Path) -> None:
        while True:
            pass

    monkeypatch.setattr("tests.fuzz.harness.SECONDS", 0.05)
    tally = fuzz(Target(forever, "place"), tmp_path, watch, seed=0, inputs=1, seconds=1)
    assert any("Hang" in said for said in tally.failures)
