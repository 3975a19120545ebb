from __future__ import annotations

import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from scotoma.config import Config, parse_config
from scotoma.datasets import decode_images
from scotoma.errors import DataError
from scotoma.sources.parquet import ParquetSource, load_parquet
from scotoma.sources.reading import load_examples, survey_examples
from tests.conftest import Storage

CONFIG = """\
source: {kind: parquet, data: DATA}
label: {column: label}
groups: {sex: {column: sex}}
variants: [dense, {prune: [0.5]}]
"""


def png(level: int, size: tuple[int, int] = (4, 3)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (level, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def rows(n: int, level: int = 0, **columns: list[Any] | None) -> pl.DataFrame:
    """A table as the hub writes it; columns may be replaced, or left out where None."""
    table = {
        "image": [{"bytes": png(level + i), "path": f"cat/{i}.png"} for i in range(n)],
        "label": [i % 2 for i in range(n)],
        "sex": [("m", "f")[i // 2 % 2] for i in range(n)],
    }
    return pl.DataFrame({k: v for k, v in (table | columns).items() if v is not None})


def write(folder: Path, name: str, table: pl.DataFrame, **features: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    info = json.dumps({"info": {"features": features}})
    table.write_parquet(path, metadata={"huggingface": info} if features else None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five training rows in two shards, four test rows in one."""
    write(tmp_path, "data/train-00000-of-00002.parquet", rows(3))
    write(tmp_path, "data/train-00001-of-00002.parquet", rows(2, 10))
    write(tmp_path, "data/test-00000-of-00001.parquet", rows(4, 20))
    write(tmp_path, "data/validation-00000-of-00001.parquet", rows(4, 90))
    (tmp_path / "README.md").write_text("words")
    return tmp_path


def config(data: object, text: str = CONFIG) -> Config:
    """The configuration, its data lying wherever a test put them."""
    made = parse_config(text, "audit.yaml")
    return made.model_copy(update={"source": ParquetSource(kind="parquet", data=str(data))})


def refused(data: object, text: str = CONFIG) -> str:
    with pytest.raises(DataError) as caught:
        load_examples(config(data, text))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- what is read ---------------------------------------------------------------------------------


def test_shards_are_read_one_after_the_other_and_rows_named_by_split_and_number(
    folder: Path,
) -> None:
    table = load_parquet(str(folder), "label", ["sex"])
    assert table["example_id"].to_list() == [
        *(f"train-0000{i}" for i in range(5)),
        *(f"test-0000{i}" for i in range(4)),
    ]
    assert table["split"].to_list() == ["train"] * 5 + ["test"] * 4
    assert table["label"].to_list() == [0, 1, 0, 0, 1, 0, 1, 0, 1]
    assert table["image"].struct.field("bytes").to_list() == [
        png(level) for level in (0, 1, 2, 10, 11, 20, 21, 22, 23)
    ]
    assert table["image"][4]["path"] == "data/train-00001-of-00002.parquet row 1"


@pytest.mark.parametrize("place", ["", "data/", "plain_text/"])
@pytest.mark.parametrize("column", ["image", "img"])
def test_layouts_of_the_hub_are_known(tmp_path: Path, place: str, column: str) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{place}{split}.parquet", rows(4).rename({"image": column}))
    examples = load_examples(config(tmp_path))
    assert decode_images(examples)[:, 0, 0, 0].tolist() == [0, 1, 2, 3] * 2
    assert examples.classes == ("0", "1")


def test_plain_bytes_are_images_too(tmp_path: Path) -> None:
    table = rows(4).with_columns(pl.col("image").struct.field("bytes").alias("image"))
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", table)
    assert decode_images(load_examples(config(tmp_path))).shape == (8, 3, 3, 4)


def test_an_id_column_names_the_rows(tmp_path: Path) -> None:
    write(tmp_path, "train.parquet", rows(4, example_id=[7, 8, 9, 10]))
    write(tmp_path, "test.parquet", rows(4, example_id=[17, 18, 19, 20]))
    assert load_examples(config(tmp_path)).ids == ["7", "8", "9", "10", "17", "18", "19", "20"]


def test_columns_that_nobody_asked_for_do_no_harm(tmp_path: Path) -> None:
    table = rows(4, vector=[[1.0]] * 4, mask=[{"bytes": b"", "path": ""}] * 4, note=[None] * 4)
    write(tmp_path, "train.parquet", table.with_columns(split=pl.lit("x")))
    write(tmp_path, "test.parquet", rows(4))
    assert load_examples(config(tmp_path)).table.height == 8


def test_names_that_look_like_patterns_are_taken_as_they_are(tmp_path: Path) -> None:
    data = tmp_path / "a[b]*?{c}"
    for name in ("train", "train[0]*", "test"):
        write(data, f"{name}.parquet", rows(4))
    write(tmp_path / "abX", "train.parquet", rows(1))
    assert load_parquet(str(data), "label").height == 12


def test_a_survey_reads_everything_but_the_images(folder: Path) -> None:
    survey = survey_examples(config(folder))
    assert survey.examples.table.equals(load_examples(config(folder)).table.drop("image"))
    assert survey.join is None


def test_the_shared_images_are_those_that_another_library_reads(shared: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    table = load_parquet(str(shared / "data" / "cifar10"), "label").filter(split="test")
    expected = pq.read_table(shared / "data" / "cifar10" / "test.parquet")
    assert table["image"].struct.field("bytes").to_list() == [
        image["bytes"] for image in expected["image"].to_pylist()
    ]
    assert table["label"].to_list() == expected["label"].to_pylist()


# --- labels ---------------------------------------------------------------------------------------

NAMED = {"names": ["cat", "dog"], "_type": "ClassLabel"}


def test_class_ids_are_shown_by_the_names_that_the_hub_declares(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4), label=NAMED, sex={"_type": "Value"})
    examples = load_examples(config(tmp_path))
    assert examples.table["label"].to_list() == ["cat", "dog", "cat", "dog"] * 2


@pytest.mark.parametrize(("label", "count"), [([0, 1, 2, 1], 1), ([0, 1, -1, -1], 2)])
def test_an_id_without_a_class_name_is_refused(
    tmp_path: Path, label: list[int], count: int
) -> None:
    write(tmp_path, "train.parquet", rows(4), label=NAMED)
    write(tmp_path, "test.parquet", rows(4, label=label), label=NAMED)
    message = refused(tmp_path)
    assert message.startswith(
        f"label column 'label' of {tmp_path} must be class ids 0 to 1, got {label[2]} in {count} "
    )
    assert "the first is 'test-00002'; correct or remove " in message


def test_files_that_name_their_classes_differently_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "train.parquet", rows(4), label=NAMED)
    write(tmp_path, "test.parquet", rows(4), label=NAMED | {"names": ["dog", "cat"]})
    assert refused(tmp_path) == (
        f"{tmp_path}/test.parquet names the classes of column 'label' differently from the files "
        "before it; write all files with the same names"
    )


@pytest.mark.parametrize("declared", [3, {"names": 3}, {"names": [1, 2]}, {"names": ["a", "a"]}])
def test_declarations_that_name_no_classes_are_passed_over(tmp_path: Path, declared: Any) -> None:
    if isinstance(declared, dict):
        declared["_type"] = "ClassLabel"
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4), label=declared)
    assert load_examples(config(tmp_path)).classes == ("0", "1")


def test_minus_one_among_other_labels_marks_unlabelled_rows(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4, label=[0, 1, -1, 1]))
    assert "must not be negative" in refused(tmp_path)


def test_unlabelled_rows_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "train.parquet", rows(4, label=[0, 1, 2, 1]))
    write(tmp_path, "test.parquet", rows(4, label=[-1] * 4))
    assert refused(tmp_path) == (
        f"label column 'label' of {tmp_path} must not be negative (the hub marks unlabelled rows "
        "by -1), got -1 in 4 rows, the first is 'test-00000'; correct or remove them"
    )


def test_minus_one_against_one_are_two_classes(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4, label=[-1, 1, -1, 1]))
    assert load_examples(config(tmp_path)).classes == ("-1", "1")


def test_an_example_without_a_label_is_left_out_and_told(tmp_path: Path) -> None:
    write(tmp_path, "train.parquet", rows(4))
    write(tmp_path, "test.parquet", rows(4, label=[0, 1, None, 1]))
    examples = load_examples(config(tmp_path))
    assert examples.split("test").ids == ["test-00000", "test-00001", "test-00003"]
    assert [note.sentence for note in examples.admission] == [
        "label 'label' is missing in 1 of 8 rows: they are left out"
    ]


# --- files that are refused -----------------------------------------------------------------------


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    for name in ("none", "a.parquet"):
        assert refused(tmp_path / name) == (
            f"source.data {tmp_path / name} is not a folder; name the folder with train*.parquet "
            "and test*.parquet"
        )


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_folder_without_files_of_a_split_is_refused(folder: Path, split: str) -> None:
    for path in folder.glob(f"data/{split}*"):
        path.unlink()
    message = refused(folder)
    assert message.startswith(
        f"source.data {folder} must hold {split}*.parquet, in itself or in data/ or plain_text/, "
        "and holds README.md, "
    )


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert "and holds nothing; put the files there" in refused(tmp_path)


def test_a_shard_that_is_missing_is_refused(folder: Path) -> None:
    (folder / "data" / "train-00000-of-00002.parquet").unlink()
    assert refused(folder) == (
        f"source.data {folder} lacks shard 00000 of 2 of the train split; add it, or rename the "
        "others to leave it out"
    )


@pytest.mark.parametrize("content", [b"", b"image,label\na.png,1\n", b"PAR1PAR1"])
def test_a_file_that_is_no_parquet_is_refused(folder: Path, content: bytes) -> None:
    path = folder / "data" / "train-00001-of-00002.parquet"
    path.write_bytes(content)
    message = refused(folder)
    assert message.startswith(f"{path} cannot be read as Parquet (")
    assert message.endswith("); replace the file")


def test_a_parquet_that_is_cut_off_is_refused(folder: Path) -> None:
    path = folder / "data" / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    assert refused(folder).startswith(f"{path} cannot be read as Parquet (")


@pytest.mark.parametrize(
    "image", [None, ["a.png"] * 4, [{"path": "a.png"}] * 4, [{"bytes": "text", "path": ""}] * 4]
)
def test_a_parquet_that_is_no_table_of_images_is_refused(
    tmp_path: Path, image: list[Any] | None
) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4, image=image))
    message = refused(tmp_path)
    assert message.startswith(
        f"{tmp_path}/train.parquet is no table of images: it must have a column image or img with "
        "the fields bytes and path, and it has "
    )
    assert "label (Int64)" in message


@pytest.mark.parametrize("nothing", [None, {"bytes": None, "path": "cat.png"}])
def test_images_without_bytes_are_refused(folder: Path, nothing: dict[str, Any] | None) -> None:
    images: list[Any] = [{"bytes": png(1), "path": ""}, nothing, nothing, None]
    path = folder / "data" / "test-00000-of-00001.parquet"
    rows(4, image=images).write_parquet(path)
    assert refused(folder) == (
        f"{path} has 3 images without bytes, the first in row 1, counted from 0; store the image "
        "files, not only their paths"
    )


def test_a_broken_image_is_named_by_row_and_file(folder: Path) -> None:
    images = [{"bytes": png(1), "path": None}, {"bytes": png(1)[:30], "path": None}]
    rows(2, image=images).write_parquet(folder / "data" / "train-00001-of-00002.parquet")
    with pytest.raises(DataError) as caught:
        decode_images(load_examples(config(folder)))
    assert str(caught.value) == (
        "image of example 'train-00004' (data/train-00001-of-00002.parquet row 1) cannot be "
        "decoded (30 bytes that are no whole image); replace its file or remove its row"
    )


def test_images_of_two_sizes_are_named_by_row_and_file(folder: Path) -> None:
    image = [{"bytes": png(1, (3, 4)), "path": None}] * 4
    rows(4, image=image).write_parquet(folder / "data" / "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match=r"'test-00000' \(data/test-.* row 0\) is 3x4 pixels, but"):
        decode_images(load_examples(config(folder)))


# --- columns that are refused ---------------------------------------------------------------------


def test_an_absent_column_is_refused_with_those_that_are_there(folder: Path) -> None:
    assert refused(folder, CONFIG.replace("column: sex", "column: Sex")) == (
        f"groups.sex column 'Sex' is not in {folder}; it has label, sex; did you mean 'sex'?"
    )


def test_a_column_that_one_file_lacks_is_refused(folder: Path) -> None:
    write(folder, "data/test-00000-of-00001.parquet", rows(4, sex=None))
    assert refused(folder) == (
        f"column 'sex' of {folder} is in data/train-00000-of-00002.parquet and not in "
        "data/test-00000-of-00001.parquet; write all files with the same columns"
    )


@pytest.mark.parametrize(
    ("label", "kind"), [(["0", "1", "0", "1"], "text"), ([date(2026, 11, 21)] * 4, "Date")]
)
def test_a_column_of_two_kinds_is_refused(folder: Path, label: list[Any], kind: str) -> None:
    write(folder, "data/test-00000-of-00001.parquet", rows(4, label=label))
    assert refused(folder) == (
        f"column 'label' of {folder} must hold one kind of values in all files, got numbers and "
        f"{kind}; write one kind"
    )


def test_a_column_of_two_kinds_that_nobody_asked_for_is_left_out(folder: Path) -> None:
    write(folder, "data/train-00001-of-00002.parquet", rows(2, extra=[True, False]))
    write(folder, "data/train-00000-of-00002.parquet", rows(3, extra=[date(2026, 11, 21)] * 3))
    write(folder, "data/test-00000-of-00001.parquet", rows(4, extra=[True] * 4))
    assert load_examples(config(folder)).table.height == 9


def test_numbers_of_different_width_and_words_of_different_kind_are_alike(folder: Path) -> None:
    small = rows(4).with_columns(pl.col("label").cast(pl.UInt8), pl.col("sex").cast(pl.Categorical))
    write(folder, "data/test-00000-of-00001.parquet", small)
    examples = load_examples(config(folder)).split("test")
    assert examples.table["label"].to_list() == ["0", "1", "0", "1"]
    assert examples.table["sex"].to_list() == ["m", "m", "f", "f"]


def test_a_column_of_lists_is_refused_if_it_is_asked_for(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4, sex=[[1], [2], [1], [2]]))
    assert refused(tmp_path) == (
        f"groups.sex column 'sex' of {tmp_path} must hold words or numbers, got List(Int64); name "
        "another column"
    )


@pytest.mark.parametrize("name", ["split", "image"])
def test_a_column_with_a_name_of_ours_is_refused_if_it_is_asked_for(
    folder: Path, name: str
) -> None:
    assert refused(folder, CONFIG.replace("column: sex", f"column: {name}")) == (
        f"column '{name}' of {folder} has a reserved name; rename it"
    )


def test_an_empty_id_is_refused(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(2, example_id=["a", None]))
    assert refused(tmp_path) == (
        f"column 'example_id' of {tmp_path} is empty in 2 of 4 rows; fill it or leave the column "
        "out"
    )


def test_an_id_that_both_splits_use_is_refused(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4, example_id=[1, 2, 3, 4]))
    assert refused(tmp_path) == f"example id '1' stands in {tmp_path} twice; ids must be unique"


# --- object storage -------------------------------------------------------------------------------


@pytest.fixture
def bucket(folder: Path, s3: Storage) -> str:
    """The same files under a prefix."""
    for path in folder.rglob("*"):
        if path.is_file():
            s3.put(f"sets/own/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return s3.uri("sets", "own")


@pytest.mark.parametrize("end", ["", "/"])
def test_a_bucket_gives_the_examples_of_a_folder(folder: Path, bucket: str, end: str) -> None:
    assert load_examples(config(bucket + end)).table.equals(load_examples(config(folder)).table)


def test_an_empty_prefix_is_refused(s3: Storage) -> None:
    assert refused(s3.uri("nothing")) == (
        f"source.data {s3.uri('nothing')} must hold train*.parquet, in itself or in data/ or "
        "plain_text/, and holds nothing; put the files there"
    )


def test_a_bucket_that_is_not_there_is_refused(s3: Storage) -> None:
    assert refused("s3://no-such-bucket/sets") == (
        "s3://no-such-bucket/sets cannot be read: the bucket 'no-such-bucket' does not exist; "
        "correct its name"
    )


def test_a_file_in_a_bucket_that_is_no_parquet_is_called_by_its_address(
    bucket: str, s3: Storage
) -> None:
    place = s3.put("sets/own/data/train-00000-of-00002.parquet", b"words")
    assert refused(bucket).startswith(f"{place} cannot be read as Parquet (")


def test_a_file_that_vanishes_after_it_was_listed_is_refused(
    bucket: str, s3: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scotoma import storage

    listing = storage.list_files

    def list_and_lose(uri: str) -> dict[str, int]:
        found = listing(uri)
        s3.client.delete_object(Bucket=s3.bucket, Key="sets/own/data/train-00001-of-00002.parquet")
        return found

    monkeypatch.setattr(storage, "list_files", list_and_lose)
    message = refused(bucket)
    assert message.startswith(f"{bucket}/data/train-00001-of-00002.parquet vanished after it was ")
