"""audit.json and gate.json are types: what is written is read back, what breaks a rule is named."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.audit import (
    Audit,
    Quantity,
    as_text,
    parse_audit,
    parse_gate,
    plain,
    read_audit,
    reading,
)
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.audit.schemas import file_schema
from scotoma.errors import DataError
from scotoma.numbers import Estimate
from scotoma.verdict.evidence import read_estimate
from tests.helpers.audits import rows_at, whole

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "scotoma"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
STRANGE = rows_at({"variant": "int8"}, {"p": Estimate(0.5, 0.4, 0.6, 7, 2, 5.0, 6.0).as_dict()})
CONTENT = {
    "variants": [{"name": "dense", "members": 2}, {"name": "prune-0.9", "members": 2}],
    "subgroups": {"prune-0.9": [{"group": "sex=male", "metric": "error"}]},
}

ROWS = plain(whole(CONTENT))["rows"]


@pytest.fixture(scope="module")
def measured() -> Audit:
    """An audit that was measured once, with everything in it."""
    return read_audit(CORPUS / "audit" / "whole.json")


# --- written and read -----------------------------------------------------------------------------


def test_what_is_read_is_written_byte_for_byte(measured: Audit) -> None:
    text = as_text(measured)
    assert as_text(parse_audit(text.encode(), "audit.json")) == text
    sorted_text = json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert text == sorted_text
    gate = (CORPUS / "gated" / "whole.json").read_bytes()
    assert json.loads(as_text(parse_gate(gate, "gate.json"))) == json.loads(gate)


@given(numbers=st.lists(st.floats(allow_nan=True), min_size=6, max_size=6))
def test_every_number_comes_back_as_it_was(numbers: list[float]) -> None:
    value, low, high, events, df, se = numbers
    estimate = Estimate(value, low, high, 7, 2, events, df, 0.9, "why", "note", se, "logit")
    rows = {"impact": rows_at({"variant": "dense"}, {"dense": estimate.as_dict()})}
    content = plain(whole({"accuracy": {"dense": {"top1": estimate.as_dict()}}, "rows": rows}))
    audit = parse_audit(json.dumps(content).encode(), "audit.json")
    for read in (audit.numbers("accuracy")[0].number, audit.numbers("impact")[0].number):
        assert repr(read_estimate(read)) == repr(estimate)
        assert Quantity.of(estimate) == read


def test_members_that_collapsed_are_a_key_only_where_there_are_some() -> None:
    assert "collapsed" not in plain(whole(CONTENT))
    assert plain(whole(CONTENT | {"collapsed": ["member 3"]}))["collapsed"] == ["member 3"]
    assert "collapsed" not in file_schema("audit")["required"]


def test_a_previous_audit_keeps_what_is_compared(measured: Audit) -> None:
    kept = PreviousAudit(audit=Comparable.of(measured), of="here", margin=0.01)
    assert PreviousAudit.model_validate_json(as_text(kept)) == kept
    assert len(as_text(kept)) < 0.6 * len(as_text(measured))


# --- what is refused ------------------------------------------------------------------------------

FAULTS = {
    "no JSON": (b"{", "must be JSON that scotoma audit wrote, got something else"),
    "a tower of brackets": (b"[" * 99_999, "must be JSON that scotoma audit wrote"),
    "half a character": (b'{"project": "\\ud800"}', "must be JSON that scotoma audit wrote"),
    "another kind": (b"[]", "the content should be an object, got []"),
    "no version": (b"{}", "must have version 3, got none"),
    "an older version": (b'{"version": 1, "x": 0}', "must have version 3, got 1"),
    "a newer version": (b'{"version": 4}', "must have version 3, got 4"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_no_audit_gets_one_sentence(fault: str) -> None:
    content, sentence = FAULTS[fault]
    with pytest.raises(DataError) as caught:
        parse_audit(content, "run/audit.json")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("run/audit.json")
    assert str(caught.value).endswith("; run the audit again with this version")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"seed": -1}, "seed should be greater than or equal to 0, got -1"),
        ({"level": 1.5}, "level should be less than 1, got 1.5"),
        ({"project": "x", "extra": 1}, "must not hold extra"),
        ({"scope": "all"}, "scope should be 'population' or 'shipped', got \"all\""),
        ({"rows": {}}, "accuracy must hold dense, prune-0.9, got nothing"),
        ({"rows": ROWS | {"impact": STRANGE}}, "rows must name variants of the audit, got int8"),
        ({"rows": ROWS | {"flips": []}}, "scores, robustness, got flips"),
        ({"variants": []}, "variants should have at least 1 item"),
        ({"groups": [{"key": "all", "name": "all", "n": 1, "train": 1}]}, "got sex=male"),
    ],
)
def test_a_field_that_breaks_a_rule_is_named(changed: dict[str, Any], sentence: str) -> None:
    content = json.dumps(plain(whole(CONTENT)) | changed).encode()
    with pytest.raises(DataError, match=re.escape(sentence)):
        parse_audit(content, "audit.json")


def test_numbers_stay_numbers() -> None:
    for number in (b"NaN", b'"nan"', b"true", b"[]"):
        text = as_text(whole(CONTENT)).encode()
        broken = text.replace(b'"relative": 0.0', b'"relative": ' + number)
        assert broken != text
        with pytest.raises(DataError):
            parse_audit(broken, "audit.json")


def test_a_file_beyond_the_limit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.json"
    path.write_text(as_text(whole(CONTENT)))
    assert read_audit(path) == whole(CONTENT)
    monkeypatch.setattr(reading, "LIMIT_BYTES", 100)
    with pytest.raises(DataError, match="must have at most 100 bytes, got"):
        read_audit(path)
    with pytest.raises(DataError, match="is not there; let scotoma audit end first"):
        read_audit(tmp_path / "none.json")


# --- schemas and the page -------------------------------------------------------------------------


def models() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in ("audit", "verdict"):
        schema = file_schema(kind)
        yield kind, schema
        yield from schema["$defs"].items()


def test_every_key_says_what_it_holds() -> None:
    for name, schema in models():
        if name in ("GateRules", "Minimum") or name.endswith("Rule") or name == "MaxIncrease":
            continue  # a gate file's, with a page of their own
        assert schema["description"], name
        for key, field in schema["properties"].items():
            assert field.get("description"), f"{name}.{key}"


def test_the_page_of_results_is_generated() -> None:
    spec = importlib.util.spec_from_file_location("results", ROOT / "docs" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(results)
    assert (ROOT / "docs" / "results.md").read_text() == results.page(), "python docs/results.py"


# --- nobody else holds them as plain values -------------------------------------------------------

NAMES = {"audit", "gate", "divergence", "cie", "gaps", "gallery", "previous", "test"}


@cache
def functions() -> list[tuple[str, ast.FunctionDef]]:
    return [
        (f"{path.relative_to(ROOT)}:{node.name}", node)
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "audit")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]


def called(call: ast.Call) -> str:
    """The last name of what is called; `ast.unparse` of every call would take seconds."""
    name: str = getattr(call.func, "id", getattr(call.func, "attr", ""))
    return name


def test_no_function_takes_an_audit_as_a_dict() -> None:
    loose = re.compile(r"\bAny\b")
    held = [
        f"{where} {argument.arg}: {ast.unparse(argument.annotation)}"
        for where, node in functions()
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if argument.arg in NAMES
        and argument.annotation is not None
        and loose.search(ast.unparse(argument.annotation))
    ]
    assert held == []


def test_no_function_parses_or_returns_an_audit_itself() -> None:
    for where, node in functions():
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and called(call) in ("read_json", "loads"):
                given = " ".join(map(ast.unparse, call.args))
                assert not re.search(r"audit|gate|section", given), f"{where}: {given}"
        text = ast.get_docstring(node) or ""
        returns = "" if node.returns is None else ast.unparse(node.returns)
        if "dict" in returns and "Any" in returns:
            assert not re.search(r"audit\.json|gate\.json", text), where


def test_no_function_catches_what_it_does_not_know() -> None:
    """A reader of typed content has one thing to catch."""
    readers = re.compile(r"scotoma/(verdict|report|tracking|summary|steps|commands)\b")
    for where, node in functions():
        if not readers.match(where):
            continue
        for handler in ast.walk(node):
            if isinstance(handler, ast.ExceptHandler) and isinstance(handler.type, ast.Tuple):
                assert len(handler.type.elts) < 5, where


def test_the_contract_is_cheap_to_import() -> None:
    script = "import sys, scotoma.audit; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ("numpy", "scipy", "polars", "torch")
    done = subprocess.run(
        [sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
