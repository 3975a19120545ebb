"""What is said of techniques: the docs' table, what can be asked for, and what rules need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from scotoma.config.mitigation import Contestant, Mitigation
from scotoma.config.techniques import AFTERWARDS, REFITS, TECHNIQUES, TRAINED
from scotoma.mitigation.decide import rule_needs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_docs_list_what_trains() -> None:
    listed = re.findall(
        r"^- `([\w-]+)`: .*\)$", PAGE.read_text("utf-8").partition("## Tech")[2], re.M
    )
    assert listed == list(TRAINED)


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
