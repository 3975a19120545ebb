"""Variants are measured side by side, and nothing shows it."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scotoma.errors import DataError
from scotoma.predictions import Predictions
from scotoma.steps.measures import pairs as measures

NAMES = ("prune-0.5", "int8-static", "prune-0.9")
NOTHING = Predictions("dense", np.zeros((0, 1), np.uint8), (), (0,), ("a", "b"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    variants = [SimpleNamespace(name=name) for name in ("dense", *NAMES)]
    pairs = (SimpleNamespace(compressed=replace(NOTHING, variant=name)) for name in NAMES)
    monkeypatch.setattr(measures, "comparisons", lambda run, examples, dense: pairs)
    return SimpleNamespace(config=SimpleNamespace(resolved_variants=variants))


def test_the_first_variant_comes_first_even_if_the_second_is_done_before_it(run: Any) -> None:
    second = threading.Event()

    def measure(comparison: Any) -> str:
        name: str = comparison.compressed.variant
        if name == "prune-0.5":
            assert second.wait(10)  # two are under way at once
        second.set()
        return name.upper()

    found = measures.measure_variants(run, None, "measure", measure, NOTHING)
    assert list(found.items()) == [(name, name.upper()) for name in NAMES]


def test_what_a_measure_refuses_is_raised_as_it_is(run: Any) -> None:
    def measure(comparison: Any) -> None:
        if comparison.compressed.variant == "int8-static":
            raise DataError("int8-static must be whole")

    with pytest.raises(DataError, match=r"^int8-static must be whole$"):
        measures.measure_variants(run, None, "measure", measure, NOTHING)
