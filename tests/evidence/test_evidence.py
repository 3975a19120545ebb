"""Evidence about one model: held against the standards' own schemas and read by others' readers."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit import GateFile, read_audit, read_gate
from scotoma.storage.files import file_digest
from tests.helpers.commands import ended, scotoma, stderr_of
from tests.helpers.external_predictions import CLASSES, audited, write
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

AUDIT = """
project: small
source: {kind: digits-s, recipe: {steps: 60, batch_size: 64, learning_rate: 0.05}}
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {int8: [static]}]
population: {models: 2}
tracking: {uri: "off"}
"""
FILES = {
    "bom.cdx.json",
    "dossier.md",
    "model-card.md",
    "test-result.intoto.json",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with models."""
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "audit.yaml").write_text(AUDIT)
    with steps_in_this_process(folder):
        code, _, err = scotoma("audit", "audit.yaml", "--out", folder / "run", "--quiet")
    assert code == 0, err
    return folder / "run"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two key pairs that OpenSSL made: ours and another."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "other"):
        private, public = folder / f"{name}.pem", folder / f"{name}.pub"
        openssl("genpkey", "-algorithm", "ed25519", "-out", private)
        openssl("pkey", "-in", private, "-pubout", "-out", public)
    return folder


@pytest.fixture(scope="module")
def folder(run: Path, keys: Path) -> Path:
    """Everything about an int8 model."""
    out = run.parent / "evidence"
    err = stderr_of(
        "evidence", run, "--model", int8(run), "--out", out,
        "--sign", keys / "ours.pem",
    )  # fmt: skip
    assert "4 files" in err
    assert "signed" in err
    return out


def openssl(*arguments: str | Path) -> bytes:
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


def int8(run: Path, member: int = 1) -> Path:
    return run / "populations" / "int8-static" / f"member-{member:03d}.onnx"


def content(path: Path) -> Any:
    return json.loads(path.read_bytes())


def statement(path: Path) -> dict[str, Any]:
    return dict(json.loads(base64.b64decode(content(path)["payload"])))


def refuse_bad_bill(text: str) -> None:
    """As CycloneDX's own library judges it."""
    from cyclonedx.schema import SchemaVersion  # its validators take 1.5 s to import
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text) is None


def test_all_files_are_there_and_the_same_when_written_again(
    run: Path, folder: Path, keys: Path, tmp_path: Path
) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    scotoma(
        "evidence", run, "--model", int8(run), "--out", tmp_path / "again",
        "--sign", keys / "ours.pem",
    )  # fmt: skip
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_every_file_is_bound_to_the_model_and_to_the_audit(run: Path, folder: Path) -> None:
    for name in FILES - {"test-result.intoto.json"}:
        text = (folder / name).read_text()
        assert file_digest(int8(run)) in text, name
        assert file_digest(run / "audit.json") in text, name


def test_the_bill_of_materials_is_cyclonedx_1_7(run: Path, folder: Path) -> None:
    text = (folder / "bom.cdx.json").read_text()
    refuse_bad_bill(text)
    card = json.loads(text)["metadata"]["component"]["modelCard"]
    metrics = card["quantitativeAnalysis"]["performanceMetrics"]
    rows = {(row["type"], row.get("slice")): row for row in metrics}
    audit = read_audit(run / "audit.json")
    for rate in audit.numbers("rates", "int8-static", metric="error", what="compressed"):
        if rate.group != "all":
            row = rows["error rate", rate.group]
            assert float(row["value"]) == pytest.approx(rate.number.value, rel=1e-5)
            ends = row["confidenceInterval"]
            assert float(ends["lowerBound"]) == pytest.approx(rate.number.low, rel=1e-5)
            assert float(ends["upperBound"]) == pytest.approx(rate.number.high, rel=1e-5)
    at_risk = {row["groupAtRisk"] for row in card["considerations"]["fairnessAssessments"]}
    assert at_risk == {group.key for group in audit.groups} - {"all"}


def test_training_seeds_and_checksums_of_data_are_components(run: Path, folder: Path) -> None:
    parts = {part["bom-ref"]: part for part in content(folder / "bom.cdx.json")["components"]}
    manifest = content(run / "populations" / "int8-static" / "manifest.json")
    seeds = [
        int(row["value"])
        for row in parts["configuration"]["properties"]
        if row["name"].startswith("scotoma:training-seed")
    ]
    assert seeds == [member["seed"] for member in manifest["members"]]
    hashes = {ref: part["hashes"][0]["content"] for ref, part in parts.items()}
    assert hashes["audit"] == file_digest(run / "audit.json")
    assert hashes["test-data"] == file_digest(run / "examples.parquet")


def test_the_test_result_is_an_in_toto_statement_with_every_test(run: Path, folder: Path) -> None:
    from google.protobuf.json_format import ParseDict
    from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage

    stated = statement(folder / "test-result.intoto.json")
    Statement.copy_from_pb(ParseDict(stated, StatementMessage())).validate()
    result = ParseDict(stated["predicate"], test_result_pb2.TestResult())
    judged = next(v for v in gate(run).variants if v.name == "int8-static")
    assert result.result == {"PASS": "PASSED", "UNSURE": "WARNED", "FAIL": "FAILED"}[judged.verdict]
    passed = [f"{test.rule}: {test.where}" for test in judged.tests if test.verdict == "PASS"]
    assert list(result.passed_tests) == passed
    named = [*result.passed_tests, *result.warned_tests, *result.failed_tests]
    assert len(named) == len(judged.tests)


def test_openssl_agrees_that_the_key_signed_the_envelope(
    folder: Path, keys: Path, tmp_path: Path
) -> None:
    envelope = content(folder / "test-result.intoto.json")
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    lengths = (str(len(kind)).encode(), str(len(payload)).encode())
    signed, signature = tmp_path / "signed", tmp_path / "signature"
    signed.write_bytes(b" ".join([b"DSSEv1", lengths[0], kind, lengths[1], payload]))
    signature.write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    command = ("pkeyutl", "-verify", "-rawin", "-in", signed, "-sigfile", signature, "-pubin")
    assert b"Success" in openssl(*command, "-inkey", keys / "ours.pub")
    with pytest.raises(subprocess.CalledProcessError):
        openssl(*command, "-inkey", keys / "other.pub")


def test_hugging_face_reads_the_card(run: Path, folder: Path) -> None:
    from huggingface_hub import ModelCard

    card = (folder / "model-card.md").read_text()
    assert "## What compression changed" in ModelCard(f"---\n---\n{card}").text


def test_the_dossier_has_data_numbers_tests_and_room_for_a_signature(
    run: Path, folder: Path
) -> None:
    text = (folder / "dossier.md").read_text()
    for words in ("Annex IV, point 2(g)", "no legal advice", "12 July 2024", "signature"):
        assert words in text
    audit, judged = read_audit(run / "audit.json"), gate(run)
    for group in audit.groups:
        assert f"| `{group.name}` | {group.n:,} | {group.train:,} |" in text
    tests = next(v for v in judged.variants if v.name == "int8-static").tests
    for test in tests:
        assert f"| `{test.rule}: {test.where}` | {test.verdict} |" in text
    assert judged.as_of.isoformat() in text
    at = next(at for at in audit.at("rates", "int8-static") if at["absolute"].group == "all")
    cells = []
    for what, sign, unit in (("dense", "", "%"), ("compressed", "", "%"), ("absolute", "+", "")):
        number = at[what].number
        value, low, high = (
            f"{100 * (end or 0.0):{sign}.2f}".replace("-", "−")
            for end in (number.value, number.low, number.high)
        )
        cells.append(f"{value}{unit} [{low}, {high}]")
    assert f"| `error rate` | `all` | {' | '.join(cells)} | {audit.examples.test:,} |" in text
    decided = next(test for test in tests if test.decided_by is not None)
    assert decided.decided_by is not None
    margin = f"margin {100 * decided.decided_by.margin:+.2f} points; n "
    assert f"{margin}{decided.decided_by.interval.n:,}`" in text


def test_verify_holds_evidence_against_its_run_and_key(
    run: Path, folder: Path, keys: Path, tmp_path: Path
) -> None:
    file = folder / "test-result.intoto.json"
    err = stderr_of("verify", run, "--evidence", file, "--key", keys / "ours.pub")
    assert "signed by this key" in err
    released = ("verify", run, "--evidence", file, "--model")
    assert scotoma(*released, int8(run))[0] == 0
    err = stderr_of(*released, int8(run, member=0), code=4)
    assert "do not release this file on it" in err
    err = stderr_of("verify", run, "--evidence", file, "--key", keys / "other.pub", code=4)
    assert "must be signed by this key" in err
    envelope = content(file)
    stated = statement(file)
    stated["predicate"]["result"] = "FAILED" if "PASSED" in str(stated) else "PASSED"
    envelope["payload"] = base64.b64encode(json.dumps(stated).encode()).decode()
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(envelope))
    err = stderr_of("verify", run, "--evidence", changed, "--key", keys / "ours.pub", code=4)
    assert "broken signature" in err
    err = stderr_of("verify", run, "--evidence", changed, code=4)
    assert "gate.json" in err
    stated["predicate"]["configuration"][1]["digest"]["sha256"] = "0" * 64
    envelope["payload"] = base64.b64encode(json.dumps(stated).encode()).decode()
    changed.write_text(json.dumps(envelope))
    err = stderr_of("verify", run, "--evidence", changed, code=4)
    assert "speaks of another audit.json" in err


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"payloadType": 1, "payload": "", "signatures": []}', "[" * 100_000]
)
def test_what_is_no_envelope_is_refused_in_a_sentence(run: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "evidence.json").write_text(text)
    err = stderr_of("verify", run, "--evidence", tmp_path / "evidence.json", code=4)
    assert "evidence.json must h" in err or "must be a DSSE envelope" in err
    assert "Traceback" not in err


def test_a_model_that_was_not_audited_and_a_dense_one_are_refused(
    run: Path, tmp_path: Path
) -> None:
    dense = run / "populations" / "dense" / "member-000.safetensors"
    shutil.copy(dense, tmp_path / "other.bin")
    with (tmp_path / "other.bin").open("ab") as file:
        file.write(b"!")
    for model, words in (
        (tmp_path / "other.bin", "must be a model of the audit"),
        (dense, "must be of a compressed variant"),
        (tmp_path / "absent.onnx", "must be a file"),
    ):
        err = stderr_of("evidence", run, "--model", model, "--out", tmp_path / "out", code=2)
        assert words in err
        assert not (tmp_path / "out").exists()
    err = stderr_of("evidence", run, "--model", int8(run), "--out", run / "evidence", code=2)
    assert "outside the run" in err
    (tmp_path / "key.pem").write_text("no key")
    err = stderr_of(
        "evidence", run, "--model", int8(run), "--out", tmp_path / "out",
        "--sign", tmp_path / "key.pem", code=2,
    )  # fmt: skip
    assert "openssl genpkey" in err
    assert not (tmp_path / "out").exists()


def test_of_predictions_the_variant_is_named_and_four_fifths_are_there(tmp_path: Path) -> None:
    audited(write(tmp_path))
    model = tmp_path / "model.onnx"
    model.write_bytes(b"weights")
    command = ("evidence", tmp_path / "run", "--model", model, "--out", tmp_path / "out")
    err = stderr_of(*command, code=2)
    assert "--variant" in err
    ended(*command, "--variant", "int8")
    text = (tmp_path / "out" / "dossier.md").read_text()
    assert "whoever wrote this file says" in text
    assert " 1 models" not in text
    assert "| `sex` | n | selected | impact ratio | standing |" in text
    assert "`sex=f`" in text or "`f`" in text
    for name in CLASSES:
        assert f"`{name}`" in text
    bom = (tmp_path / "out" / "bom.cdx.json").read_text()
    refuse_bad_bill(bom)


def gate(run: Path) -> GateFile:
    return read_gate(run / "gate.json")


@pytest.mark.parametrize(("n", "verdict"), [(60, "UNSURE"), (3000, "FAIL")])
def test_verify_speaks_of_the_evidence_and_its_exit_code_of_a_verdict_that_fails(
    n: int, verdict: str, tmp_path: Path
) -> None:
    write(tmp_path, n=n)
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", "audit.yaml", "--out", tmp_path / "run", "--quiet")
    assert code == 0, err
    (tmp_path / "model.onnx").write_bytes(b"weights")
    out, run = tmp_path / "out", tmp_path / "run"
    options = ("--model", tmp_path / "model.onnx", "--variant", "int8", "--out", out)
    assert scotoma("evidence", run, *options)[0] == 0
    assert gate_of(run, "int8") == verdict
    command = ("verify", run, "--evidence", out / "test-result.intoto.json")
    code, printed, err = scotoma(*command, "--json")
    assert code == {"UNSURE": 0, "FAIL": 6}[verdict]
    assert (
        f"evidence valid, signature not checked (--key checks it); its verdict is {verdict}" in err
    )
    assert json.loads(printed)["evidence"]["verdict"] == verdict
    stated = statement(out / "test-result.intoto.json")
    stated["predicate"]["result"] = "PASSED"
    envelope = content(out / "test-result.intoto.json")
    envelope["payload"] = base64.b64encode(json.dumps(stated).encode()).decode()
    (out / "changed.json").write_text(json.dumps(envelope))
    err = stderr_of("verify", run, "--evidence", out / "changed.json", code=4)
    assert f"says PASSED, and gate.json says {verdict} for int8" in err


def gate_of(run: Path, variant: str) -> str:
    return next(one.verdict for one in gate(run).variants if one.name == variant)
