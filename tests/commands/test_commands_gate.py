"""The gate command: every exit code, what it leaves behind, and that a crash is no verdict."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from scotoma import cli
from scotoma.audit import Audit, as_text, plain, write_part
from scotoma.bias.subgroup import amplification
from scotoma.document.jsonable import jsonable
from scotoma.power.simulate import PlantedGroup, planted_audit
from scotoma.run import write_json
from scotoma.steps import audit as audit_command
from scotoma.steps import verdict as judging
from tests.helpers.audits import whole

pytestmark = pytest.mark.slow

RULES = "rules: [{id: fpr, metric: fpr, max_increase: {relative: 0.2, absolute: 0.005}}]\n"
OUTCOMES = ("gate.json", "junit.xml", "summary.md")


def content(relative: float, *, n: int = 6000) -> Audit:
    """An audit of one variant in which the FPR of one group rises."""
    planted = planted_audit(
        [PlantedGroup(name="age=old", n=n, rate=0.05, relative=relative)], members=10, seed=3
    )
    changes = amplification(
        planted.labels, planted.dense, planted.compressed, np.repeat(planted.groups, 2, axis=0),
        ["all", "age=old"], positive=1, n_classes=2,
    )  # fmt: skip
    names = ("dense", "prune-0.9")
    return whole(
        {
            "project": "faces",
            "examples": {"test": n, "clusters": n, "positive": "1"},
            "groups": [
                {"key": "all", "name": "all", "n": n},
                {"key": "age=old", "name": "old", "n": n},
            ],
            "variants": [{"name": name, "kind": "int8", "members": 10} for name in names],
            "accuracy": {name: {"top1": {"value": 0.95, "n": n}} for name in names},
            "divergence": {"prune-0.9": {"cie": {"excess": {"reason": "not measured"}}}},
            "subgroups": {"prune-0.9": [jsonable(c) for c in changes]},
        }
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an audit that passes, and rules beside it."""
    monkeypatch.chdir(tmp_path)
    write_part(tmp_path / "run" / "audit.json", content(-0.3))
    (tmp_path / "gate.yaml").write_text(RULES)
    return tmp_path / "run"


def gate(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Exit code of the command, called as the installed script calls it."""
    monkeypatch.setattr(sys, "argv", ["scotoma", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def outcomes(run: Path) -> list[str]:
    return [name for name in OUTCOMES if (run / name).exists()]


# --- verdicts -------------------------------------------------------------------------------------

JUDGE = ("gate", "run", "--rules", "gate.yaml", "--as-of", "2027-03-01")


def test_a_pass_ends_with_0(run: Path, monkeypatch: Any, capsys: Any) -> None:
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 0
    out, err = capsys.readouterr()
    assert "PASS  prune-0.9 " in out
    assert "PASS    prune-0.9: No rise beyond its margin in the 1 test; " in out
    assert err == "rules   'fpr'\nverdict PASS, run/gate.json\n"
    assert outcomes(run) == list(OUTCOMES)


def test_a_fail_ends_with_1(run: Path, monkeypatch: Any, capsys: Any) -> None:
    write_part(run / "audit.json", content(1.0))
    assert gate(*JUDGE, "--quiet", monkeypatch=monkeypatch) == 1
    out, err = capsys.readouterr()
    assert "FAIL  prune-0.9 " in out
    assert "FAIL    prune-0.9: FPR old +" in out
    assert err == ""
    found = json.loads((run / "gate.json").read_text())
    assert (found["verdict"], found["exit_code"], found["as_of"]) == ("FAIL", 1, "2027-03-01")
    root = ElementTree.parse(run / "junit.xml").getroot()
    assert root.attrib["failures"] == "1"
    assert (run / "summary.md").read_text().startswith("# Gate: FAIL\n")


def test_unsure_ends_with_0_or_with_3_as_the_rules_say(run: Path, monkeypatch: Any) -> None:
    write_part(run / "audit.json", content(0.2))
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 0
    assert json.loads((run / "gate.json").read_text())["verdict"] == "UNSURE"
    Path("gate.yaml").write_text(RULES + "on_unsure: fail\n")
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 3
    assert json.loads((run / "gate.json").read_text())["exit_code"] == 3


def test_a_fail_goes_before_unsure(run: Path, monkeypatch: Any) -> None:
    write_part(run / "audit.json", content(1.0))
    slices = "  - {id: slices, metric: slices_hurt, margin: 0.01}\non_unsure: fail\n"
    Path("gate.yaml").write_text(
        "rules:\n  - {id: fpr, metric: fpr, max_increase: {relative: 0.2}}\n" + slices
    )
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 1


def test_without_a_file_the_default_rules_hold(run: Path, monkeypatch: Any) -> None:
    assert gate("gate", "run", monkeypatch=monkeypatch) == 0
    found = json.loads((run / "gate.json").read_text())
    assert [rule["id"] for rule in found["rules"]["rules"]] == [
        "fpr_groups",
        "fnr_groups",
        "cie",
    ]
    assert found["audit_sha256"] == hashlib.sha256((run / "audit.json").read_bytes()).hexdigest()


def test_a_margin_is_that_of_the_built_in_rules(run: Path, monkeypatch: Any, capsys: Any) -> None:
    write_part(run / "audit.json", content(0.6))  # 5% becomes 8%
    assert gate("gate", "run", "--margin", "0.01", monkeypatch=monkeypatch) == 1
    applied = json.loads((run / "gate.json").read_text())["rules"]
    assert applied["rules"][0]["max_increase"] == {"absolute": 0.01, "relative": None}
    assert gate("gate", "run", "--margin", "0.1", monkeypatch=monkeypatch) == 0
    Path("gate.yaml").write_text("margin: 0.01\non_unsure: fail\n")
    assert gate("gate", "run", "--rules", "gate.yaml", monkeypatch=monkeypatch) == 1
    assert json.loads((run / "gate.json").read_text())["rules"]["on_unsure"] == "fail"
    capsys.readouterr()
    both = ("gate", "run", "--rules", "gate.yaml", "--margin", "0.1")
    assert gate(*both, monkeypatch=monkeypatch) == 2
    assert "exclude each other" in capsys.readouterr().err
    Path("gate.yaml").write_text(f"margin: 0.01\n{RULES}")
    assert gate("gate", "run", "--rules", "gate.yaml", monkeypatch=monkeypatch) == 2
    assert "margin is that of the built-in rules" in capsys.readouterr().err
    waiver = "{rule: fpr_group, variant: prune-0.9, reason: none, until: 2027-01-01}"
    Path("gate.yaml").write_text(f"waivers: [{waiver}]\n")
    assert gate("gate", "run", "--rules", "gate.yaml", monkeypatch=monkeypatch) == 2
    assert "did you mean 'fpr_groups'?" in capsys.readouterr().err


def test_json_goes_to_stdout_and_is_the_file(run: Path, monkeypatch: Any, capsys: Any) -> None:
    assert gate(*JUDGE, "--json", "--quiet", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr() == ((run / "gate.json").read_text(), "")


def test_the_same_inputs_give_the_same_bytes(run: Path, monkeypatch: Any) -> None:
    write_part(run / "audit.json", content(0.2))
    seen = []
    for _ in range(2):
        gate(*JUDGE, monkeypatch=monkeypatch)
        seen.append([(run / name).read_bytes() for name in OUTCOMES])
    assert seen[0] == seen[1]


def test_an_expired_waiver_is_named_and_holds_no_more(
    run: Path, monkeypatch: Any, capsys: Any
) -> None:
    write_part(run / "audit.json", content(1.0))
    waiver = "{rule: fpr, variant: prune-0.9, reason: not shipped, until: 2027-03-01}"
    Path("gate.yaml").write_text(f"{RULES}waivers: [{waiver}]\n")
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 0
    assert "waived  prune-0.9: fpr (fails: FPR old)" in capsys.readouterr().out
    assert gate(*JUDGE[:-1], "2027-03-02", monkeypatch=monkeypatch) == 1
    said = "the waiver of fpr for prune-0.9 expired after 2027-03-01: not shipped"
    assert f"note    {said}\n" in capsys.readouterr().err
    assert said in (run / "summary.md").read_text()


# --- what is no verdict ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "run nowhere is not a folder; name one that scotoma audit made"),
        (("run", "--rules", "no.yaml"), "gate file no.yaml cannot be read: No such file or dir"),
        (("run", "--as-of", "soon"), "--as-of must be a day such as 2027-03-01, got 'soon'"),
        (("run", "--rules", "bad.yaml"), "bad.yaml:1 rulez is not a key here"),
    ],
)
def test_usage_and_rules_end_with_2(
    run: Path, monkeypatch: Any, capsys: Any, arguments: tuple[str, ...], sentence: str
) -> None:
    Path("bad.yaml").write_text("rulez: []\n")
    assert gate("gate", *arguments, monkeypatch=monkeypatch) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert sentence in err
    assert outcomes(run) == []


REFUSED = {
    "no file": (("--rules", "no.yaml"), 2),
    "a misspelt rule": (("--rules", "rulez.yaml"), 2),
    "a group that the audit does not have": (("--rules", "groups.yaml"), 4),
    "a day that is none": (("--as-of", "soon"), 2),
    "a variant that was not judged": (("--variant", "prune-0.8"), 2),
    "a previous audit that is none": (("--previous", "nowhere"), 4),
}


@pytest.mark.parametrize("call", REFUSED)
def test_a_call_that_is_refused_leaves_the_earlier_verdict_alone(
    run: Path, monkeypatch: Any, capsys: Any, call: str
) -> None:
    Path("rulez.yaml").write_text(RULES.replace("rules:", "rulez:"))
    Path("groups.yaml").write_text(RULES + "must: ['age=odl']\n")
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 0
    before = [(run / name).read_bytes() for name in OUTCOMES]
    capsys.readouterr()
    arguments, code = REFUSED[call]
    assert gate("gate", "run", *arguments, monkeypatch=monkeypatch) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert [(run / name).read_bytes() for name in OUTCOMES] == before


@pytest.mark.parametrize(
    ("arguments", "code"), [(("--rules", "groups.yaml"), 4), (("--variant", "prune-0.8"), 2)]
)
def test_a_verdict_on_another_audit_does_not_stay(
    run: Path, monkeypatch: Any, arguments: tuple[str, ...], code: int
) -> None:
    Path("groups.yaml").write_text(RULES + "must: ['age=odl']\n")
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 0
    write_part(run / "audit.json", content(1.0))
    assert gate("gate", "run", *arguments, monkeypatch=monkeypatch) == code
    assert outcomes(run) == []


def test_the_exit_code_is_that_of_the_variant_that_is_shipped(run: Path, monkeypatch: Any) -> None:
    """Two variants, one harmed; both are written down, whichever decides the exit code."""
    both = plain(content(1.0))
    calm = plain(content(-0.3))
    both["variants"].append(both["variants"][1] | {"name": "int8"})
    for part in ("divergence", "gallery"):
        both[part]["int8"] = calm[part]["prune-0.9"]
    for question, rows in calm["rows"].items():
        calms = [row | {"variant": "int8"} for row in rows if row["variant"] == "prune-0.9"]
        both["rows"][question] += calms
    write_part(run / "audit.json", whole(both))
    codes = {
        name: gate(*JUDGE, "--variant", name, monkeypatch=monkeypatch)
        for name in ("prune-0.9", "int8", "dense")
    }
    assert codes == {"prune-0.9": 1, "int8": 0, "dense": 2}
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 1
    verdicts = json.loads((run / "gate.json").read_text())
    assert (verdicts["verdict"], verdicts["exit_code"]) == ("FAIL", 1)
    assert [v["verdict"] for v in verdicts["variants"]] == ["FAIL", "PASS"]


def test_an_unknown_option_ends_with_2(run: Path, monkeypatch: Any) -> None:
    assert gate("gate", "run", "--rule", "gate.yaml", monkeypatch=monkeypatch) == 2
    assert gate("gate", monkeypatch=monkeypatch) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"variants": 3}', "null", "[" * 9999])
def test_an_audit_that_is_none_ends_with_4(
    run: Path, monkeypatch: Any, capsys: Any, text: str
) -> None:
    (run / "audit.json").write_text(text)
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 4
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "run the audit again" in err
    assert outcomes(run) == []


@pytest.mark.parametrize("part", ["gallery", "divergence", "rows", "groups", "project"])
def test_an_audit_that_lacks_a_part_ends_with_4(run: Path, monkeypatch: Any, part: str) -> None:
    found = plain(content(0.0))
    del found[part]
    write_json(run / "audit.json", found)
    assert gate("gate", "run", monkeypatch=monkeypatch) == 4
    assert outcomes(run) == []


def test_a_folder_without_an_audit_ends_with_4_and_is_left_alone(
    run: Path, monkeypatch: Any, capsys: Any
) -> None:
    (run / "audit.json").unlink()
    (run / "junit.xml").write_text("somebody else's")
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 4
    assert "run/audit.json is not there" in capsys.readouterr().err
    assert (run / "junit.xml").read_text() == "somebody else's"


def test_an_audit_of_dense_models_alone_ends_with_4(run: Path, monkeypatch: Any) -> None:
    alone = whole({"variants": [{"name": "dense"}]})
    write_part(run / "audit.json", alone)
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 4


@pytest.mark.parametrize("fault", [ZeroDivisionError, EOFError, MemoryError, RecursionError])
def test_a_fault_of_our_own_ends_with_5_and_leaves_no_verdict_on_another_audit(
    run: Path, monkeypatch: Any, capsys: Any, fault: type[Exception]
) -> None:
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 0
    write_part(run / "audit.json", content(1.0))
    capsys.readouterr()

    def stumble(*_: object) -> None:
        raise fault("s3cret")

    monkeypatch.setattr("scotoma.verdict.documents.junit", stumble)
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 5
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    end = f"ended with an internal error ({fault.__name__})"
    end = "stopped: there is no memory left" if fault is MemoryError else end
    assert f"the gate gave no verdict and {end}" in err
    assert "in stumble" in (run / "logs" / "gate.log").read_text()
    assert outcomes(run) == []


@pytest.mark.parametrize("fault", [BrokenPipeError(32, "Broken pipe"), OSError(28, "full")])
def test_a_disk_or_pipe_that_fails_ends_with_5(run: Path, monkeypatch: Any, fault: OSError) -> None:
    """Writing has begun: what is left would be half of the earlier verdict."""
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 0

    def stumble(*_: object) -> None:
        raise fault

    monkeypatch.setattr(judging, "write_whole", stumble)
    assert gate(*JUDGE[:4], "--as-of", "2027-03-02", monkeypatch=monkeypatch) == 5
    assert outcomes(run) == []


def test_a_command_that_cannot_be_loaded_ends_with_5(run: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "scotoma.steps.verdict", None)
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 5


def test_an_interrupt_ends_with_130(run: Path, monkeypatch: Any) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scotoma.verdict.gate.judge", interrupt)
    assert gate(*JUDGE, monkeypatch=monkeypatch) == 130
    assert outcomes(run) == []


def test_a_reader_who_leaves_does_not_change_the_verdict(run: Path) -> None:
    """`scotoma gate run | head` passes where it passed; typer alone would end with 1."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "scotoma", *JUDGE]
    with os.fdopen(write, "wb") as gone:
        done = subprocess.run(command, stdout=gone, stderr=gone, check=False)
    assert done.returncode == 0
    assert outcomes(run) == list(OUTCOMES)


# --- runs in object storage -----------------------------------------------------------------------


def test_a_run_in_object_storage_is_judged_there(
    s3: Any, run: Path, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    s3.put("run/audit.json", (run / "audit.json").read_bytes())
    s3.put("run/gate.json", b"an earlier verdict")
    arguments = (JUDGE[0], s3.uri("run"), *JUDGE[2:])
    assert gate(*arguments, monkeypatch=monkeypatch) == 0
    left = sorted(["run/audit.json", "run/judging.json", *(f"run/{name}" for name in OUTCOMES)])
    assert s3.names() == left
    monkeypatch.setattr("scotoma.verdict.gate.judge", lambda *_: 1 / 0)
    assert gate(*arguments, monkeypatch=monkeypatch) == 5
    assert s3.names() == left
    s3.put("run/audit.json", as_text(content(1.0)).encode())
    assert gate(*arguments, monkeypatch=monkeypatch) == 5
    assert s3.names() == ["run/audit.json", "run/judging.json"]


# --- audits that are judged at once ---------------------------------------------------------------


@pytest.fixture
def measured(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit command whose pipeline has found harm."""

    def pipeline(found: Any, *_: object, **__: object) -> None:
        write_part(found.path("audit.json"), content(1.0))
        write_json(found.path("tracking.json"), {"reason": "", "link": "", "runs": {}})
        found.path("report.html").write_text("")

    monkeypatch.setattr(audit_command, "run_steps_in_child", pipeline)


AUDIT = ("audit", "--out", "audited", "--quiet")


@pytest.mark.usefixtures("measured")
def test_an_audit_shows_the_verdict_and_ends_with_0(monkeypatch: Any, capsys: Any) -> None:
    assert gate(*AUDIT, monkeypatch=monkeypatch) == 0
    assert "FAIL    prune-0.9: " in capsys.readouterr().out
    assert outcomes(Path("audited")) == list(OUTCOMES)


@pytest.mark.usefixtures("measured")
def test_an_audit_with_a_gate_ends_as_the_gate_does(monkeypatch: Any) -> None:
    assert gate(*AUDIT, "--gate", monkeypatch=monkeypatch) == 1
    lenient = RULES.replace("relative: 0.2", "relative: 9")
    Path("gate.yaml").write_text(lenient)
    assert gate(*AUDIT, "--gate", "--rules", "gate.yaml", monkeypatch=monkeypatch) == 0


@pytest.mark.usefixtures("measured")
def test_rules_that_cannot_be_used_are_refused_before_hours_of_training(monkeypatch: Any) -> None:
    Path("gate.yaml").write_text("rules: []\n")
    assert gate(*AUDIT, "--rules", "gate.yaml", monkeypatch=monkeypatch) == 2
    assert gate(*AUDIT, "--as-of", "soon", monkeypatch=monkeypatch) == 2
    assert not Path("audited").exists()


# --- schemas --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["config", "gate", "audit", "verdict"])
def test_schemas_are_printed(kind: str, monkeypatch: Any, capsys: Any) -> None:
    assert gate("show", "schema", kind, monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["title"].startswith("Scotoma: ")


def test_a_schema_of_another_kind_ends_with_2(monkeypatch: Any, capsys: Any) -> None:
    assert gate("show", "schema", "gates", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == (
        "scotoma: schema must be config, gate, audit or verdict, got 'gates'; did you mean "
        "'gate'?\n"
    )
