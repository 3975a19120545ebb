from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from PIL import Image

from scotoma.config import Config, parse_config
from scotoma.datasets import decode_images
from scotoma.errors import DataError
from scotoma.sources import cifar10
from scotoma.sources.cifar10 import CLASSES, Cifar10Source, load_cifar10
from scotoma.sources.reading import load_examples, survey_examples
from tests.conftest import Storage

CONFIG = """\
source: {kind: KIND, data: DATA}
label: {column: label}
variants: [dense, {prune: [0.5]}]
"""
SKEWED = """\
source: {kind: KIND, data: DATA}
label: {column: label}
groups: {style: {column: style}, exposure: {column: exposure}}
cluster: {column: source_id}
variants: [dense, {prune: [0.5]}]
"""
# The classes that are mostly in colour: `cifar_color_class` of the authors' preprocess_data.py.
COLOUR_CLASSES = {"automobile", "cat", "dog", "horse", "truck"}
PER_CLASS = {"train": 40, "test": 5}


def jpeg(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=75)
    return buffer.getvalue()


def pixels(image: bytes) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(image)) as opened:
        return np.asarray(opened.convert("RGB"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes of coloured noise, sorted by class as some copies of CIFAR-10 are."""
    folder, rng = tmp_path_factory.mktemp("cifar"), np.random.default_rng(0)
    for split, n in PER_CLASS.items():
        images = rng.integers(0, 256, (10 * n, 6, 5, 3), dtype=np.uint8)
        pl.DataFrame(
            {
                "image": [{"bytes": jpeg(image), "path": None} for image in images],
                "label": np.repeat(np.arange(10), n),
            }
        ).write_parquet(folder / f"{split}.parquet")
    return folder


def source(folder: object, kind: str = "cifar10s", skew: float = 0.95) -> Cifar10Source:
    return Cifar10Source.model_validate({"kind": kind, "data": str(folder), "skew": skew})


def config(folder: object, text: str = SKEWED, kind: str = "cifar10s") -> Config:
    made = parse_config(text.replace("KIND", kind), "audit.yaml")
    return made.model_copy(update={"source": source(folder, kind)})


@pytest.fixture(scope="module")
def table(folder: Path) -> pl.DataFrame:
    return load_cifar10(source(folder), "label")


@pytest.fixture(scope="module")
def plain(folder: Path) -> pl.DataFrame:
    return load_cifar10(source(folder, "cifar10"), "label")


# --- as it is -------------------------------------------------------------------------------------


def test_class_ids_are_shown_by_their_ten_names(plain: pl.DataFrame) -> None:
    """https://www.cs.toronto.edu/~kriz/cifar.html lists the classes in the order of their ids."""
    order = "airplane automobile bird cat deer dog frog horse ship truck"
    train = plain.filter(split="train")
    assert " ".join(train["label"].unique(maintain_order=True)) == order
    assert train["label"].to_list() == np.repeat(order.split(), 40).tolist()


def test_names_in_place_of_ids_are_taken(folder: Path, tmp_path: Path) -> None:
    for split in PER_CLASS:
        named = pl.read_parquet(folder / f"{split}.parquet").with_columns(
            pl.Series("kind", np.repeat(CLASSES, PER_CLASS[split]))
        )
        named.drop("label").write_parquet(tmp_path / f"{split}.parquet")
    found = load_cifar10(source(tmp_path, "cifar10"), "kind")
    assert found["kind"].to_list() == np.repeat(CLASSES, 40).tolist() + [
        name for name in CLASSES for _ in range(5)
    ]


def test_without_groups_cifar10_is_one_group(folder: Path) -> None:
    examples = load_examples(config(folder, CONFIG, "cifar10"))
    assert examples.classes == CLASSES
    assert examples.partition().keys == ("all",)
    assert decode_images(examples).shape == (450, 3, 6, 5)


def test_the_shared_copy_is_whole(shared: Path) -> None:
    survey = survey_examples(config(shared / "data" / "cifar10", CONFIG, "cifar10"))
    train, test = survey.examples.split("train"), survey.examples.split("test")
    assert np.bincount(train.labels).tolist() == [5000] * 10
    assert np.bincount(test.labels).tolist() == [1000] * 10


# --- in two styles --------------------------------------------------------------------------------


def test_five_classes_are_mostly_colour_in_training_and_five_mostly_grey(
    table: pl.DataFrame,
) -> None:
    sizes = table.filter(split="train").group_by("label", "style").len()
    counts = {(label, style): n for label, style, n in sizes.iter_rows()}
    # 5% of 40 images of a class are 2.
    for name in CLASSES:
        common, rare = ("colour", "grey") if name in COLOUR_CLASSES else ("grey", "colour")
        assert (counts[name, common], counts[name, rare]) == (38, 2)


@pytest.mark.parametrize(("skew", "rare"), [(0.6, 16), (0.9, 4), (0.99, 0)])
def test_skew_is_the_share_of_the_majority_style(folder: Path, skew: float, rare: int) -> None:
    train = load_cifar10(source(folder, skew=skew), "label").filter(split="train")
    found = train.filter(exposure="minority").group_by("label").len()["len"].to_list()
    assert found == [rare] * (10 if rare else 0)


def test_cifar10s_has_the_counts_of_the_paper(shared: Path) -> None:
    """Wang et al. 2020, section 3: 5,000 a class, 95% and 5%; every test image in both domains."""
    examples = survey_examples(config(shared / "data" / "cifar10")).examples
    train, test = examples.split("train"), examples.split("test")
    for part, expected in ((train, {4750, 250}), (test, {1000})):
        sizes = part.table.group_by("label", "style").len()
        assert sizes.height == 20
        assert set(sizes["len"]) == expected
    colour = train.table.filter(style="colour", exposure="majority")
    assert set(colour["label"]) == COLOUR_CLASSES
    assert test.clusters is not None
    assert np.bincount(test.clusters).tolist() == [2] * 10_000


def test_exposure_says_how_often_training_shows_this_class_in_this_style(
    table: pl.DataFrame,
) -> None:
    for label, style, exposure in table.select("label", "style", "exposure").iter_rows():
        common = "colour" if label in COLOUR_CLASSES else "grey"
        assert exposure == ("majority" if style == common else "minority")


def test_every_test_image_stands_once_in_each_style_under_one_source(table: pl.DataFrame) -> None:
    test = table.filter(split="test")
    assert test["example_id"].to_list()[:3] == [
        *("test-00000-colour", "test-00000-grey", "test-00001-colour")
    ]
    for _, styles, labels in test.group_by("source_id").agg("style", "label").iter_rows():
        assert styles == ["colour", "grey"]
        assert len(set(labels)) == 1
    assert table.filter(split="train")["source_id"].is_unique().all()


def test_colour_images_keep_their_bytes_and_grey_ones_are_exact(
    table: pl.DataFrame, plain: pl.DataFrame
) -> None:
    originals = dict(plain.select("example_id", "image").iter_rows())
    for source_id, style, image in table.select("source_id", "style", "image").iter_rows():
        original = originals[source_id]
        assert image["path"] == original["path"]
        if style == "colour":
            assert image["bytes"] == original["bytes"]
            continue
        # The authors' rgb_to_grayscale: mode L of the decoded pixels, in all three channels.
        with Image.open(io.BytesIO(original["bytes"])) as opened:
            expected = np.dstack([np.asarray(opened.convert("L"))] * 3)
        np.testing.assert_array_equal(pixels(image["bytes"]), expected)


def test_images_are_made_grey_chunk_by_chunk(
    folder: Path, table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar10, "CHUNK", 7)
    assert load_cifar10(source(folder), "label").equals(table)


def test_who_is_rare_does_not_depend_on_the_order_of_rows(folder: Path, tmp_path: Path) -> None:
    def rare(folder: Path) -> set[bytes]:
        """Brightness of the images that are rare in training: style changes the bytes, not it."""
        train = load_cifar10(source(folder), "label").filter(split="train", exposure="minority")
        chosen = set(train["source_id"])
        images = load_cifar10(source(folder, "cifar10"), "label")
        return set(images.filter(pl.col("example_id").is_in(chosen))["image"].struct.field("bytes"))

    for split in PER_CLASS:
        shuffled = pl.read_parquet(folder / f"{split}.parquet").sample(
            fraction=1, shuffle=True, seed=3
        )
        shuffled.write_parquet(tmp_path / f"{split}.parquet")
    assert len(rare(folder)) == 20
    assert rare(tmp_path) == rare(folder)


def test_who_is_rare_is_not_who_comes_first(table: pl.DataFrame) -> None:
    rows = np.flatnonzero((table.filter(split="train")["exposure"] == "minority").to_numpy())
    assert not np.isin(rows % 40, [0, 1]).all()
    assert len(set(rows % 40)) > 10


def test_the_data_are_the_same_for_every_audit(folder: Path, table: pl.DataFrame) -> None:
    assert load_cifar10(source(folder), "label").equals(table)


def test_a_survey_tells_the_styles_without_making_an_image(
    folder: Path, table: pl.DataFrame
) -> None:
    survey = survey_examples(config(folder)).examples.table
    columns = ["example_id", "split", "label", "style", "exposure"]
    assert survey.select(columns).equals(table.select(columns))


def test_a_bucket_gives_the_examples_of_a_folder(folder: Path, s3: Storage) -> None:
    for split in PER_CLASS:
        s3.put(f"cifar/{split}.parquet", (folder / f"{split}.parquet").read_bytes())
    found = load_examples(config(s3.uri("cifar")))
    expected = load_examples(config(folder))
    assert found.table.equals(expected.table)
    np.testing.assert_array_equal(decode_images(found), decode_images(expected))


# --- what is refused ------------------------------------------------------------------------------


def changed(folder: Path, to: Path, *columns: pl.Expr | pl.Series) -> str:
    """The refusal of the test data with some columns changed."""
    (to / "train.parquet").write_bytes((folder / "train.parquet").read_bytes())
    table = pl.read_parquet(folder / "test.parquet").with_columns(*columns)
    table.write_parquet(to / "test.parquet")
    with pytest.raises(DataError) as caught:
        load_examples(config(to))
    return str(caught.value)


@pytest.mark.parametrize("label", [-1, 10])
def test_a_label_that_is_no_class_is_refused(folder: Path, tmp_path: Path, label: int) -> None:
    labels = np.repeat(np.arange(10), 5)
    labels[7] = label
    assert changed(folder, tmp_path, pl.Series("label", labels)) == (
        f"label column 'label' of {tmp_path} must be class ids 0 to 9, got {label} in 1 row, the "
        "first is 'test-00007'; correct or remove it"
    )


def test_words_that_name_no_class_are_refused(folder: Path, tmp_path: Path) -> None:
    for split in PER_CLASS:
        table = pl.read_parquet(folder / f"{split}.parquet")
        table.with_columns(label=pl.lit("plane")).write_parquet(tmp_path / f"{split}.parquet")
    with pytest.raises(DataError) as caught:
        load_examples(config(tmp_path))
    assert str(caught.value) == (
        f"label column 'label' of {tmp_path} must be one of {', '.join(CLASSES)}, got 'plane' in "
        "450 rows, the first is 'train-00000'; correct or remove them"
    )


def test_an_empty_label_is_refused(folder: Path, tmp_path: Path) -> None:
    labels = pl.Series("label", [*range(9), None] * 5, dtype=pl.Int64)
    assert changed(folder, tmp_path, labels) == (
        f"label column 'label' is empty in 5 of 450 rows of {tmp_path}, the first is "
        "'test-00009'; fill or remove them"
    )


def test_an_absent_label_column_is_refused(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_examples(config(folder, SKEWED.replace("column: label", "column: labels")))
    assert str(caught.value) == (
        f"label column 'labels' is not in {folder}; it has label; did you mean 'label'?"
    )


@pytest.mark.parametrize("name", ["style", "exposure", "source_id"])
def test_a_column_that_cifar10s_makes_itself_is_refused(
    folder: Path, tmp_path: Path, name: str
) -> None:
    for split in PER_CLASS:
        table = pl.read_parquet(folder / f"{split}.parquet").with_columns(pl.lit("x").alias(name))
        table.write_parquet(tmp_path / f"{split}.parquet")
    with pytest.raises(DataError, match=f"column '{name}' of .* has a name that cifar10s reserves"):
        load_examples(config(tmp_path))


def test_a_broken_image_is_named_by_row_and_file(folder: Path, tmp_path: Path) -> None:
    images = pl.read_parquet(folder / "test.parquet")["image"].to_list()
    images[7]["bytes"] = images[7]["bytes"][:100]
    assert changed(folder, tmp_path, pl.Series("image", images)) == (
        "image of example 'test-00007' (test.parquet row 7) cannot be decoded (100 bytes that are "
        "no whole image); replace its file or remove its row"
    )
