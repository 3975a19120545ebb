from __future__ import annotations

import posixpath

from hypothesis import given
from hypothesis import strategies as st

from scotoma.datasets.image_files import Join, join_images


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
