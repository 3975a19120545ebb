from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from scotoma.config import FolderSource, Split, parse_config
from scotoma.datasets import decode_images, load_examples
from scotoma.datasets.folder import load_folder
from scotoma.errors import DataError

TABLE = """\
image,part,face,sex
b.png,0,yes,m
a.png,1,no,f
sub/c.png,0,no,m
d.png,2,yes,f
e.png,1,yes,m
"""
COLOURS = {"a.png": 10, "b.png": 20, "sub/c.png": 30, "d.png": 40, "e.png": 50}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of one colour each, and a table whose rows are in another order than the files."""
    images = tmp_path / "pictures"
    (images / "sub").mkdir(parents=True)
    for name, level in COLOURS.items():
        Image.new("RGB", (4, 3), (level, 0, 0)).save(images / name)
    (tmp_path / "table.csv").write_text(TABLE)
    Image.new("RGB", (4, 3)).save(tmp_path / "outside.png")
    return tmp_path


def source(
    folder: Path, *, column: str = "part", train: str | int = 0, test: str | int = 1
) -> FolderSource:
    return FolderSource(
        kind="image_folder",
        images=str(folder / "pictures"),
        attributes=str(folder / "table.csv"),
        split=Split(column=column, train=train, test=test),
    )


def refused(folder: Path, **split: str) -> str:
    with pytest.raises(DataError) as caught:
        load_folder(source(folder, **split))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_are_joined_to_images_by_file_name(folder: Path) -> None:
    table, _ = load_folder(source(folder))
    assert table.select("example_id", "split", "face", "sex").rows() == [
        ("b.png", "train", "yes", "m"),
        ("a.png", "test", "no", "f"),
        ("sub/c.png", "train", "no", "m"),
        ("e.png", "test", "yes", "m"),
    ]
    for name, image in table.select("example_id", "image").iter_rows():
        assert image["path"] == name
        assert image["bytes"] == (folder / "pictures" / name).read_bytes()


def test_images_arrive_in_the_order_of_the_table(folder: Path) -> None:
    text = """
    source: {kind: image_folder, images: p, attributes: t, split: {column: part, train: 0, test: 1}}
    label: {column: face}
    groups: {sex: {column: sex, names: {m: male, f: female}}}
    variants: [dense, {prune: [0.5]}]
    """
    config = parse_config(text, "audit.yaml").model_copy(update={"source": source(folder)})
    examples = load_examples(config)
    assert decode_images(examples)[:, 0, 0, 0].tolist() == [20, 10, 30, 50]
    assert examples.classes == ("no", "yes")
    assert examples.table["sex"].to_list() == ["male", "female", "male", "male"]


def test_split_may_be_given_by_number_or_by_word(folder: Path) -> None:
    table, _ = load_folder(source(folder, train="0", test="1"))
    assert table.equals(load_folder(source(folder))[0])
    words = TABLE.replace(",0,", ",learn,").replace(",1,", ",exam,")
    (folder / "table.csv").write_text(words)
    table, _ = load_folder(source(folder, train="learn", test="exam"))
    assert table["split"].to_list() == ["train", "test", "train", "test"]


def test_a_column_called_split_may_say_the_split(folder: Path) -> None:
    (folder / "table.csv").write_text(TABLE.replace("part", "split"))
    table, _ = load_folder(source(folder, column="split"))
    assert table["split"].to_list() == ["train", "test", "train", "test"]


def test_numbers_in_the_table_stay_as_they_are_written(folder: Path) -> None:
    (folder / "table.csv").write_text(TABLE.replace("yes", "007").replace("no", "1.50"))
    assert load_folder(source(folder))[0]["face"].to_list() == ["007", "1.50", "1.50", "007"]


def test_a_missing_table_is_refused(folder: Path) -> None:
    (folder / "table.csv").unlink()
    assert refused(folder) == (
        f"source.attributes {folder / 'table.csv'} is not a file; name a CSV with column 'image'"
    )


def test_a_missing_folder_is_refused(folder: Path) -> None:
    (folder / "pictures").rename(folder / "photos")
    assert refused(folder) == (
        f"source.images {folder / 'pictures'} is not a folder; name the folder of the images"
    )


@pytest.mark.parametrize(("old", "role"), [("image", "key"), ("part", "split")])
def test_a_table_without_its_key_or_split_column_is_refused(
    folder: Path, old: str, role: str
) -> None:
    (folder / "table.csv").write_text(TABLE.replace(old, "other"))
    known = "image,part,face,sex".replace(old, "other").replace(",", ", ")
    assert refused(folder) == (
        f"{role} column {old!r} is not in {folder / 'table.csv'}; it has {known}"
    )


@pytest.mark.parametrize(
    "content", [b"", b"image,part\na.png,0,more,than,that\n", b"image,part\na.png,\xff\xfe\n"]
)
def test_a_table_that_is_no_csv_is_refused(folder: Path, content: bytes) -> None:
    (folder / "table.csv").write_bytes(content)
    assert refused(folder).startswith(f"{folder / 'table.csv'} cannot be read as CSV: ")


def test_a_missing_image_is_refused(folder: Path) -> None:
    (folder / "pictures" / "sub" / "c.png").unlink()
    assert refused(folder) == (
        f"1 of 4 rows of {folder / 'table.csv'} has no image in {folder / 'pictures'}: "
        "'sub/c.png'; add it or remove its row"
    )


def test_an_image_of_neither_split_may_be_missing(folder: Path) -> None:
    (folder / "pictures" / "d.png").unlink()
    assert load_folder(source(folder))[0].height == 4


@pytest.mark.parametrize("name", ["", "sub", "A.png"])
def test_a_name_that_is_no_file_is_refused(folder: Path, name: str) -> None:
    (folder / "table.csv").write_text(TABLE.replace("a.png", name))
    assert refused(folder).startswith(
        f"1 of 4 rows of {folder / 'table.csv'} has no image in {folder / 'pictures'}: {name!r}; "
    )


def test_a_path_out_of_the_folder_is_refused(folder: Path) -> None:
    outside = str(folder / "outside.png")
    for name in ("../outside.png", "sub/../../outside.png", outside):
        (folder / "table.csv").write_text(TABLE.replace("a.png", name))
        assert refused(folder) == (
            f"image {name!r} in {folder / 'table.csv'} leads out of {folder / 'pictures'}; name "
            "files inside it"
        )


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "pictures" / "a.png").unlink()
    (folder / "pictures" / "a.png").symlink_to(folder / "outside.png")
    assert "leads out of" in refused(folder)


def test_a_path_that_leaves_the_folder_and_comes_back_is_inside_it(folder: Path) -> None:
    (folder / "table.csv").write_text(TABLE.replace("a.png", "sub/../a.png"))
    assert load_folder(source(folder))[0]["example_id"][1] == "sub/../a.png"


def test_a_folder_that_is_itself_a_link_is_fine(folder: Path) -> None:
    (folder / "pictures").rename(folder / "photos")
    (folder / "pictures").symlink_to(folder / "photos")
    assert load_folder(source(folder))[0].height == 4


@pytest.mark.parametrize("name", ["a\0.png", "a" * 300 + ".png"], ids=["a zero byte", "too long"])
def test_a_name_that_no_file_can_have_is_refused(folder: Path, name: str) -> None:
    (folder / "table.csv").write_text(TABLE.replace("a.png", name))
    assert f" in {folder / 'table.csv'} " in refused(folder)


@pytest.mark.parametrize("taken", ["example_id", "split"])
def test_a_column_whose_name_is_ours_is_refused_and_not_silently_replaced(
    folder: Path, taken: str
) -> None:
    (folder / "table.csv").write_text(TABLE.replace("sex", taken))
    assert refused(folder).startswith(f"column {taken!r} in {folder / 'table.csv'} ")
