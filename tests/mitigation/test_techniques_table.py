"""What is said of techniques: every one that can be asked for, and the same in the docs."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from scotoma.config.mitigation import TEST_GROUPS, WITHOUT_GROUPS, Technique
from scotoma.mitigation.decide import rule_needs
from scotoma.mitigation.techniques import TECHNIQUES, techniques_table

DOCS = Path(__file__).resolve().parents[2] / "docs" / "mitigation.md"


def test_the_docs_show_the_table() -> None:
    assert techniques_table() in DOCS.read_text(encoding="utf-8")


def test_every_technique_that_can_be_asked_for_has_a_row() -> None:
    built = {one.name: one for one in TECHNIQUES if one.built}
    assert set(built) == set(get_args(Technique))
    for name, facts in built.items():
        assert (facts.train_groups == "no") is (name in WITHOUT_GROUPS)
        assert (facts.test_groups != "no") is (name in TEST_GROUPS)


def test_needs_at_test_time_are_those_of_the_rules() -> None:
    for facts in TECHNIQUES:
        if facts.name[:2] in ("DD", "DI"):
            own = rule_needs(facts.name)
            assert (facts.test_groups != "no") is (own.attributes == "each example")
            assert (facts.test_groups == "transductive") is own.transductive
