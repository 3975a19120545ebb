"""Data not made here, spoilt by a seed, for walks of a user's first hour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import polars as pl
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

SIDE = 16  # pixels that the models of the engineer take
Table = dict[str, list[str]]


def adult(shared: Path, rows: int = 3000) -> tuple[Table, str]:
    """Rows of UCI Adult without an id, and the column of the label."""
    path = shared / "data" / "adult" / "adult.csv.gz"
    frame = pl.read_csv(path, infer_schema=False).sample(rows, seed=0).drop("split")
    return frame.to_dict(as_series=False), "income"


def breast_cancer() -> tuple[Table, str]:
    """Scikit-learn's breast cancer set: measures, and whether a tumour is malignant."""
    return _sklearn(load_breast_cancer(), ["mean radius", "mean texture", "worst area"]), "target"


def wine() -> tuple[Table, str]:
    """Scikit-learn's wine set, each row three times: too few otherwise for any verdict."""
    return _sklearn(load_wine(), ["alcohol", "hue", "proline", "magnesium"]), "target"


def _sklearn(found: object, names: list[str]) -> Table:
    data, target = found.data, found.target  # type: ignore[attr-defined]
    at = [list(found.feature_names).index(name) for name in names]  # type: ignore[attr-defined]
    called = found.target_names  # type: ignore[attr-defined]
    rows = np.tile(np.arange(len(target)), 3)
    table = {name: [f"{v:g}" for v in data[rows, k]] for name, k in zip(names, at, strict=True)}
    return table | {"target": [str(called[target[row]]) for row in rows]}


def predicted(table: Table, label: str, seed: int) -> dict[str, list[str]]:
    """Labels that a linear model and the same with weights of 3 bits give."""
    numbers = [
        pl.Series(values).cast(pl.Float64, strict=False).fill_null(0.0).to_numpy()
        for name, values in table.items()
        if name != label and pl.Series(values).cast(pl.Float64, strict=False).null_count() == 0
    ]
    x = StandardScaler().fit_transform(np.stack(numbers, axis=1))
    y = np.array(table[label])
    half = np.random.default_rng(seed).random(len(y)) < 0.5
    model = LogisticRegression(max_iter=500).fit(x[half], y[half])
    whole = model.predict(x).tolist()
    step = np.abs(model.coef_).max() / 3
    model.coef_ = np.round(model.coef_ / step) * step
    return {"fp32": whole, "int3": model.predict(x).tolist()}


# --- defects --------------------------------------------------------------------------------------


def nan_words(table: Table, label: str) -> None:
    name = next(name for name in table if name != label)
    table[name] = [
        ("NaN", "null", "n/a", "?")[n % 4] if n % 11 == 0 else v for n, v in enumerate(table[name])
    ]


def mixed_types(table: Table, label: str) -> None:
    name = [name for name in table if name != label][1]
    table[name] = ["unknown" if n % 17 == 0 else v for n, v in enumerate(table[name])]


def dates(table: Table, label: str) -> None:
    rows = len(table[label])
    table["since"] = [f"20{20 + n % 5}-{1 + n % 12:02d}-{1 + n % 28:02d}" for n in range(rows)]


def unicode_names(table: Table, label: str) -> None:
    rows = len(table[label])
    table["Größe (cm) 性別"] = [("Österreich", "Türkiye", "日本")[n % 3] for n in range(rows)]


def as_it_is(table: Table, label: str) -> None:
    """Nothing."""


SPOILS: Mapping[str, Callable[[Table, str], None]] = {
    "NaN words": nan_words, "mixed types": mixed_types, "dates": dates,
    "unicode": unicode_names, "BOM": as_it_is, "semicolons": as_it_is,
    "duplicate header": as_it_is,
}  # fmt: skip
# Each defect in one table of each set, so in three tables.
TABLES = (
    ("BOM", "dates", "NaN words"),
    ("semicolons", "mixed types", "unicode"),
    ("duplicate header", "NaN words", "dates"),
)


def write_spoilt(table: Table, label: str, defects: tuple[str, ...], path: Path) -> None:
    """Spoil a table and write it as CSV, with a header that stands twice at its end."""
    for defect in defects:
        SPOILS[defect](table, label)
    frame = pl.DataFrame(table)
    if "duplicate header" in defects:
        first = frame.columns[0]
        text = frame.with_columns(again=pl.col(first)).write_csv()
        head, _, rest = text.partition("\n")
        text = f"{head.removesuffix('again')}{first}\n{rest}"
    else:
        text = frame.write_csv(separator=";" if "semicolons" in defects else ",")
    path.write_text(text, encoding="utf-8-sig" if "BOM" in defects else "utf-8")


# --- an ONNX file and a folder of images ----------------------------------------------------------


def write_images(home: Path, seed: int, count: int = 400) -> None:
    """Scikit-learn's digits as PNG files of mixed sizes, their table, and two linear models."""
    random, digits = np.random.default_rng(seed), load_digits()
    (home / "images").mkdir()
    rows, shown = ["filename,label,paper"], []
    for n in range(count):
        pixels = np.repeat((digits.images[n] * 15.9).astype(np.uint8)[..., None], 3, axis=2)
        side = int(random.integers(18, 41))
        image = Image.fromarray(pixels).resize((side, side), Image.Resampling.NEAREST)
        image.save(home / "images" / f"{n}.png")
        shown.append(np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR))[..., 0])
        rows.append(f"{n}.png,{digits.target[n]},{('white', 'grey')[n % 2]}")
    (home / "attributes.csv").write_text("\n".join(rows) + "\n")
    x = np.stack(shown).reshape(count, -1) / 255
    model = LogisticRegression(max_iter=300).fit(x, digits.target[:count])
    step = np.abs(model.coef_).max() / 7
    for name, weight in (("dense", model.coef_), ("int8", np.round(model.coef_ / step) * step)):
        (home / "models" / name).mkdir(parents=True)
        onnx.save_model(_linear(weight, model.intercept_), home / "models" / name / "model.onnx")


def _linear(weight: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """A linear model of the mean of the channels."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images", "axes"], ["grey"], keepdims=0),
            helper.make_node("Flatten", ["grey"], ["flat"]),
            helper.make_node("Gemm", ["flat", "weight", "bias"], ["scores"]),
        ],
        "linear",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, SIDE, SIDE))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("n", len(bias)))],
        [
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
            numpy_helper.from_array(weight.T.astype(np.float32), "weight"),
            numpy_helper.from_array(bias.astype(np.float32), "bias"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
