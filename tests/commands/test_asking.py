"""Every command is asked in one way: options, refusals, forms of the answer, exit codes."""

from __future__ import annotations

import csv
import io
import json

import pytest
from pydantic import model_validator

from scotoma.commands import COMMANDS, RENAMED
from scotoma.commands.asking import Answer, Options, argument, option, typed_command
from scotoma.document import Column, Document, Interval, Section, Table
from scotoma.errors import DataError
from tests.helpers.commands import scotoma


class _Sample(Options):
    names: tuple[str, ...] = argument("Names.")
    share: float = option(0.5, "A share.", ge=0, le=1)
    of: str = option("", "Whose.", name="--of-whom")

    @model_validator(mode="after")
    def _not_both(self) -> _Sample:
        if self.of and self.share == 1:
            raise ValueError("--of-whom and --share 1 exclude each other; leave one out")
        return self


def sample(options: _Sample) -> Answer:
    """Answer with a table."""
    rows = [
        {"name": name, "error": Interval(options.share, 0.25, 0.75, 40)} for name in options.names
    ]
    table = Table(
        "rates", "Rates", (Column("name", "name"), Column("error", "error", "rate")), rows
    )
    refusal = DataError("the last one is unknown") if options.of == "nobody" else None
    document = Document("Who?", sections=[Section("a", "Rates", parts=[table])])
    return Answer(document, notes=["noted"], exit_code=3, refusal=refusal)


@pytest.fixture
def typed(monkeypatch, capsys):
    """Run `scotoma sample ...`: code, stdout, stderr."""
    from scotoma import cli

    monkeypatch.setitem(COMMANDS, "sample", "Answer.")
    monkeypatch.setattr(cli, "_built", lambda _: typed_command(sample))
    return lambda *arguments: scotoma("sample", *arguments)


def test_the_same_answer_in_every_form(typed) -> None:
    code, text, notes = typed("a", "b")
    assert code == 3
    assert "50.00% [25.00, 75.00]" in text
    assert notes == "noted\n"
    assert typed("a", "b", "--quiet")[2] == ""
    first = json.loads(typed("a", "b", "--json")[1])["rates"][0]
    assert first["name"] == "a"
    assert first["error"] == 0.5
    assert first["error_low"] == 0.25
    rows = list(csv.DictReader(io.StringIO(typed("a", "b", "--csv")[1])))
    assert [row["name"] for row in rows] == ["a", "b"]
    assert float(rows[1]["error_high"]) == 0.75
    assert "| `a` |" in typed("a", "b", "--markdown")[1]
    assert typed("a", "b", "--html")[1].startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--share", "2"], "--share must be at most 1.0, got 2"),
        (["a", "--share", "half"], "--share should be a valid number"),
        (["a", "--of-whom", "b", "--share", "1"], "--of-whom and --share 1 exclude each other"),
        (["a", "--csv", "--json"], "--json and --csv exclude each other; choose one"),
    ],
)
def test_a_refusal_is_a_sentence(typed, arguments: list[str], message: str) -> None:
    code, text, notes = typed(*arguments)
    assert (code, text) == (2, "")
    assert message in notes
    assert "Traceback" not in notes


def test_what_went_wrong_is_raised_after_the_answer(typed) -> None:
    code, text, notes = typed("a", "--of-whom", "nobody")
    assert code == 4
    assert "50.00%" in text
    assert notes.endswith("the last one is unknown\n")


@pytest.mark.parametrize(
    "asked",
    [
        ("gate", "nowhere"), ("verify", "nowhere"),
        ("evidence", "nowhere", "--model", "m.onnx"), ("init", "nowhere.csv"),
        ("study", "new", "nowhere", "--variant", "int8"), ("review", "nowhere"),
        ("show", "schema", "config"), ("kubeflow", "stop", "x"),
    ],
)  # fmt: skip
def test_csv_of_sentences_is_refused_before_anything_is_done(asked: tuple[str, ...]) -> None:
    code, text, notes = scotoma(*asked, "--csv")
    assert (code, text) == (2, "")
    assert "--csv prints tables, and this answer has none" in notes


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        (("compare", "a.csv", "--level", "95"), "less than 1.0, got 95; write 0.95 for 95%"),
        (("compare", "a", "b", "--iou", "50"), "at most 1.0, got 50; write 0.5 for 50%"),
        (("audit", "--plan", "--assumed-error", "5"), "got 5; write 0.05 for 5%"),
        (("compare", "a.csv", "--level", "950"), "got 950\n"),
    ],
)
def test_a_per_cent_is_told_its_fraction(asked: tuple[str, ...], hint: str) -> None:
    code, _, notes = scotoma(*asked)
    assert code == 2
    assert hint in notes


def test_help_says_bounds_and_defaults(typed) -> None:
    shown = typed("--help")[1]
    assert "At least 0, at most 1." in " ".join(shown.split())
    assert "0.5" in shown


def test_an_old_name_ends_with_the_new_one(monkeypatch) -> None:
    monkeypatch.setitem(RENAMED, "assess", "verify")
    code, _, notes = scotoma("assess", "x")
    assert code == 2
    assert "scotoma assess is called scotoma verify now" in notes
    code, _, notes = scotoma("corrupt", "x.png", "--all")
    assert (code, notes.count("\n")) == (2, 1)
    assert "run python examples/corrupt.py in a checkout" in notes
