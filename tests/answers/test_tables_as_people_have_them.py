"""Tables as people have them, through the commands that read them: one door, one answer.

A table of 2,000 rows: the models are dense and int8, and int8 loses 80 answers of sex=f alone. It
is written in every way that outsiders had; each must give the numbers of the plain one, or a
sentence.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.helpers.audits import accuracy
from tests.helpers.commands import measured, scotoma

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("steps_here")]

N, HARM = 2_000, 80


@pytest.fixture
def cases(shared: Path) -> Path:
    return shared / "data" / "cases"


def people(harm: int = HARM) -> pl.DataFrame:
    """Dense is right on 90%; int8 loses `harm` of the answers that dense had right for sex=f."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, N)
    dense = np.where(rng.random(N) < 0.1, 1 - label, label)
    female = rng.random(N) < 0.5
    lost = np.flatnonzero(female & (dense == label))[:harm]
    int8 = dense.copy()
    int8[lost] = 1 - int8[lost]
    return pl.DataFrame(
        {"id": np.arange(N), "label": label, "dense": dense, "int8": int8,
         "sex": np.where(female, "f", "m"), "age": rng.integers(18, 90, N)}
    )  # fmt: skip


def changes(rows: pl.DataFrame) -> float:
    """The rise of the error of sex=f in points, by plain counting."""
    own = rows.filter(sex="f")
    wrong = [(own[name] != own["label"]).mean() for name in ("dense", "int8")]
    return 100 * float(wrong[1] - wrong[0])


def error(bias: dict[str, Any], group: str = "all") -> dict[str, Any]:
    """The row of a group's error among what `scotoma compare --json` prints."""
    rows = bias["subgroups"]
    return next(one for one in rows if (one["group"], one["metric"]) == (group, "error"))


WORDS = {0: "no", 1: "yes"}
LABELS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "plain": lambda t: t,
    "answers 0.0 and 1.0": lambda t: t.with_columns(
        pl.col("dense", "int8").cast(pl.Float64).cast(pl.String)
    ),
    "one side 0.0 and 1.0": lambda t: t.with_columns(pl.col("int8").cast(pl.Float64)),
    "labels 00 and 01": lambda t: t.with_columns(pl.format("0{}", "label").alias("label")),
    "answers True and False": lambda t: t.with_columns(
        pl.col("dense", "int8").replace_strict({0: "False", 1: "True"}, return_dtype=pl.String)
    ),
    "labels true, answers 1.0": lambda t: t.with_columns(
        pl.col("label") == 1, pl.col("dense", "int8").cast(pl.Float64)
    ),
    "blanks around labels": lambda t: worded(t).with_columns(
        pl.format(" {}", "label").alias("label")
    ),
    "no-break space after answers": lambda t: worded(t).with_columns(
        pl.format("{}\u00a0", "int8").alias("int8")
    ),
    "zero width space": lambda t: worded(t).with_columns(
        pl.format("{}\u200b", "dense").alias("dense")
    ),
    "case differs": lambda t: worded(t).with_columns(
        pl.col("dense", "int8").str.to_uppercase()
    ),
    "accents apart (NFD)": lambda t: worded(t, {0: "no", 1: "s\u00ed"}).with_columns(
        pl.col("dense", "int8").str.replace("\u00ed", "i\u0301", literal=True)
    ),
    "labels mixed 0 and 0.0": lambda t: t.with_columns(
        pl.when(pl.col("id") % 2 == 0).then(pl.format("{}.0", "label"))
        .otherwise(pl.col("label").cast(pl.String)).alias("label")
    ),
}  # fmt: skip


def worded(rows: pl.DataFrame, words: dict[int, str] = WORDS) -> pl.DataFrame:
    return rows.with_columns(
        pl.col("label", "dense", "int8").replace_strict(words, return_dtype=pl.String)
    )


def sides(rows: pl.DataFrame, folder: Path, suffix: str = "csv") -> tuple[Path, Path]:
    """Write a table a model, as evaluations leave them."""
    paths = []
    for name in ("dense", "int8"):
        own = rows.select("id", "label", pl.col(name).alias("predicted"), "sex")
        paths.append(folder / f"{name}.{suffix}")
        own.write_csv(paths[-1]) if suffix == "csv" else own.write_parquet(paths[-1])
    return paths[0], paths[1]


def verdict_of_compare(rows: pl.DataFrame, folder: Path, suffix: str) -> tuple[int, float, float]:
    before, after = sides(rows, folder, suffix)
    (one,) = measured("compare", before, after, "--group", "sex")["comparisons"]
    code, _, _ = scotoma("compare", before, after, "--group", "sex", "--gate", "--quiet")
    return code, one["score"]["before"]["value"], one["score"]["after"]["value"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("way", LABELS)
def test_compare_reads_labels_and_answers_in_one_language(
    way: str, suffix: str, tmp_path: Path
) -> None:
    plain = people()
    right = [(plain[name] == plain["label"]).mean() for name in ("dense", "int8")]
    code, before, after = verdict_of_compare(LABELS[way](plain), tmp_path, suffix)
    assert (before, after) == pytest.approx(tuple(map(float, right)))
    assert code == 1  # the harm is found


@pytest.mark.parametrize("way", LABELS)
def test_its_harmless_twin_does_not_fail(way: str, tmp_path: Path) -> None:
    assert verdict_of_compare(LABELS[way](people(harm=0)), tmp_path, "csv")[0] != 1


@pytest.mark.parametrize("way", LABELS)
def test_bias_slices_and_audit_read_them_alike(way: str, tmp_path: Path) -> None:
    plain = people()
    path = tmp_path / "t.csv"
    LABELS[way](plain).write_csv(path)
    bias = measured(
        "compare", path, "--label", "label", "--predicted", "int8", "--baseline", "dense",
        "--group", "sex", "--paired",
    )  # fmt: skip
    assert 100 * error(bias, "sex=f")["absolute"]["value"] == pytest.approx(changes(plain))
    code, out, err = scotoma(
        "slices", path, "--label", "label", "--outcome", "int8", "--baseline", "dense", "--paired",
        "--feature", "sex",
    )  # fmt: skip
    assert code == 0, err
    assert "sex = f" in out
    config = tmp_path / "audit.yaml"
    config.write_text(
        "version: 1\nproject: t\nsource: {kind: predictions, files: t.csv, examples: t.csv, "
        "key: id, columns: {dense: dense, int8: int8}}\nlabel: {column: label}\n"
        "groups: {sex: {column: sex}}\ntracking: {uri: 'off'}\n"
    )
    code, out, err = scotoma("audit", config, "--out", tmp_path / "run", "--gate", "--quiet")
    assert (code, "FAIL" in out) == (1, True), err


def test_answers_that_share_nothing_with_labels_are_refused_by_every_command(
    tmp_path: Path,
) -> None:
    rows = people().with_columns(pl.col("label").replace_strict(WORDS, return_dtype=pl.String))
    path = tmp_path / "t.csv"
    rows.write_csv(path)
    before, after = sides(rows, tmp_path)
    named = ("--label", "label", "--group", "sex")
    commands: dict[str, tuple[Any, ...]] = {
        "compare": ("compare", before, after, "--gate"),
        "bias": ("compare", path, "--predicted", "int8", *named),
        "slices": ("slices", path, "--label", "label", "--outcome", "int8", "--feature", "sex"),
    }
    for command in commands.values():
        code, out, err = scotoma(*command)
        assert (code, out) == (4, "")
        assert "must answer with labels, but '0', '1' are not among 'no', 'yes'" in err
        assert err.count("\n") == 1


def test_scores_given_for_answers_are_refused(tmp_path: Path) -> None:
    rows = people().with_columns(pl.col("int8") * 0.8 + 0.1)
    before, after = sides(rows, tmp_path)
    code, _, err = scotoma("compare", before, after)
    assert code == 4
    assert "turn scores into labels with a threshold" in err


def test_words_for_missing_answers_count_as_wrong(tmp_path: Path) -> None:
    rows = worded(people(harm=0))
    for word in ("", "N/A", "None", "?", "null"):
        own = rows.with_columns(
            pl.when(pl.col("id") < 60).then(pl.lit(word)).otherwise("int8").alias("int8")
        )
        wrong = float((own["int8"] != own["label"]).mean())
        before, after = sides(own, tmp_path)
        (one,) = measured("compare", before, after)["comparisons"]
        assert one["score"]["after"]["value"] == pytest.approx(1 - wrong), word
        own.write_csv(tmp_path / "t.csv")
        bias = measured(
            "compare",
            tmp_path / "t.csv",
            "--label",
            "label",
            "--predicted",
            "int8",
            "--group",
            "sex",
        )
        assert error(bias)["predicted"]["value"] == pytest.approx(wrong), word


def test_a_word_for_missing_is_a_class_where_two_labels_have_it(tmp_path: Path) -> None:
    rows = worded(people(), {0: "None", 1: "yes"})
    code, before, _ = verdict_of_compare(rows, tmp_path, "csv")
    assert code == 1
    assert before == pytest.approx(float((rows["dense"] == rows["label"]).mean()))


def test_examples_without_a_label_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = people(harm=0).with_columns(
        pl.when(pl.col("id") < 100).then(None).otherwise("label").alias("label")
    )
    path = tmp_path / "t.csv"
    rows.write_csv(path)
    asked = ("compare", path, "--label", "label", "--predicted", "int8", "--group", "sex")
    code, _, err = scotoma(*asked)
    assert code == 0
    assert "label 'label' is missing in 100 of 2,000 rows: they are left out" in err
    assert error(measured(*asked))["predicted"]["n"] == 1_900


def test_ages_are_binned_in_csv_as_in_parquet_by_bias_compare_and_audit(tmp_path: Path) -> None:
    rows = people()
    found = {}
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"t.{suffix}"
        rows.write_csv(path) if suffix == "csv" else rows.write_parquet(path)
        asked = ("--label", "label", "--predicted", "int8", "--group", "age")
        found[suffix] = {one["group"] for one in measured("compare", path, *asked)["groups"]}
    assert found["csv"] == found["parquet"]
    assert len(found["csv"]) == 5  # all, and four bins


FILES: dict[str, Callable[[str], tuple[str, bytes]]] = {
    "semicolons": lambda t: ("t.csv", t.replace(",", ";").encode()),
    "tabs": lambda t: ("t.tsv", t.replace(",", "\t").encode()),
    "bars": lambda t: ("t.csv", t.replace(",", "|").encode()),
    "sep=": lambda t: ("t.csv", b"sep=;\r\n" + t.replace(",", ";").replace("\n", "\r\n").encode()),
    "byte order mark": lambda t: ("t.csv", t.encode("utf-8-sig")),
    "UTF-16": lambda t: ("t.csv", t.encode("utf-16")),
    "Windows-1252": lambda t: ("t.csv", t.encode("cp1252")),
    "gzip": lambda t: ("t.csv.gz", gzip.compress(t.encode())),
    "row numbers of pandas": lambda t: (
        "t.csv",
        "\n".join(f"{k or ''},{line}" for k, line in enumerate(t.splitlines()))
        .encode(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", FILES)
def test_csv_is_read_however_it_is_separated_and_encoded(way: str, tmp_path: Path) -> None:
    rows = people().with_columns(pl.col("sex").replace({"f": "féminin"}))
    name, content = FILES[way](rows.write_csv())
    (tmp_path / name).write_bytes(content)
    bias = measured(
        "compare", tmp_path / name, "--label", "label", "--predicted", "int8",
        "--baseline", "dense", "--group", "sex", "--paired",
    )  # fmt: skip
    found = error(bias, "sex=féminin")["absolute"]["value"]
    assert 100 * found == pytest.approx(changes(people()))


def test_a_guessed_encoding_is_told(tmp_path: Path) -> None:
    rows = people().with_columns(pl.col("sex").replace({"f": "féminin"}))
    (tmp_path / "t.csv").write_bytes(rows.write_csv().encode("cp1252"))
    _, _, err = scotoma(
        "compare", tmp_path / "t.csv", "--label", "label", "--predicted", "int8", "--group", "sex"
    )
    assert "t.csv is not in UTF-8 and was read as Windows-1252" in err


def test_compare_tells_what_is_no_label_once(tmp_path: Path) -> None:
    rows = people(harm=0).with_columns(pl.col("label", "dense", "int8").cast(pl.String))
    odd = pl.when(pl.int_range(pl.len()) < 40).then(pl.lit("fox")).otherwise("int8")
    for name, said in (("dense", pl.col("dense")), ("int8", odd)):
        rows.select("id", "label", predicted=said).write_csv(tmp_path / f"{name}.csv")
    out = scotoma(
        "compare", tmp_path / "dense.csv", tmp_path / "int8.csv", "--id", "id", "--label", "label",
        "--predicted", "predicted", "--json",
    )[1]  # fmt: skip
    told = [one["sentence"] for one in json.loads(out)["admission"] if "fox" in one["sentence"]]
    assert told == ["int8: 2.0% of its answers are no label ('fox'); they count as wrong"]


def test_a_guessed_encoding_is_told_by_audits_and_compare(tmp_path: Path) -> None:
    rows = people().with_columns(pl.col("sex").replace({"f": "féminin"}))
    said = [
        rows.select("id", "sex", "label", predicted=name).write_csv() for name in ("dense", "int8")
    ]
    for name, text, encoding in zip(("dense", "int8"), said, ("utf-8", "utf-16"), strict=True):
        (tmp_path / f"{name}.csv").write_bytes(text.encode(encoding))
    (tmp_path / "people.tsv").write_bytes(rows.write_csv().encode("cp1252"))
    told = "int8.csv is not in UTF-8 and was read as UTF-16"
    compared = scotoma(
        "compare", tmp_path / "dense.csv", tmp_path / "int8.csv", "--id", "id", "--label", "label",
        "--predicted", "predicted", "--json",
    )[1]  # fmt: skip
    assert told in [note["sentence"] for note in json.loads(compared)["admission"]]
    (tmp_path / "audit.yaml").write_text(
        f"""
version: 1
source: {{kind: predictions, files: '{tmp_path}/{{variant}}.csv', examples: people.tsv, key: id}}
label: {{column: label}}
tracking: {{uri: 'off'}}
""".replace("people.tsv", str(tmp_path / "people.tsv"))
    )
    out = tmp_path / "run"
    assert scotoma("audit", tmp_path / "audit.yaml", "--out", out, "--quiet")[0] == 0
    sentences = [
        note["sentence"] for note in json.loads((out / "audit.json").read_text())["admission"]
    ]
    assert told in sentences
    assert "people.tsv is not in UTF-8 and was read as Windows-1252" in sentences


# --- what outsiders sent --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    ["compare-labels-float", "compare-labels-bool", "compare-labels-one-side",
     "compare-labels-space"],
)  # fmt: skip
def test_tables_that_passed_at_0_percent_fail(case: str, cases: Path) -> None:
    folder = cases / case
    names = sorted(path.name for path in folder.iterdir() if path.name != "README")
    asked = ("compare", folder / names[0], folder / names[1], "--group", "sex")
    (one,) = measured(*asked)["comparisons"]
    values = one["score"]["before"]["value"], one["score"]["after"]["value"]
    assert values == pytest.approx((0.898, 0.8625), abs=1e-9)
    code, out, _ = scotoma(*asked, "--gate")
    assert code == 1
    assert "FAIL" in out


def test_numbers_of_classes_against_names_are_refused(cases: Path) -> None:
    folder = cases / "compare-labels-index"
    code, out, err = scotoma("compare", folder / "fp32.csv", folder / "int8.csv", "--gate")
    assert (code, out) == (4, "")
    assert "are not among 'no', 'yes'" in err


def test_classes_written_as_numbers_do_not_pass_at_0_percent(cases: Path, tmp_path: Path) -> None:
    code, out, _ = scotoma(
        "audit", cases / "audit-passes-at-0-percent" / "audit.yaml", "--out", tmp_path / "run",
        "--gate",
    )  # fmt: skip
    assert code == 1
    assert "FAIL    int8: error f +78.0%" in out


@pytest.mark.parametrize("sheet", ["sex.yaml", "sex_clean.yaml"])
def test_groups_that_look_alike_are_one(sheet: str, cases: Path, tmp_path: Path) -> None:
    code, out, _ = scotoma(
        "audit", cases / "groups-look-alike" / sheet, "--out", tmp_path / "run", "--gate"
    )
    assert code == 1
    assert "FAIL    int8: error female +41.4% [+25.5, +59.3]" in out


def test_groups_that_differ_in_case_are_told(cases: Path) -> None:
    code, _, err = scotoma(
        "compare", cases / "groups-case-and-space" / "t.csv", "--label", "label", "--predicted",
        "pred_int8", "--baseline", "pred_fp32", "--group", "sex",
    )  # fmt: skip
    assert code == 0
    assert "outer blanks were left out of 496 values" in err
    assert "'Female' and 'female' differ in case alone and stay apart" in err


def test_a_folder_of_parts_is_one_table(cases: Path) -> None:
    folder = cases / "parquet-folder"
    (one,) = measured("compare", folder / "fp32", folder / "int8")["comparisons"]
    values = one["score"]["before"]["value"], one["score"]["after"]["value"]
    assert values == pytest.approx((0.896, 0.794))
    for command in (
        (
            "compare",
            folder / "fp32",
            "--label",
            "label",
            "--predicted",
            "predicted",
            "--group",
            "sex",
        ),
        ("slices", folder / "fp32", "--label", "label", "--outcome", "predicted"),
    ):
        code, out, _ = scotoma(*command)
        assert code == 0
        assert "1,000 examples" in out


def test_text_that_parquet_does_not_mark_is_text(cases: Path, tmp_path: Path) -> None:
    table = cases / "parquet-binary-text" / "t.parquet"
    code, out, _ = scotoma(
        "slices", table, "--label", "label", "--outcome", "pred_int8", "--baseline", "pred_fp32"
    )
    assert code == 0
    assert "sex = f" in out
    assert scotoma("init", table, "--out", tmp_path / "a.yaml")[0] == 0
    assert "sex" in (tmp_path / "a.yaml").read_text()


def test_answers_0_point_0_are_predictions_for_init(cases: Path, tmp_path: Path) -> None:
    table = tmp_path / "wide.csv"
    table.write_bytes((cases / "init-float-predictions" / "wide.csv").read_bytes())
    assert scotoma("init", table, "--out", tmp_path / "a.yaml")[0] == 0
    code, _, err = scotoma("audit", "--plan", tmp_path / "a.yaml")
    assert code == 0, err


@pytest.mark.parametrize(("share", "verdict"), [(0.02, "PASS"), (0.08, "UNSURE")])
def test_answers_that_are_no_label_count_as_wrong_and_many_admit_no_pass(
    share: float, verdict: str, tmp_path: Path
) -> None:
    rows = worded(people(harm=0)).with_columns(
        pl.when(pl.col("id") < share * N).then(pl.lit("fox")).otherwise(name).alias(name)
        for name in ("dense", "int8")
    )
    wrong = float((rows["int8"] != rows["label"]).mean())
    rows.write_csv(tmp_path / "t.csv")
    config = tmp_path / "audit.yaml"
    config.write_text(
        "version: 1\nproject: t\nsource: {kind: predictions, files: t.csv, examples: t.csv, "
        "key: id, columns: {dense: dense, int8: int8}}\nlabel: {column: label}\n"
        "groups: {sex: {column: sex}}\ntracking: {uri: 'off'}\n"
    )
    run = tmp_path / "run"
    assert scotoma("audit", config, "--out", run, "--quiet")[0] == 0
    audit = json.loads((run / "audit.json").read_text())
    assert accuracy(audit, "int8")["top1"]["value"] == pytest.approx(1 - wrong)
    assert any(
        "of its answers are no label ('fox')" in one["sentence"] for one in audit["admission"]
    )
    gate = json.loads((run / "gate.json").read_text())
    assert [one["verdict"] for one in gate["variants"]] == [verdict]
    before, after = sides(rows, tmp_path)
    _, out, _ = scotoma("compare", before, after, "--group", "sex", "--gate", "--quiet")
    assert verdict in out


def test_columns_that_look_like_codes_are_told_and_can_be_said_to_be_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    region = rng.integers(0, 6, 6_000)
    wrong = rng.random(6_000) < np.where(np.isin(region, [1, 4]), 0.5, 0.1)
    pl.DataFrame({"region": region, "age": rng.integers(0, 6, 6_000), "wrong": wrong}).write_csv(
        tmp_path / "t.csv"
    )
    asked = ("slices", tmp_path / "t.csv", "--outcome", "wrong")
    notes = measured(*asked)["notes"]
    assert [note for note in notes if "codes" in note] == [
        "column 'region' looks like codes: its 6 whole numbers matter, but not in their order; "
        "--categorical region takes them for names"
    ]
    assert not any("codes" in one for one in measured(*asked, "--categorical", "region")["notes"])
    out = scotoma(*asked, "--categorical", "region")[1]
    assert "region = 1" in out
    assert "region = 4" in out
