"""What `scotoma compare` is given decides what it does; options of another kind are refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from scotoma.commands.asking import Options
from scotoma.commands.compare import CompareOptions
from scotoma.commands.kinds import KINDS
from tests.helpers.commands import measured, scotoma

ROWS = 60


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two tables of one model each, and one of both."""
    label = ["yes", "no", "no"] * (ROWS // 3)
    columns = {"id": range(ROWS), "label": label, "sex": ["f", "m"] * (ROWS // 2)}
    answers = {"fp32": label, "int8": ["yes", "no", "yes"] * (ROWS // 3)}
    for name, own in answers.items():
        pl.DataFrame(columns | {"predicted": own}).write_csv(tmp_path / f"{name}.csv")
    pl.DataFrame(columns | answers).write_csv(tmp_path / "both.csv")
    return tmp_path / "fp32.csv", tmp_path / "int8.csv", tmp_path / "both.csv"


def test_two_tables_and_one_of_both_models_agree(tables: tuple[Path, Path, Path]) -> None:
    """The change of the selection rate, by either way in."""
    *logs, both = tables
    for labels in (["yes"], ["no"]):
        positive = [word for label in labels for word in ("--positive", label)]
        (found,) = measured("compare", *logs, "--group", "sex", *positive)["comparisons"]
        alone = measured(
            "compare", both, "--label", "label", "--predicted", "int8", "--baseline", "fp32",
            "--paired", "--group", "sex", *positive,
        )  # fmt: skip
        for row in found["decisions"]:
            (own,) = [
                one
                for one in alone["subgroups"]
                if (one["group"], one["metric"]) == (row["group"], row["metric"])
            ]
            assert row["change"]["value"] == pytest.approx(own["absolute"]["value"])
            assert row["after"]["n"] == own["predicted"]["n"]


def test_one_document_in_every_form(tables: tuple[Path, Path, Path]) -> None:
    fp32, int8, both = tables
    alone = (both, "--label", "label", "--predicted", "int8", "--group", "sex")
    for asked in ((fp32, int8, "--group", "sex"), alone):
        for form, begin in (("--markdown", "# "), ("--html", "<!doctype html>"), ("--csv", "")):
            code, out, err = scotoma("compare", *asked, form, "--quiet")
            assert (code, err) == (0, "")
            assert out.startswith(begin)


def test_tables_of_several_models_keep_their_names_in_csv(tables: tuple[Path, Path, Path]) -> None:
    fp32, int8, _ = tables
    third = fp32.with_name("int4.csv")
    third.write_bytes(int8.read_bytes())
    code, out, _ = scotoma("compare", fp32, int8, third, "--group", "sex", "--csv")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("# ")] == [
        "# int8: groups", "# int4: groups", "# candidates",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "compare needs the answers of models, got none; "),
        (("nowhere",), "nowhere does not exist: check the path"),
        (("{both}", "--label", "label", "--predicted", "int8"), "--group is missing; name"),
        (("{both}", "--label", "label", "--group", "sex"), "--predicted must name at least one"),
        (("{both}", "--predicted", "int8", "--gate"),
         "--gate does not go with one table of predictions; leave out --gate"),
        (("{fp32}", "{int8}", "--all"),
         "--all does not go with evaluation logs or tables, one a model; leave"),
        (("{fp32}", "{int8}", "--iou", "0.7"), "leave out --iou, or add --truth"),
        (("{fp32}", "{int8}", "--so-far", "--out", "x"),
         "--out does not go with logs of evaluations that go on (--so-far); leave out "
         "--out or --so-far\n"),
        (("{fp32}", "{int8}", "--truth", "x.json", "--list"), "leave one out"),
        (("{fp32}", "{int8}", "--predicted", "a", "--predicted", "b"), "names one column"),
        (("{both}", "--predicted", "int8", "--group", "sex", "--score", "lower", "--four-fifths"),
         "--four-fifths is for classes"),
    ],
)  # fmt: skip
def test_what_fits_no_kind_or_two_is_one_sentence(
    tables: tuple[Path, Path, Path], arguments: tuple[str, ...], sentence: str
) -> None:
    places = dict(zip(("fp32", "int8", "both"), tables, strict=True))
    code, out, err = scotoma("compare", *(one.format(**places) for one in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_every_option_is_of_a_kind() -> None:
    """An option that no kind reads could only ever be refused."""
    own = CompareOptions.model_fields.keys() - Options.model_fields.keys() - {"paths"}
    assert frozenset().union(*(kind.reads for kind in KINDS)) == own
    assert {kind.says for kind in KINDS} - {""} <= own


def test_the_old_name_says_the_new_one(tables: tuple[Path, Path, Path]) -> None:
    code, _, err = scotoma("bias", tables[2], "--label", "label")
    assert code == 2
    assert "scotoma bias is called scotoma compare now" in err
