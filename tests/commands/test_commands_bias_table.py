"""Tables that the bias command refuses, or reads with a word about them."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest

from scotoma.bias import rates
from scotoma.divergence import excess, over_index
from scotoma.errors import DataError
from tests.commands.test_commands_bias import ASKED, COMPARED, audit_table
from tests.helpers.commands import measured, scotoma

# --- bad input ------------------------------------------------------------------------------------


def test_rows_without_an_attribute_are_a_group_of_their_own(tmp_path):
    frame = audit_table().with_columns(
        pl.when(pl.int_range(900) % 10 > 0).then("sex"), age=pl.int_range(900) % 2 / 1
    )
    frame = frame.with_columns(pl.when(pl.int_range(900) > 99).then("age").otherwise(math.nan))
    path = tmp_path / "table.parquet"
    frame.write_parquet(path)
    code, out, err = scotoma("compare", path, *ASKED, "--positive", "c1", "--json")
    assert code == 0
    assert err == (
        "column 'sex' is missing in 90 of 900 rows: they form the group '(missing)'\ncolumn 'age' "
        "is missing in 100 of 900 rows: they form the group '(missing)'\n"
    )
    sizes = {group["group"]: group["examples"] for group in json.loads(out)["groups"]}
    assert sizes["sex=(missing)"] == 90
    assert sum(size for name, size in sizes.items() if name.startswith("sex")) == 900
    assert sum(size for name, size in sizes.items() if name.startswith("age")) == 900


def test_a_group_without_members_is_undefined_and_says_so(tmp_path):
    frame = audit_table().filter((pl.col("sex") == "male") | (pl.col("age") == "young"))
    path = tmp_path / "table.csv"
    frame.write_csv(path)
    found = measured("compare", path, *COMPARED, "--intersections")
    (row,) = [
        row
        for row in found["subgroups"]
        if (row["group"], row["metric"]) == ("sex=female,age=old", "error")
    ]
    for part in ("baseline", "predicted", "absolute", "relative"):
        assert row[part]["value"] is None
        assert row[part]["reason"] == "undefined (no examples in group 'sex=female,age=old')"


def test_labels_of_one_class_leave_rates_undefined_and_not_zero(tmp_path):
    frame = audit_table().with_columns(label=pl.lit("c1"))
    path = tmp_path / "table.csv"
    frame.write_csv(path)
    found = measured("compare", path, *ASKED, "--positive", "c1")
    fpr = [row["predicted"] for row in found["subgroups"] if row["metric"] == "fpr"]
    assert all(one["value"] is None for one in fpr)
    assert fpr[0]["reason"] == "undefined (no negatives in group 'all')"


def changed(**columns: object) -> pl.DataFrame:
    return audit_table(n=60).with_columns(**columns)


LABEL = ("--label", "label")
BAD = {
    "empty": (lambda: audit_table(n=60).clear(), ASKED, 4, "table 'bad.csv' holds no rows: give it "
              "one row per example or run"),
    "column": (audit_table, (*LABEL, "--predicted", "pruned_0", "--group", "Sex"), 2,
               "--group names column 'Sex', which is not in the table; did you mean 'sex'?"),
    "pattern": (audit_table, (*LABEL, "--predicted", "int8_*", "--group", "sex"), 2,
                "--predicted names column 'int8_*', which is not in the table; it has 'id', "
                "'label', 'sex', 'age', 'person', 'income', 'dense_0', 'dense_1' and 4 more"),
    "positive": (audit_table, (*ASKED, "--positive", "c9"), 2, "--positive must be a value of the "
                 "label, got 'c9': choose among 'c0', 'c1', 'c2'"),
    "advantaged": (audit_table, (*ASKED, "--advantaged", "rich"), 2, "--advantaged must be a value "
                   "of one --group, but no group column has 'rich': write COLUMN=VALUE"),
    "all advantaged": (audit_table, (*ASKED, "--advantaged", "male", "--advantaged", "sex=female"),
                       2, "--advantaged names every value of column 'sex': leave out those that "
                          "are not advantaged"),
    "twice": (audit_table, (*LABEL, "--predicted", "pruned_*", "--baseline", "*_0", "--group",
              "sex"), 2, "label, baseline and predicted must be different columns, got 'pruned_0' "
              "twice: narrow the pattern"),
    "itself": (audit_table, (*LABEL, "--predicted", "label", "--group", "sex"), 2, "label, "
               "baseline and predicted must be different columns, got 'label' twice: narrow the "
               "pattern"),
    "paired": (audit_table, (*ASKED, "--baseline", "dense_0", "--paired"), 2, "--paired needs as "
                                                                              "many baseline as "
                                                                              "predicted "
                                                                              "columns, got 1 "
                                                                              "and 3: leave out "
                                                                              "models without a "
                                                                              "partner"),
    "level": (audit_table, (*ASKED, "--level", "95"), 2, "--level must be less than 1.0, got 95"),
    "one group": (lambda: changed(sex=pl.lit("male")), ASKED, 4, "column 'sex' holds one value, "
                  "'male': a comparison of groups needs two"),
    "ids": (lambda: changed(id=pl.int_range(60) % 59), (*ASKED, "--id", "id"), 4, "example ids "
            "must be unique, but '0' stands in column 'id' 2 times: keep one row per example"),
    "label": (lambda: changed(label=pl.lit(None)), ASKED, 4, "label 'label' is missing in all 60 "
              "rows: name another column"),
    "strata": (lambda: changed(person=pl.when(pl.int_range(60) > 1).then("person")),
               (*ASKED, "--strata", "person"), 4, "column 'person' is empty in 2 of 60 rows, "
               "first in row 1: fill or remove them"),
    "scores": (lambda: changed(label=pl.int_range(60) % 2, pruned_0=pl.int_range(60) / 59),
               (*LABEL, "--predicted", "pruned_0", "--group", "sex"), 4, "column 'pruned_0' "
               "must answer with labels, but"),
    "some scores": (lambda: changed(label=pl.format("{}.0", pl.int_range(60) % 2),
                    pruned_0=pl.int_range(60) / 59), (*LABEL, "--predicted", "pruned_0", "--group",
                    "sex"), 4, "column 'pruned_0' must answer with labels, but"),
    "other names": (lambda: changed(pruned_0=pl.lit("blond")), (*LABEL, "--predicted", "pruned_0",
                    "--group", "sex"), 4, "column 'pruned_0' must answer with labels, but "
                    "'blond' is not among 'c0', 'c1', 'c2'; write both with the same names"),
    "one class": (lambda: changed(label=pl.lit("c1"), pruned_0=pl.lit("c1")), (*LABEL,
                  "--predicted", "pruned_0", "--group", "sex"), 4, "label 'label' and all "
                  "predictions are 'c1': bias needs at least two classes"),
    "features": (lambda: changed(income=pl.lit("much")), (*ASKED, "--feature", "income"), 4,
                 "column 'income' must hold finite numbers, got 'much' in row 1: correct or remove "
                 "the row"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence_and_no_data(name, tmp_path):
    frame, asked, code, sentence = BAD[name]
    path = tmp_path / "bad.csv"
    frame().write_csv(path)
    got = scotoma("compare", path, *asked)
    assert got[:2] == (code, "")
    assert got[2].startswith(f"scotoma: {sentence}")
    assert got[2].count("\n") == 1


FILES = {
    "absent.csv": (None, 2, "does not exist: check the path"),
    "table.xlsx": (b"PK", 2, "table 'table.xlsx' is a spreadsheet: save its sheet as CSV"),
    "empty.csv": (b"", 4, "table 'empty.csv' holds no rows"),
    "ragged.csv": (b"a,b\n1,2\n3,4,5\n", 4, "ragged.csv cannot be read ("),
    "no.parquet": (b"a,b\n1,2\n", 4, "table 'no.parquet' cannot be read as Parquet ("),
    "twice.csv": (b"label,b,label\n1,2,3\n", 4, "the table has two columns 'label'; rename one"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_table_gets_one_sentence(name, tmp_path):
    content, code, sentence = FILES[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    got = scotoma("compare", tmp_path / name, *ASKED)
    assert got[:2] == (code, "")
    assert sentence in got[2]
    assert got[2].count("\n") == 1


def test_predictions_in_lists_are_refused(tmp_path):
    path = tmp_path / "table.parquet"
    frame = audit_table(n=60).with_columns(pruned_0=pl.concat_list("pruned_0", "pruned_1"))
    frame.write_parquet(path)
    assert "column 'pruned_0' must hold words or numbers" in scotoma("compare", path, *ASKED)[2]


def test_functions_refuse_empty_tables_and_attributes_with_gaps():
    nobody = np.zeros((0, 2), int)
    with pytest.raises(DataError, match=r"^predicted must be a table of at least one example"):
        rates([], nobody, np.zeros((1, 0), bool), ["all"], n_classes=2)
    with pytest.raises(DataError, match=r"^dense must be a table of at least one example"):
        excess(nobody, nobody, 2)
    gaps = [math.nan, 1.0]
    with pytest.raises(DataError, match=r"^groups must be true or false, got values of type float"):
        rates([0, 1], [[0], [1]], [gaps], ["men"], n_classes=2)
    with pytest.raises(DataError, match=r"^attribute 'men' must be true or false"):
        over_index([True, False], {"men": np.array(gaps)}, members=2)
