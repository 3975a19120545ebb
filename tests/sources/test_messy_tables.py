"""Tables as people have them, through init, check and audit without an edit.

Each is drawn by a seed and spoilt in a way of its own, written in one of six forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.helpers.commands import scotoma

pytestmark = pytest.mark.usefixtures("steps_here")

EXAMPLES = 400

Table = dict[str, list[str]]


def drawn(seed: int) -> tuple[Table, list[dict[str, str]]]:
    """A clean table of people, and what two models predict of each."""
    random = np.random.default_rng(seed)
    label = random.choice(["approved", "declined"], EXAMPLES)
    wrong = np.array(["declined", "approved"])[(label == "declined").astype(int)]

    def predicted(error: float) -> list[str]:
        return np.where(random.random(EXAMPLES) < error, wrong, label).tolist()

    months, days = random.integers(1, 13, EXAMPLES), random.integers(1, 29, EXAMPLES)
    table = {
        "example_id": [f"case {n}" for n in range(EXAMPLES)],
        "label": label.tolist(),
        "sex": random.choice(["f", "m"], EXAMPLES).tolist(),
        "age": random.integers(18, 91, EXAMPLES).astype(str).tolist(),
        "country": random.choice(["Österreich", "België", "Türkiye"], EXAMPLES).tolist(),
        "since": [f"2026-{m:02d}-{d:02d}" for m, d in zip(months, days, strict=True)],
    }
    return table, [
        {"variant": variant, "error": json.dumps(predicted(error))}
        for variant, error in (("fp32", 0.08), ("int8", 0.1))
    ]


def with_column(name: str, values: Callable[[int], str]) -> Callable[[Table], None]:
    def spoil(table: Table) -> None:
        table[name] = [values(n) for n in range(EXAMPLES)]

    return spoil


def with_words(name: str, word: str) -> Callable[[Table], None]:
    def spoil(table: Table) -> None:
        table[name] = [word if n % 9 == 0 else v for n, v in enumerate(table[name])]

    return spoil


def renamed(old: str, new: str) -> Callable[[Table], None]:
    def spoil(table: Table) -> None:
        table[new] = table.pop(old)

    return spoil


SPOILT: dict[str, tuple[Callable[[Table], None], ...]] = {
    "as it should be": (),
    "empty cells": (with_words("sex", ""), with_words("age", "")),
    "the word nan": (with_words("sex", "NaN"), with_words("age", "nan")),
    "the word null": (with_words("country", "null"),),
    "n/a among numbers": (with_words("age", "n/a"),),
    "a question mark among numbers": (with_words("age", "?"),),
    "a dash among dates": (with_words("since", "-"),),
    "mixed types": (with_words("age", "unknown"),),
    "decimals": (with_column("income", lambda n: f"{20_000 + 37.5 * n:.2f}"),),
    "negative numbers": (with_column("balance", lambda n: str(-200 + n % 77 * 9)),),
    "numbers of which most are zero": (with_column("gain", lambda n: str(n % 10 // 9 * n)),),
    "exponents": (with_column("score", lambda n: f"{n % 50}e-3"),),
    "a constant": (with_column("batch", lambda _: "b7"),),
    "an empty column": (with_column("comment", lambda _: ""),),
    "a second id": (with_column("uuid", lambda n: f"{n:032x}"),),
    "a counter": (with_column("row", str),),
    "free text": (with_column("remark", lambda n: f"called, \"{n}\" times\nand again"),),
    "forty cities": (with_column("city", lambda n: f"city {n * n % 40}"),),
    "one rare value": (with_column("plan", lambda n: "gold" if n < 4 else "ab"[n % 2]),),
    "timestamps": (with_column("seen", lambda n: f"2026-01-{1 + n % 28:02d}T09:30:00Z"),),
    "years": (with_column("since_year", lambda n: str(1990 + n % 33)),),
    "words of upper case": (with_column("Region", lambda n: ["NORTH", "South"][n % 2]),),
    "names with spaces": (renamed("sex", "the sex "), renamed("age", "Age (years)")),
    "names in other scripts": (renamed("country", "страна"), renamed("sex", "性別")),
    "the id has another name": (renamed("example_id", "case no."),),
    "the label is called target": (renamed("label", "Target"),),
    "twelve more attributes": tuple(
        with_column(f"flag {k}", lambda n, k=k: "yn"[n // (k + 1) % 2]) for k in range(12)
    ),
    "a column that the audit has itself": (with_column("cluster", lambda n: "pq"[n % 2]),),
    "yes and no": (with_column("smoker", lambda n: ["yes", "No"][n % 3 == 0]),),
    "truth values": (with_column("member", lambda n: str(n % 4 > 0)),),
}  # fmt: skip
WRITTEN = ("commas", "semicolons", "tabs", "BOM", "duplicate header", "Parquet")
FEW = ("n/a among numbers",)


def write(table: Table, way: str, folder: Path) -> Path:
    frame = pl.DataFrame(table)
    path = folder / ("examples.parquet" if way == "Parquet" else "examples.csv")
    if way == "Parquet":
        frame.write_parquet(path)
        return path
    frame.write_csv(path, separator={"semicolons": ";", "tabs": "\t"}.get(way, ","))
    text = path.read_text()
    if way == "duplicate header":
        text = frame.with_columns(again=pl.col(frame.columns[2])).write_csv()
        text = text.replace(",again\n", f",{frame.columns[2]}\n", 1)
    path.write_text(text, encoding="utf-8-sig" if way == "BOM" else "utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in FEW else pytest.mark.thorough) for n in SPOILT],
)
def test_a_messy_table_goes_through_init_check_and_audit_without_an_edit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = list(SPOILT).index(name)
    table, models = drawn(at)
    ids = table["example_id"]
    for spoil in SPOILT[name]:
        spoil(table)
    key = next(column for column, values in table.items() if values is ids)
    path = write(table, WRITTEN[at % len(WRITTEN)], tmp_path)
    for model in models:
        (tmp_path / "preds").mkdir(exist_ok=True)
        predictions = pl.DataFrame({key: ids, "predicted": json.loads(model["error"])})
        predictions.write_csv(tmp_path / "preds" / f"{model['variant']}.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")

    code, _, err = scotoma("init", path.name, "--predictions", "preds/{variant}.csv")
    assert code == 0, err
    code, _, err = scotoma("audit", "--plan", "audit.yaml", "--quiet")
    assert code == 0, err
    (tmp_path / "audit.yaml").write_text(
        (tmp_path / "audit.yaml").read_text() + "tracking: {uri: 'off'}\n"
    )
    code, _, err = scotoma("audit", "audit.yaml", "--out", "run")
    assert code == 0, err
    audit = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert audit["variants"][0]["name"] == "dense"
    assert 2 < len(audit["groups"]) <= 60
