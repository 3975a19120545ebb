from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
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


@pytest.mark.parametrize("declared", [3, {"names": 3}, {"names": [1, 2]}, {"names": ["a", "a"]}])
def test_declarations_that_name_no_classes_are_passed_over(tmp_path: Path, declared: Any) -> None:
    if isinstance(declared, dict):
        declared["_type"] = "ClassLabel"
    for split in ("train", "test"):
        write(tmp_path, f"{split}.parquet", rows(4), label=declared)
    assert load_examples(config(tmp_path)).classes == ("0", "1")


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


# --- what is refused ------------------------------------------------------------------------------

TRAIN, TEST = "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"
Spoil = Callable[[Path], object]


def rewritten(**columns: list[Any] | None) -> Spoil:
    """Write other columns of the test split."""
    return lambda folder: write(folder, TEST, rows(4, **columns))


def every(**columns: list[Any] | None) -> Spoil:
    """Write one file of four rows for each split, and no other."""

    def written(folder: Path) -> None:
        shutil.rmtree(folder / "data")
        for split in ("train", "test"):
            write(folder, f"{split}.parquet", rows(4, **columns))

    return written


def named(label: list[int], **declared: Any) -> Spoil:
    """Write files that declare names of classes."""

    def written(folder: Path) -> None:
        shutil.rmtree(folder / "data")
        write(folder, "train.parquet", rows(4), label=NAMED)
        write(folder, "test.parquet", rows(4, label=label), label=NAMED | declared)

    return written


def content(name: str, change: Callable[[bytes], bytes]) -> Spoil:
    """Write other bytes into a file."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def without(pattern: str) -> Spoil:
    """Remove files."""
    return lambda folder: [path.unlink() for path in sorted(folder.glob(pattern))]


NONE = (
    "source.data {folder} must hold {}*.parquet, in itself or in data/ or plain_text/, and holds "
)
IDS = "label column 'label' of {folder} must be class ids 0 to 1, got {}; correct or remove "
UNLABELLED = (
    "label column 'label' of {folder} must not be negative (the hub marks unlabelled rows by -1), "
    "got -1 in {}; correct or remove them"
)
KINDS = "column 'label' of {folder} must hold one kind of values in all files, got numbers and {}; "
NO_TABLE = (
    "{folder}/train.parquet is no table of images: it must have a column image or img with the "
    "fields bytes and path, and it has {}label (Int64)"
)
REFUSED: list[tuple[Spoil, str, str]] = [
    (without("data/train*"), "train", NONE + "README.md, "),
    (without("data/test*"), "test", NONE + "README.md, "),
    (without("**/*.*"), "train", NONE + "nothing; put the files there"),
    (without("data/train-00000*"), "",
     "source.data {folder} lacks shard 00000 of 2 of the train split; add it, or rename the others "
     "to leave it out"),
    *((content(TRAIN, lambda _, to=to: to), TRAIN, "{folder}/{} cannot be read as Parquet (")
      for to in (b"", b"image,label\na.png,1\n", b"PAR1PAR1")),
    (content(TEST, lambda whole: whole[:-40]), TEST, "{folder}/{} cannot be read as Parquet ("),
    (every(image=None), "", NO_TABLE),
    (every(image=["a.png"] * 4), "image (String), ", NO_TABLE),
    (every(image=[{"path": "a.png"}] * 4), "image (Struct({'path': String})), ", NO_TABLE),
    *((rewritten(image=[{"bytes": png(1), "path": ""}, nothing, nothing, None]), TEST,
       "{folder}/{} has 3 images without bytes, the first in row 1, counted from 0; store the "
       "image files, not only their paths")
      for nothing in (None, {"bytes": None, "path": "cat.png"})),
    (named([0, 1, 2, 1]), "2 in 1 row, the first is 'test-00002'", IDS),
    (named([0, 1, -1, -1]), "-1 in 2 rows, the first is 'test-00002'", IDS),
    (named([0, 1, 0, 1], names=["dog", "cat"]), "",
     "{folder}/test.parquet names the classes of column 'label' differently from the files before "
     "it; write all files with the same names"),
    (every(label=[0, 1, -1, 1]), "2 rows, the first is 'train-00002'", UNLABELLED),
    (rewritten(label=[-1] * 4), "4 rows, the first is 'test-00000'", UNLABELLED),
    (rewritten(sex=None), TEST,
     "column 'sex' of {folder} is in data/train-00000-of-00002.parquet and not in {}; write all "
     "files with the same columns"),
    (rewritten(label=["0", "1", "0", "1"]), "text", KINDS),
    (rewritten(label=[date(2026, 11, 21)] * 4), "Date", KINDS),
    (every(sex=[[1], [2], [1], [2]]), "",
     "groups.sex column 'sex' of {folder} must hold words or numbers, got List(Int64); name "
     "another column"),
    (every(example_id=["a", None, "b", "c"]), "",
     "column 'example_id' of {folder} is empty in 2 of 8 rows; fill it or leave the column out"),
    (every(example_id=[1, 2, 3, 4]), "",
     "example id '1' stands in {folder} twice; ids must be unique"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "what", "sentence"), REFUSED)
def test_files_that_cannot_be_audited_are_refused(
    spoil: Spoil, what: str, sentence: str, folder: Path
) -> None:
    spoil(folder)
    assert refused(folder).startswith(sentence.format(what, folder=folder))


@pytest.mark.parametrize("name", ["none", "README.md"])
def test_a_folder_that_is_none_is_refused(folder: Path, name: str) -> None:
    assert refused(folder / name) == (
        f"source.data {folder / name} is not a folder; name the folder with train*.parquet and "
        "test*.parquet"
    )


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("Sex", "groups.sex column 'Sex' is not in {}; it has label, sex; did you mean 'sex'?"),
        ("split", "column 'split' of {} has a reserved name; rename it"),
        ("image", "column 'image' of {} has a reserved name; rename it"),
    ],
)
def test_a_column_that_cannot_be_asked_for_is_refused(
    folder: Path, column: str, sentence: str
) -> None:
    text = CONFIG.replace("column: sex", f"column: {column}")
    assert refused(folder, text) == sentence.format(folder)


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


# --- columns of several files ---------------------------------------------------------------------


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
