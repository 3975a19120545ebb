from __future__ import annotations

import io
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from scotoma.config import default_config
from scotoma.datasets import decode_images
from scotoma.sources.digits import DigitsSource, draw_digit, load_digits_s
from scotoma.sources.reading import load_examples


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return load_digits_s(DigitsSource())


@pytest.fixture(scope="module")
def train(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("split") == "train")


@pytest.fixture(scope="module")
def test(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("split") == "test")


def pixels(image: bytes) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(image)) as opened:
        assert opened.format == "PNG"
        assert opened.mode == "RGB"
        return np.asarray(opened)


def styled_shares(train: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Number of training images of each digit, and the share of them in the second style."""
    counts = Counter(train.select("digit", "style").iter_rows())
    n = np.array([counts[str(d), "plain"] + counts[str(d), "styled"] for d in range(10)])
    return n, np.array([counts[str(d), "styled"] / n[d] for d in range(10)])


# --- who is in training, in which style -----------------------------------------------------------


def test_five_classes_are_mostly_plain_in_training_and_five_mostly_styled(
    train: pl.DataFrame,
) -> None:
    n, styled = styled_shares(train)
    assert n.min() > 60
    assert sorted(styled > 0.5) == [False] * 5 + [True] * 5
    rare = np.minimum(styled, 1 - styled)
    assert (np.abs(rare - 0.05) <= 0.5 / n).all()  # 5 percent, to the nearest image


@pytest.mark.parametrize("skew", [0.6, 0.8, 0.99])
def test_skew_is_the_share_of_the_majority_style(skew: float) -> None:
    n, styled = styled_shares(
        load_digits_s(DigitsSource(skew=skew)).filter(pl.col("split") == "train")
    )
    assert (np.abs(np.minimum(styled, 1 - styled) - (1 - skew)) <= 0.5 / n + 1e-12).all()


def test_exposure_says_how_often_training_shows_this_class_in_this_style(
    table: pl.DataFrame, train: pl.DataFrame
) -> None:
    _, styled = styled_shares(train)
    for digit, style, exposure in table.select("digit", "style", "exposure").iter_rows():
        share = styled[int(digit)] if style == "styled" else 1 - styled[int(digit)]
        assert exposure == ("majority" if share > 0.5 else "minority")


def test_every_digit_of_the_collection_is_used_once(table: pl.DataFrame) -> None:
    assert sorted(table["source_id"].unique()) == [f"{index:04d}" for index in range(1797)]


def test_training_and_test_share_no_digit(train: pl.DataFrame, test: pl.DataFrame) -> None:
    assert not set(train["source_id"]) & set(test["source_id"])
    assert train["source_id"].is_unique().all()
    assert train.height == round(1797 / 2)


def test_every_test_digit_stands_once_in_each_style_under_one_source(test: pl.DataFrame) -> None:
    styles = test.group_by("source_id").agg("style", "digit", "exposure")
    assert styles.height == 1797 - round(1797 / 2)
    for _, style, digit, exposure in styles.iter_rows():
        assert sorted(style) == ["plain", "styled"]
        assert len(set(digit)) == 1
        assert sorted(exposure) == ["majority", "minority"]


def test_ids_are_unique_and_name_the_source(table: pl.DataFrame) -> None:
    assert table["example_id"].is_unique().all()
    rows = table.select("example_id", "source_id", "style")
    assert all(name == f"{source}-{style}" for name, source, style in rows.iter_rows())


def test_the_data_are_the_same_for_every_audit(table: pl.DataFrame) -> None:
    assert load_digits_s(DigitsSource()).equals(table)


def test_another_skew_keeps_the_split(test: pl.DataFrame) -> None:
    other = load_digits_s(DigitsSource(skew=0.7)).filter(pl.col("split") == "test")
    assert other.equals(test)


# --- the images -----------------------------------------------------------------------------------


def test_a_plain_image_is_the_digit_in_grey_to_the_nearest_level(table: pl.DataFrame) -> None:
    bunch = load_digits()
    for source, digit, image in (
        table.filter(pl.col("style") == "plain")
        .select("source_id", "digit", "image")
        .sample(60, seed=1)
        .iter_rows()
    ):
        ink = bunch.images[int(source)]  # whole numbers from 0 to 16
        assert digit == str(bunch.target[int(source)])
        # Integers only: 255 ink / 16, halves to the even one as numpy rounds.
        expected = np.array([[round(255 * int(v) / 16) for v in row] for row in ink])
        for channel in range(3):
            np.testing.assert_array_equal(pixels(image["bytes"])[:, :, channel], expected)


def test_a_styled_image_is_the_same_ink_on_blue_paper(test: pl.DataFrame) -> None:
    both = test.pivot(on="style", index="source_id", values="image").sample(60, seed=1)
    for plain, styled in both.select("plain", "styled").iter_rows():
        grey, blue = pixels(plain["bytes"]), pixels(styled["bytes"])
        np.testing.assert_array_equal(blue[:, :, :2], grey[:, :, :2])
        paper = grey[:, :, 2] == 0
        assert (blue[paper] == (0, 0, 77)).all()
        assert (blue[grey[:, :, 2] == 255] == 255).all()
        assert (blue[:, :, 2] >= grey[:, :, 2]).all()


@given(ink=st.floats(0, 255), style=st.sampled_from(["plain", "styled"]))
def test_more_ink_is_never_darker(ink: float, style: str) -> None:
    levels = np.linspace(0, ink, 64).reshape(8, 8)
    rendered = draw_digit(levels, style).astype(int)
    assert rendered.shape == (8, 8, 3)
    assert (np.diff(rendered.reshape(64, 3), axis=0) >= 0).all()


def test_the_default_audit_takes_these_digits_as_they_are(test: pl.DataFrame) -> None:
    examples = load_examples(default_config()).split("test")
    assert examples.ids == test["example_id"].to_list()
    assert examples.classes == tuple("0123456789")
    assert [examples.classes[label] for label in examples.labels] == test["digit"].to_list()
    assert examples.clusters is not None
    assert (np.bincount(examples.clusters) == 2).all()
    images = decode_images(examples)
    assert images.shape == (test.height, 3, 8, 8)
    first = pixels(test["image"][0]["bytes"])
    np.testing.assert_array_equal(images[0], first.transpose(2, 0, 1))


@pytest.mark.parametrize("styled", ["dim", "inverted"])
def test_other_styles_are_dim_or_inverted_ink_and_skewed_by_parity(styled: str) -> None:
    table = load_digits_s(DigitsSource(styled=styled))
    assert table["split"].value_counts().sort("split")["count"].to_list() == [1194, 1200]
    decoded = {
        name: np.asarray(Image.open(io.BytesIO(picture["bytes"]))).astype(float)
        for name, picture in zip(table["example_id"], table["image"], strict=True)
    }
    for name, other in decoded.items():
        plain = decoded.get(name.replace("-styled", "-plain"))
        if name.endswith("-styled") and plain is not None:
            expected = 0.35 * plain if styled == "dim" else 255 - plain
            assert np.abs(other - expected).max() <= 1.0
    train = table.filter(split="train")
    share = train.group_by("parity").agg((pl.col("style") == "styled").mean()).sort("parity")
    assert share["style"].to_list() == pytest.approx([0.05, 0.95], abs=0.01)
    assert set(table["parity"].to_list()) == {"even", "odd"}
