from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scotoma import storage
from scotoma.config import Config, parse_config
from scotoma.datasets import decode_images
from scotoma.datasets.image_files import Join, join_images
from scotoma.errors import DataError
from scotoma.sources.folder import FolderSource, Split
from scotoma.sources.reading import load_examples, survey_examples
from tests.conftest import Storage

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


def config(folder: Path, read: FolderSource | None = None) -> Config:
    text = """
    source: {kind: image_folder, images: p, attributes: t, split: {column: part, train: 0, test: 1}}
    label: {column: face}
    groups: {sex: {column: sex, names: {m: male, f: female}}}
    variants: [dense, {prune: [0.5]}]
    """
    return parse_config(text, "audit.yaml").model_copy(update={"source": read or source(folder)})


def refused(folder: Path, **split: str) -> str:
    with pytest.raises(DataError) as caught:
        load_examples(config(folder, source(folder, **split)))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_are_joined_to_images_by_file_name(folder: Path) -> None:
    table = source(folder).read().table
    assert table.select("example_id", "split", "face", "sex").rows() == [
        ("b.png", "train", "yes", "m"),
        ("a.png", "test", "no", "f"),
        ("sub/c.png", "train", "no", "m"),
        ("e.png", "test", "yes", "m"),
    ]
    pictures = load_examples(config(folder)).table.select("example_id", "image")
    for name, image in pictures.iter_rows():
        assert image["path"] == name
        assert image["bytes"] == (folder / "pictures" / name).read_bytes()


def test_images_arrive_in_the_order_of_the_table(folder: Path) -> None:
    examples = load_examples(config(folder))
    assert decode_images(examples)[:, 0, 0, 0].tolist() == [20, 10, 30, 50]
    assert examples.classes == ("no", "yes")
    assert examples.table["sex"].to_list() == ["male", "female", "male", "male"]


def test_split_may_be_given_by_number_or_by_word(folder: Path) -> None:
    table = source(folder, train="0", test="1").read().table
    assert table.equals(source(folder).read()[0])
    words = TABLE.replace(",0,", ",learn,").replace(",1,", ",exam,")
    (folder / "table.csv").write_text(words)
    table = source(folder, train="learn", test="exam").read().table
    assert table["split"].to_list() == ["train", "test", "train", "test"]


def test_a_column_called_split_may_say_the_split(folder: Path) -> None:
    (folder / "table.csv").write_text(TABLE.replace("part", "split"))
    table = source(folder, column="split").read().table
    assert table["split"].to_list() == ["train", "test", "train", "test"]


def test_numbers_in_the_table_stay_as_they_are_written(folder: Path) -> None:
    (folder / "table.csv").write_text(TABLE.replace("yes", "007").replace("no", "1.50"))
    assert source(folder).read()[0]["face"].to_list() == ["007", "1.50", "1.50", "007"]


# --- what is refused ------------------------------------------------------------------------------


def table(old: str, new: str) -> Callable[[Path], None]:
    """Write the table with something else in place of a part."""
    return lambda folder: (folder / "table.csv").write_text(TABLE.replace(old, new)) and None


def link(target: str) -> Callable[[Path], None]:
    """Put a link in the place of an image."""

    def linked(folder: Path) -> None:
        (folder / "pictures" / "a.png").unlink()
        (folder / "pictures" / "a.png").symlink_to(folder / target)

    return linked


ONE = "1 of 4 rows of {table} has no image in {pictures}: {name!r}; add it or remove its row"
OUT = "image {name!r} in {table} leads out of {pictures}; name files inside it"
EMPTY = "folder {name!r} in {pictures} is empty, so its class has no image; add its images, or "
REFUSED: list[tuple[Callable[[Path], object], str, str]] = [
    (lambda folder: (folder / "table.csv").unlink(), "",
     "source.attributes {table} is not a file; name a CSV with a row for each image"),
    (lambda folder: (folder / "pictures").rename(folder / "photos"), "",
     "source.images {pictures} is not a folder; name the folder of the images"),
    (table("image", "other"), "",
     "key column 'image' is not in {table}; it has other, part, face, sex"),
    (table("part", "other"), "",
     "split column 'part' is not in {table}; it has image, other, face, sex"),
    (table(TABLE, ""), "", "key column 'image' is not in {table}; it has "),
    (table(TABLE, "image,part\na.png,0,more,than,that\n"), "",
     "{table} cannot be read (found more fields than"),
    (lambda folder: (folder / "pictures" / "sub" / "c.png").unlink(), "sub/c.png", ONE),
    *((table("a.png", name), name, ONE) for name in ("", "sub", "A.png")),
    (link("pictures/nowhere.png"), "a.png", ONE),
    (table("a.png,1,no,f\n", '"",1,no,f\n,0,no,f\n'), "", "2 of 5 rows of {table} have no "),
    (table(".png", ""), "b",
     "none of the 4 rows of {table} names an image in {pictures}: the first row says {name!r} and "
     "the first image is 'a.png'; write names as in the folder"),
    *((table("a.png", name), "../outside.png", OUT)
      for name in ("../outside.png", "sub/../../outside.png")),
    (link("outside.png"), "a.png", OUT), (link("nowhere.png"), "a.png", OUT),
    (table("sex", "example_id"), "", "column 'example_id' in {table} "),
    (table("sex", "split"), "", "column 'split' in {table} "),
    (lambda folder: (folder / "pictures" / "dog").mkdir(), "dog", EMPTY),
    (lambda folder: (folder / "pictures" / "sub" / "dog").mkdir(), "sub/dog", EMPTY),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "name", "sentence"), REFUSED)
def test_a_folder_that_cannot_be_audited_is_refused(
    spoil: Callable[[Path], object], name: str, sentence: str, folder: Path
) -> None:
    spoil(folder)
    places = {"table": folder / "table.csv", "pictures": folder / "pictures"}
    assert refused(folder).startswith(sentence.format(name=name, **places))


@pytest.mark.parametrize("name", ["a\0.png", "a" * 300 + ".png"], ids=["a zero byte", "too long"])
def test_a_name_that_no_file_can_have_is_refused(folder: Path, name: str) -> None:
    (folder / "table.csv").write_text(TABLE.replace("a.png", name))
    assert f" in {folder / 'table.csv'} " in refused(folder)


def test_a_path_out_of_the_folder_is_refused_though_it_is_whole(folder: Path) -> None:
    outside = str(folder / "outside.png")
    (folder / "table.csv").write_text(TABLE.replace("a.png", outside))
    assert refused(folder).startswith(f"image {outside!r} in {folder / 'table.csv'} leads out of ")


def test_an_image_of_neither_split_may_be_missing(folder: Path) -> None:
    (folder / "pictures" / "d.png").unlink()
    assert source(folder).read()[0].height == 4


def test_a_path_that_leaves_the_folder_and_comes_back_is_inside_it(folder: Path) -> None:
    (folder / "table.csv").write_text(TABLE.replace("a.png", "sub/../a.png"))
    assert source(folder).read()[0]["example_id"][1] == "a.png"


def test_a_folder_that_is_itself_a_link_is_fine(folder: Path) -> None:
    (folder / "pictures").rename(folder / "photos")
    (folder / "pictures").symlink_to(folder / "photos")
    assert source(folder).read()[0].height == 4


# --- what is told beside the rows -----------------------------------------------------------------


def test_the_join_tells_rows_and_images_apart(folder: Path) -> None:
    (folder / "pictures" / "e.png").unlink()
    for name in ("z.png", "Y.JPG", "notes.txt"):
        (folder / "pictures" / name).touch()
    join = source(folder).read().join
    # Four rows of the two splits, d.png of neither; six images: a b d z Y and sub/c.
    assert (join.rows, join.images, join.matched) == (4, 6, 3)
    assert (join.rows_without_image, join.first_rows) == (1, ("e.png",))
    assert (join.images_without_row, join.first_images) == (2, ("Y.JPG", "z.png"))


def test_images_without_row_are_a_note_and_no_fault(folder: Path) -> None:
    (folder / "pictures" / "z.png").touch()
    examples = load_examples(config(folder))
    assert examples.notes == (
        "1 of 6 images of the folder has no row in the table (the first is 'z.png'); it is not "
        "audited",
    )


def test_a_survey_counts_what_loading_refuses(folder: Path) -> None:
    (folder / "pictures" / "e.png").unlink()
    survey = survey_examples(config(folder))
    assert survey.join is not None
    assert survey.join.complaint("T", "F").startswith("1 of 4 rows of T has no image in F: 'e.png'")
    assert survey.examples.ids == ["b.png", "a.png", "sub/c.png", "e.png"]
    assert survey.origin == str(folder / "table.csv")


def test_an_image_without_suffix_is_found_by_its_row(folder: Path) -> None:
    (folder / "pictures" / "a.png").rename(folder / "pictures" / "a")
    (folder / "table.csv").write_text(TABLE.replace("a.png", "a"))
    table, _, join, _ = source(folder).read()
    assert table["example_id"][1] == "a"
    assert join.images == 5


def test_images_in_a_linked_folder_inside_are_found(folder: Path) -> None:
    (folder / "pictures" / "again").symlink_to(folder / "pictures" / "sub")
    (folder / "table.csv").write_text(TABLE.replace("sub/c.png", "again/c.png"))
    assert source(folder).read()[0]["example_id"][2] == "again/c.png"


def test_what_hidden_folders_hold_is_nobody_s_business(folder: Path) -> None:
    (folder / "pictures" / ".cache" / "empty").mkdir(parents=True)
    assert source(folder).read()[0].height == 4


def test_a_broken_image_is_named_by_its_file(folder: Path) -> None:
    (folder / "pictures" / "sub" / "c.png").write_bytes(b"\xff\xd8\xff and no more")
    with pytest.raises(DataError) as caught:
        decode_images(load_examples(config(folder)))
    assert str(caught.value) == (
        "image of example 'sub/c.png' cannot be decoded (15 bytes that are no whole image); "
        "replace its file or remove its row"
    )


# --- object storage -------------------------------------------------------------------------------


@pytest.fixture
def bucket(folder: Path, s3: Storage) -> FolderSource:
    """The same files in object storage."""
    for path in folder.rglob("*"):
        if path.is_file():
            s3.put(f"own/{path.relative_to(folder).as_posix()}", path.read_bytes())
    places = {"images": s3.uri("own", "pictures"), "attributes": s3.uri("own", "table.csv")}
    return source(folder).model_copy(update=places)


def test_a_bucket_gives_the_examples_of_a_folder(folder: Path, bucket: FolderSource) -> None:
    table, (_, _, join, _) = load_examples(config(folder)).table, source(folder).read()
    for places in (["images"], ["attributes"], ["images", "attributes"]):
        moved = {place: getattr(bucket, place) for place in places}
        there = source(folder).model_copy(update=moved)
        assert load_examples(config(folder, there)).table.equals(table)
        assert there.read().join == join


def refused_there(bucket: FolderSource) -> str:
    with pytest.raises(DataError) as caught:
        load_examples(config(Path(), bucket))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_row_without_image_in_a_bucket_is_refused(bucket: FolderSource, s3: Storage) -> None:
    s3.client.delete_object(Bucket=s3.bucket, Key="own/pictures/e.png")
    assert refused_there(bucket) == (
        f"1 of 4 rows of {bucket.attributes} has no image in {bucket.images}: 'e.png'; add it or "
        "remove its row"
    )


def test_a_name_that_leads_out_of_the_prefix_is_no_image(bucket: FolderSource, s3: Storage) -> None:
    s3.put("own/table.csv", TABLE.replace("a.png", "../outside.png").encode())
    assert "has no image in" in refused_there(bucket)


def test_a_prefix_without_images_is_refused(bucket: FolderSource, s3: Storage) -> None:
    nothing = bucket.model_copy(update={"images": s3.uri("nothing")})
    assert refused_there(nothing) == (
        f"there is no image in {nothing.images}; add the images that {bucket.attributes} "
        "names, such as 'b.png'"
    )


def test_a_table_that_is_not_in_the_bucket_is_refused(bucket: FolderSource, s3: Storage) -> None:
    lost = bucket.model_copy(update={"attributes": s3.uri("own", "lost.csv")})
    assert refused_there(lost).startswith(f"{lost.attributes} cannot be read: no such object; ")


def test_an_image_that_vanishes_midway_is_refused(
    bucket: FolderSource, s3: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = storage.list_files

    def list_and_lose(uri: str) -> dict[str, int]:
        found = listing(uri)
        s3.client.delete_object(Bucket=s3.bucket, Key="own/pictures/sub/c.png")
        return found

    monkeypatch.setattr(storage, "list_files", list_and_lose)
    assert refused_there(bucket).startswith(f"{bucket.images}/sub/c.png vanished after it was ")


def test_credentials_that_the_service_does_not_take_are_a_sentence(
    bucket: FolderSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "127.0.0.1:1 does not answer" in refused_there(bucket)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "there are no credentials" in refused_there(bucket)


# One letter, or a letter and a mark: a Mac writes the second, most else the first. The marks of the
# last may stand in two orders.
SPELLINGS = [("Zo\u00eb.png", "Zoe\u0308.png"), ("q\u0323\u0307.png", "q\u0307\u0323.png")]


@pytest.mark.parametrize("pair", SPELLINGS)
@pytest.mark.parametrize("turned", [False, True])
def test_names_are_paired_however_accents_are_written(
    folder: Path, pair: tuple[str, str], turned: bool
) -> None:
    in_table, on_disk = reversed(pair) if turned else pair
    (folder / "pictures" / "a.png").rename(folder / "pictures" / on_disk)
    (folder / "table.csv").write_text(TABLE.replace("a.png", in_table), encoding="utf-8")
    examples = load_examples(config(folder))
    assert examples.split("test").ids == [on_disk, "e.png"]
    assert decode_images(examples.split("test"))[0, 0, 0, 0] == COLOURS["a.png"]
    assert [note.sentence for note in examples.admission] == [
        "1 of 4 names in the table spell accents otherwise than the files do (Unicode NFC, NFD); "
        "they are paired all the same"
    ]


def test_a_file_that_is_spelled_as_in_the_table_comes_first(folder: Path) -> None:
    one, other = SPELLINGS[0]
    Image.new("RGB", (4, 3), (99, 0, 0)).save(folder / "pictures" / one)
    (folder / "pictures" / "a.png").rename(folder / "pictures" / other)
    (folder / "table.csv").write_text(TABLE.replace("a.png", other), encoding="utf-8")
    examples = load_examples(config(folder))
    assert examples.split("test").ids[0] == other
    assert not examples.admission


def test_over_s3_names_are_paired_too(bucket: FolderSource, s3: Storage, folder: Path) -> None:
    one, other = SPELLINGS[0]
    s3.put(f"own/pictures/{other}", (folder / "pictures" / "a.png").read_bytes())
    s3.put("own/table.csv", TABLE.replace("a.png", one).encode())
    table, _, join, _ = bucket.read()
    assert table["example_id"].to_list()[1] == other
    assert join.respelled == 1


def test_rows_and_images_are_matched_by_name() -> None:
    rows = ["b.png", "x.png", "a.png", "y.png", "z.png", "w.png"]
    join = join_images(rows, ["d.png", "a.png", "b.png", "c.png"], elsewhere=["c.png"])
    assert join == Join(
        rows=6,
        images=4,
        matched=2,
        rows_without_image=4,
        images_without_row=1,
        first_rows=("x.png", "y.png", "z.png"),
        first_images=("d.png",),
    )


def test_a_join_without_fault_has_nothing_to_say() -> None:
    join = join_images(["a.png", "sub/../b.png"], ["a.png", "b.png"])
    assert (join.complaint("t.csv", "img"), join.note()) == ("", "")


def test_one_row_without_image_is_named() -> None:
    assert join_images(["a.png", "b.png"], ["a.png"]).complaint("t.csv", "img") == (
        "1 of 2 rows of t.csv has no image in img: 'b.png'; add it or remove its row"
    )


def test_many_rows_without_image_are_counted_and_the_first_is_named() -> None:
    rows = ["a.png", *(f"{n}.png" for n in range(1234))]
    assert join_images(rows, ["a.png"]).complaint("t.csv", "img") == (
        "1,234 of 1,235 rows of t.csv have no image in img, the first is '0.png'; add them or "
        "remove their rows"
    )


def test_names_that_differ_in_case_or_suffix_are_pointed_at() -> None:
    join = join_images(["a.png", "B.PNG"], ["a.png", "b.png"])
    assert join.complaint("t.csv", "img").endswith("; did you mean 'b.png'?")
    join = join_images(["a.png", "s/b"], ["a.png", "s/b.jpg"])
    assert join.complaint("t.csv", "img").endswith("; did you mean 's/b.jpg'?")


def test_ids_that_match_no_image_at_all_are_shown_beside_an_image() -> None:
    assert join_images(["1", "2"], ["0002.png", "0001.png"]).complaint("t.csv", "img") == (
        "none of the 2 rows of t.csv names an image in img: the first row says '1' and the first "
        "image is '0001.png'; write names as in the folder"
    )


def test_a_folder_without_images_is_said_to_have_none() -> None:
    assert join_images(["a.png"], []).complaint("t.csv", "img") == (
        "there is no image in img; add the images that t.csv names, such as 'a.png'"
    )


def test_images_without_row_are_noted() -> None:
    assert join_images(["a.png"], ["a.png", "b.png"]).note() == (
        "1 of 2 images of the folder has no row in the table (the first is 'b.png'); it is not "
        "audited"
    )


def test_hostile_names_are_printed_without_their_control_characters() -> None:
    join = join_images(["\x1b[31mred.png", "b.png"], ["b.png", "\u202egnp.png"])
    assert not {"\x1b", "\u202e"} & set(join.complaint("t.csv", "img") + join.note())


names = st.lists(st.sampled_from(["a", "b", "c", "d/e", "d/../a", "./b", "F"]), max_size=8)


@given(rows=names, images=names, elsewhere=names)
def test_counts_are_those_of_asking_every_name(
    rows: list[str], images: list[str], elsewhere: list[str]
) -> None:
    held = {posixpath.normpath(name) for name in images}
    join = join_images(rows, held, elsewhere=elsewhere)
    without = [row for row in rows if not any(posixpath.normpath(row) == i for i in held)]
    assert join.rows_without_image == len(without)
    assert join.matched + join.rows_without_image == join.rows == len(rows)
    assert list(join.first_rows) == without[:3]
    lone = [i for i in held if all(posixpath.normpath(r) != i for r in rows + elsewhere)]
    assert join.images_without_row == len(lone)
    assert bool(join.complaint("t", "f")) == bool(without)
