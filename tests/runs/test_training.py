"""`scotoma compare CONFIG --techniques`: what it trains, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import load_config, parse_config
from scotoma.config.techniques import TRAINED
from scotoma.run import Run, shareable
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

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
        ("[RS, DI1, DI2]", "[RS, RS]", "tournament.techniques names RS twice; keep "
         "one of them, or give each a name"),
        ("  attribute: style\n", "",
         "tournament.techniques RS needs an attribute, got none; name one of groups as "
         "tournament.attribute"),
        ("attribute: style", "attribute: stile",
         "mitigation.attribute 'stile' is not among groups ['style']; did you mean 'style'?"),
        ("tournament:", "mitigation: {technique: RS, attribute: style}\ntournament:",
         "tournament trains a baseline without mitigation; leave out one of the two"),
        ("[RS, DI1, DI2]\n  attribute: style", "[dfr]\n  attribute: stile",
         "tournament.techniques dfr needs one of groups ['style'], got 'stile'; name it as "
         "tournament.attribute"),
        ("[RS, DI1, DI2]", "[{technique: RS, name: base}]",
         "tournament.techniques calls one base, as the baseline; rename it"),
        ("[RS, DI1, DI2]", "[{technique: RS, alpha: 2}]",
         "mitigation.alpha is for UC and GR, and the technique is RS; leave it out"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_tournament_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert before in CONFIG
    Path("three.yaml").write_text(CONFIG.replace(before, after))
    code, out, err = scotoma("compare", "three.yaml", "--techniques")
    assert (code, out) == (2, "")
    assert err.rstrip().endswith(sentence)
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["three.yaml"]


def test_each_technique_has_a_configuration_of_its_own() -> None:
    config = load_config(EXAMPLE)
    each = config.contestants()
    contest = config.tournament
    assert contest is not None
    assert list(each) == ["base", *contest.mitigations()]
    assert list(contest.refits()) == ["dfr", "dfr-dense"]
    assert all(one.tournament is None for one in each.values())
    digests = {one.digest() for one in each.values()}
    assert len(digests) == len(each)
    # An audit of the file itself is one of the baseline: the section decides nothing in it.
    assert config.digest() == each["base"].digest()


def test_settings_of_a_technique_are_its_own_and_survive_writing() -> None:
    text = CONFIG.replace(
        "[RS, DI1, DI2]", "[UC, {technique: UC, alpha: 0.1, name: UC-0.1}, JTT, dfr]"
    )
    config = parse_config(text, "three.yaml")
    again = parse_config(shareable(config), "again.yaml")
    for one in (config, again):
        contest = one.tournament
        assert contest is not None
        assert list(contest.mitigations()) == ["UC", "UC-0.1", "JTT"]
        assert [m.weight for m in contest.mitigations().values()] == [1.0, 0.1, 0.0]
        assert contest.mitigations()["JTT"].attribute is None
        assert list(one.contestants()) == ["base", "UC", "UC-0.1", "JTT"]


@pytest.mark.thorough
def test_a_tournament_trains_compares_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text(CONFIG)
    with steps_in_this_process(tmp_path):
        text = CONFIG.replace("[RS, DI1, DI2]", "[RS, DI1, DI2, dfr, dfr-dense]")
        (tmp_path / "three.yaml").write_text(text)
        code, out, err = scotoma("compare", "three.yaml", "--techniques", "--json")
        assert code == 0, err
        names = ("base", "RS", "DI1", "DI2", "dfr", "dfr-dense")
        notes = [f"note    {name}, {n} of 6" for n, name in enumerate(names, 1)]
        assert err.splitlines() == notes
        found = json.loads(out)
        assert len(found["cells"]) == 5 * 7
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in found["rows"]:
            rows.setdefault(row["question"], []).append(row)
        pairs = {(row["group"], row["condition"]) for row in rows["shared runs"]}
        assert pairs == {("DI1", "against=DI2")}
        reads, unpaired, both = found["remarks"]
        assert reads.startswith("Technique 'DI1' reads the group")
        assert unpaired.startswith("Members of prune-0.8 do not derive from the dense ones")
        assert "(8 seeds) and another test set like this one (1,194 test examples in 597" in both
        assert {row["variant"] for row in rows["survival"]} == {"prune-0.8"}
        assert {row["group"] for row in rows["minority"]} == set(names)
        beside = {row["condition"] for row in rows["equal accuracy"]}
        assert beside <= {"against=dense", "against=prune-0.8"}
        rare = [row for row in rows["minority"] if row["what"] == "share of test set"]
        assert {row["value"] for row in rare} == {0.5}  # each class has one rarer style of two
        # DI2 decides on the members that DI1 trained, and the baseline is fairer once refitted.
        files = [
            tmp_path / "runs" / "three" / name / "populations" / "dense" / "member-003.json"
            for name in ("DI1", "DI2")
        ]
        assert files[0].samefile(files[1])
        gains = {
            (row["group"], row["metric"]): row["value"]
            for row in rows["survival"]
            if row["what"] == "gain dense"
        }
        assert gains["dfr", "BA"] == gains["dfr-dense", "BA"] > 0  # one layer while dense
        mitigation = Run.open(str(tmp_path / "runs" / "three" / "DI2")).config.mitigation
        assert mitigation is not None
        assert mitigation.technique == "DI2"
        again = scotoma("compare", "three.yaml", "--techniques", "--json", "--quiet")
        assert again == (0, out, "")


def test_a_technique_that_fails_stops_no_other_and_says_why(tmp_path: Path) -> None:
    text = CONFIG.replace("[RS, DI1, DI2]", "[RS, SUBG]").replace("steps: 60", "steps: 6")
    (tmp_path / "three.yaml").write_text(text)
    (tmp_path / "runs" / "three").mkdir(parents=True)
    (tmp_path / "runs" / "three" / "RS").write_text("where its folder would be")
    with steps_in_this_process(tmp_path):
        code, out, err = scotoma("compare", "three.yaml", "--techniques", "--json")
        assert code == 0, err
        found = json.loads(out)
        assert {cell["technique"] for cell in found["cells"]} == {"SUBG"}
        (failed,) = found["failed"]
        assert failed["technique"] == "RS"
        assert "RS" in failed["reason"]
        assert f"note    RS failed: {failed['reason']}\n" in err
        assert found["remarks"][0].startswith("Technique 'RS' is not compared, since")
        code, out, _ = scotoma("compare", "three.yaml", "--techniques", "--quiet")
        assert (code, "Not compared" in out) == (0, True)
        (tmp_path / "runs" / "three" / "SUBG").rename(tmp_path / "SUBG")
        (tmp_path / "runs" / "three" / "SUBG").write_text("")
        code, out, err = scotoma("compare", "three.yaml", "--techniques", "--quiet")
        assert (code, out) == (5, "")
        assert "every technique failed, RS first: " in err


@pytest.mark.thorough
@pytest.mark.parametrize("several_classes", [True, False])
def test_every_technique_that_is_built_is_trained_and_compared(
    several_classes: bool, tmp_path: Path
) -> None:
    """L2 and ALM are for two classes: with ten, their rows say so and all others are compared."""
    names = set(TRAINED)
    of_two = {"L2", "ALM"}
    asked = names if several_classes else of_two
    text = CONFIG.replace("[RS, DI1, DI2]", f"[{', '.join(sorted(asked))}]")
    text = text.replace("steps: 60", "steps: 6").replace("models: 8,", "models: 8, forked: true,")
    if not several_classes:
        text = text.replace("{column: digit}", "{column: digit, threshold: 5}")
    (tmp_path / "three.yaml").write_text(text)
    with steps_in_this_process(tmp_path):
        code, out, err = scotoma("compare", "three.yaml", "--techniques", "--json", "--quiet")
        assert code == 0, err
        found = json.loads(out)
        failed = {one["technique"]: one["reason"] for one in found["failed"]}
        assert failed.keys() == (of_two if several_classes else set())
        assert all("is for two classes and two groups" in why for why in failed.values())
        compared = {cell["technique"] for cell in found["cells"]}
        undefined = {one["technique"] for one in found["undefined"]}
        assert compared | undefined == asked - failed.keys()
