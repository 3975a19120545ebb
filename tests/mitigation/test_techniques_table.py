"""What is said of techniques: the docs' table, what can be asked for, and what rules need."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from scotoma.config.mitigation import Contestant, Mitigation
from scotoma.config.techniques import AFTERWARDS, REFITS, TECHNIQUES, TRAINED
from scotoma.mitigation.decide import rule_needs

DOCS = Path(__file__).resolve().parents[2] / "docs"


def techniques_table() -> str:
    """The techniques of training as a table in Markdown, for docs/fix.md."""
    rows = ["| technique | training | groups in training | groups at test | source |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for name, one in TECHNIQUES.items():
        if name in TRAINED:
            cells = (f"`{name}`", one.words, one.train_groups, one.test_groups, one.source)
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def test_the_docs_show_the_table() -> None:
    assert techniques_table() in (DOCS / "fix.md").read_text(encoding="utf-8")


def test_only_what_trains_can_be_asked_for() -> None:
    for name, facts in TECHNIQUES.items():
        attribute = None if facts.train_groups == "no" else "style"
        for kind, known in ((Mitigation, TRAINED), (Contestant, TRAINED + REFITS)):
            if name in known:
                assert kind(technique=name, attribute=attribute).technique == name
            else:
                with pytest.raises(ValidationError, match="Input should be 'RS', 'SUBG'"):
                    kind(technique=name, attribute=attribute)


def test_every_setting_is_of_a_technique_and_is_said_to_be() -> None:
    """What the registry says of a setting, against the names before the colon in its words."""
    owned = {key for facts in TECHNIQUES.values() for key in facts.settings}
    assert owned == set(Mitigation.model_fields) - {"technique", "attribute"}
    for key in owned - {"protocol"}:
        names, _, _ = str(Mitigation.model_fields[key].description).partition(":")
        owners = [name for name, facts in TECHNIQUES.items() if key in facts.settings]
        assert names.split(", ") == owners


def test_needs_at_test_time_are_those_of_the_rules() -> None:
    for name, facts in TECHNIQUES.items():
        if facts.slot == "heads" or name in AFTERWARDS:
            own = rule_needs(name)
            assert (facts.test_groups != "no") is (own.attributes == "each example")
            assert (facts.test_groups == "transductive") is own.transductive
        if name in AFTERWARDS:
            assert (facts.train_groups == "no") is (own.attributes == "never")
