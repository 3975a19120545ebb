"""The newest input: what stands for `{newest}` in the paths of a source, here and over S3."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.answers.natural import natural_order
from scotoma.config import Config, parse_config
from scotoma.config.newest import at_newest
from scotoma.errors import DataError

FOLDER = """\
version: 1
project: newest
source: {{kind: image_folder, images: "{images}", attributes: "{attributes}",
         split: {{column: s, train: a, test: b}}}}
label: {{column: smiling}}
variants: [dense, {{prune: [0.5]}}]
"""


def config(images: str, attributes: str) -> Config:
    return parse_config(FOLDER.format(images=images, attributes=attributes), "x")


def found(images: str, attributes: str) -> tuple[str | None, str, str]:
    resolved, name = at_newest(config(images, attributes))
    source: Any = resolved.source
    return name, source.images, source.attributes


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_without_a_placeholder_nothing_is_looked_for() -> None:
    asked = config("/nowhere/images", "/nowhere/people.csv")
    assert at_newest(asked) == (asked, None)


def test_the_last_name_that_all_paths_have_is_taken(tmp_path: Path) -> None:
    make(
        tmp_path, "img/2026-9/a.png", "img/2026-10/a.png", "img/2026-11/a.png", "img/2026-12",
        "img/.tmp/a.png", "img/_partial/a.png", "2026-9.csv", "2026-10.csv", "zzz.csv.part",
    )  # fmt: skip
    assert found(f"{tmp_path}/img/{{newest}}", f"{tmp_path}/{{newest}}.csv") == (
        "2026-10",
        f"{tmp_path}/img/2026-10",
        f"{tmp_path}/2026-10.csv",
    )


def test_over_s3_one_level_is_listed_and_folders_are_no_files(s3: Any) -> None:
    for key in ("img/v9/a.png", "img/v10/b/c.png", "img/v11", "img/../x", "img/v12/", "v9.csv"):
        s3.put(key, b"x")
    for key in ("v10.csv", "v12/people.csv", "img/v13/", "img/v14/half.png"):
        s3.put(key, b"x")
    images, table = s3.uri("img", "{newest}"), s3.uri("{newest}.csv")
    assert found(images, table) == ("v10", s3.uri("img", "v10"), s3.uri("v10.csv"))
    # The empty objects v12/ and v13/ hold nothing, and v14 waits for its table.
    nested = s3.uri("img", "{newest}", "{newest}.csv")
    with pytest.raises(DataError, match=r"source\.attributes must hold data for a name at"):
        found(images + "/", nested)
    s3.put("img/v12/v12.csv", b"x")
    assert found(images + "/", nested)[0] == "v12"


def test_a_name_counts_once_its_data_are_there(tmp_path: Path, s3: Any) -> None:
    def put(*names: str) -> None:
        make(tmp_path, *names)
        for name in names:
            s3.put(name, b"x")

    put("2026-09/img/a.png", "2026-09/people.csv", "2026-10/img/a.png", "2026-10/people.csv")
    put("2026-11/img/a.png", "2026-12/people.csv")
    (tmp_path / "2027-01" / "img").mkdir(parents=True)
    for place in (str(tmp_path), s3.uri()):
        assert found(f"{place}/{{newest}}/img", f"{place}/{{newest}}/people.csv")[0] == "2026-10"
    put("2026-11/people.csv")
    for place in (str(tmp_path), s3.uri()):
        assert found(f"{place}/{{newest}}/img", f"{place}/{{newest}}/people.csv")[0] == "2026-11"


PREDICTED = """\
source: {{kind: predictions, files: "{home}/{{newest}}/{{variant}}/*.csv",
         examples: "{home}/{{newest}}/ex.csv"}}
label: {{column: y}}
"""


def test_a_pattern_counts_once_a_file_fits(tmp_path: Path) -> None:
    make(tmp_path, "1/ex.csv", "1/int8/m.csv", "2/ex.csv", "2/int8/m.csv.part", "2/m.csv")
    asked = parse_config(PREDICTED.format(home=tmp_path), "x")
    assert at_newest(asked)[1] == "1"
    make(tmp_path, "2/fp32/m.csv")
    assert at_newest(asked)[1] == "2"


def test_one_name_may_stand_several_times_and_beside_text(tmp_path: Path) -> None:
    make(tmp_path, "run-7-old/7.csv", "run-8-old/8.csv", "run-x/8.csv")
    path = f"{tmp_path}/run-{{newest}}-old/{{newest}}.csv"
    assert found(path, path)[2] == f"{tmp_path}/run-8-old/8.csv"


@pytest.mark.parametrize(
    ("images", "attributes", "sentence"),
    [
        ("{t}/none/{{newest}}", "{t}/x.csv", "source.images must match a name at"),
        (
            "{t}/img/{{newest}}",
            "{t}/{{newest}}.txt",
            "the newest are '2' in source.images, '3' in s",
        ),
        ("{t}/*/{{newest}}", "{t}/x.csv", "must have {newest} below a folder or bucket"),
        ("s3://{{newest}}/x", "{t}/x.csv", "must have {newest} below a folder or bucket"),
        ("s3://b-1/{{newest}}", "{t}/x.csv", "s3://b-1"),
    ],
)
def test_what_cannot_be_found_is_one_sentence(
    images: str, attributes: str, sentence: str, tmp_path: Path, s3: Any
) -> None:
    make(tmp_path, "img/1/a", "img/2/a", "3.txt")
    with pytest.raises(DataError) as refused:
        at_newest(config(*(text.format(t=tmp_path) for text in (images, attributes))))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.lists(st.text(alphabet="a0123456789-v", min_size=1, max_size=8), min_size=2))
def test_the_order_of_names_is_total_and_numbers_count_by_value(names: list[str]) -> None:
    ordered = natural_order(names)
    assert ordered == natural_order(reversed(names))
    assert sorted(set(names)) == sorted(ordered)
    for one, two in pairwise(ordered):
        if one.isdecimal() and two.isdecimal():
            assert int(one) <= int(two)


@given(st.lists(st.dates(), min_size=1))
def test_dates_are_in_their_order(days: list[Any]) -> None:
    assert natural_order(map(str, days))[-1] == str(max(days))
