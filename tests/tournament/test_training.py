"""`scotoma tournament CONFIG`: what it trains, and what it refuses before it trains anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scotoma.config import load_config
from scotoma.run import Run
from tests.commands import scotoma
from tests.steps import steps_in_this_process

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits-s-tournament.yaml"
CONFIG = """\
version: 1
project: three
source:
  kind: digits-s
  styled: dim
  recipe: {steps: 60}
label: {column: digit}
groups:
  style: {column: style}
cluster: {column: source_id}
variants: [dense, {prune: [0.8]}]
population: {models: 8, seed: 0}
tracking: {uri: "off"}
tournament:
  techniques: [RS, DI1, DI2]
  attribute: style
"""


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("models: 8", "models: 7",
         "a tournament needs 8 runs of each technique, got population.models 7: raise it"),
        ("tournament:\n  techniques: [RS, DI1, DI2]\n  attribute: style\n", "",
         "configuration three.yaml has no section tournament; add tournament.techniques"),
        ("[RS, DI1, DI2]", "[RS, RS]", "tournament.techniques names RS twice; keep one of them"),
        ("  attribute: style\n", "",
         "mitigation.technique RS needs an attribute, got none; name one of groups as "
         "mitigation.attribute"),
        ("attribute: style", "attribute: stile",
         "mitigation.attribute 'stile' is not among groups ['style']; did you mean 'style'?"),
        ("tournament:", "mitigation: {technique: RS, attribute: style}\ntournament:",
         "tournament trains a baseline without mitigation; leave out one of the two"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_tournament_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert before in CONFIG
    Path("three.yaml").write_text(CONFIG.replace(before, after))
    code, out, err = scotoma("tournament", "three.yaml")
    assert (code, out) == (2, "")
    assert err.rstrip().endswith(sentence)
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["three.yaml"]


def test_each_technique_has_a_configuration_of_its_own() -> None:
    config = load_config(EXAMPLE)
    each = config.contestants()
    assert list(each) == ["base", *config.tournament.techniques]  # type: ignore[union-attr]
    assert all(one.tournament is None for one in each.values())
    digests = {one.digest() for one in each.values()}
    assert len(digests) == len(each)
    # An audit of the file itself is one of the baseline: the section decides nothing in it.
    assert config.digest() == each["base"].digest()


@pytest.mark.thorough
def test_a_tournament_trains_compares_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text(CONFIG)
    with steps_in_this_process(tmp_path):
        code, out, err = scotoma("tournament", "three.yaml", "--json")
        assert code == 0, err
        assert err.splitlines() == [
            *(
                f"note    {name}, {n} of 4"
                for n, name in enumerate(("base", "RS", "DI1", "DI2"), 1)
            ),
            "note    page written to tournament.html",
        ]
        found = json.loads(out)
        assert len(found["cells"]) == 3 * 7
        assert {(one["technique"], one["other"]) for one in found["paired"]} == {("DI1", "DI2")}
        reads, unpaired = found["remarks"]
        assert reads.startswith("Technique 'DI1' reads the group")
        assert unpaired.startswith("Members of prune-0.8 do not derive from the dense ones")
        assert {cell["variant"] for cell in found["survival"]} == {"prune-0.8"}
        mitigation = Run.open(str(tmp_path / "runs" / "three" / "DI2")).config.mitigation
        assert mitigation is not None
        assert mitigation.technique == "DI2"
        again = scotoma("tournament", "three.yaml", "--json", "--quiet")
        assert again == (0, out, "")
