"""CelebA as published, on a set of its shape; and that set."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma import published
from scotoma.config import Config, parse_config
from scotoma.costs.measure import look_at_images
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import DataError
from scotoma.run import Run
from scotoma.sources.reading import load_examples, survey_examples
from scotoma.steps.prepare import prepare
from tests.conftest import Storage
from tests.helpers.commands import stderr_of
from tests.helpers.synthetic import celeba

pytestmark = pytest.mark.slow

EXAMPLES = 400
CONFIG = """\
source: {kind: celeba, data: DATA, size: 16}
label: {column: Blond_Hair, positive: 1}
groups:
  sex: {column: Male, names: {"1": male, "-1": not male}}
  age: {column: Young, names: {"1": young, "-1": old}}
  intersections: [[sex, age]]
cluster: {column: identity}
variants: [dense, {prune: [0.5]}]
"""


def small(folder: Path, examples: int = EXAMPLES, *, csv: bool = False) -> Path:
    celeba.synthetic_celeba(folder, examples=examples, height=27, width=22, csv=csv)
    return folder


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("untouched") / "celeba")


@pytest.fixture
def folder(untouched: Path, tmp_path: Path) -> Path:
    return shutil.copytree(untouched, tmp_path / "celeba")


def config(place: object, text: str = CONFIG) -> Config:
    return parse_config(text.replace("DATA", str(place)), "audit.yaml")


def edited(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def refused(place: object, text: str = CONFIG) -> str:
    with pytest.raises(DataError) as caught:
        load_examples(config(place, text))
    return str(caught.value).replace(str(place), "PLACE")


# --- as published ---------------------------------------------------------------------------------


def test_lists_and_images_become_examples(folder: Path) -> None:
    found = load_examples(config(folder))
    lines = (folder / "list_attr_celeba.txt").read_text().splitlines()
    partition = dict(
        line.split() for line in (folder / "list_eval_partition.txt").read_text().splitlines()
    )
    names = lines[1].split()
    assert found.classes == ("-1", "1")
    assert found.size == ImageSize(16, 16)
    rows = [line.split() for line in lines[2:]]
    expected = [
        (
            name,
            {"0": "train", "2": "test"}[partition[name]],
            values[names.index("Blond_Hair")],
            {"1": "male", "-1": "not male"}[values[names.index("Male")]],
            {"1": "young", "-1": "old"}[values[names.index("Young")]],
        )
        for name, *values in rows
        if partition[name] != "1"
    ]
    columns = ["example_id", "split", "label", "sex", "age"]
    assert found.table.select(columns).rows() == expected
    first = (folder / "img_align_celeba" / expected[0][0]).read_bytes()
    assert found.table["image"][0]["bytes"] == first


def test_tables_of_the_mirrors_give_the_same_examples(folder: Path, tmp_path: Path) -> None:
    mirror = small(tmp_path / "mirror", csv=True)
    (mirror / "img_align_celeba").rename(mirror / "images")
    (mirror / "img_align_celeba").mkdir()
    (mirror / "images").rename(mirror / "img_align_celeba" / "img_align_celeba")
    assert load_examples(config(mirror)).table.equals(load_examples(config(folder)).table)


def test_object_storage_gives_the_same_examples(tmp_path: Path, s3: Storage) -> None:
    folder = small(tmp_path, 80)
    here = load_examples(config(folder)).table
    for path in folder.rglob("*"):
        if path.is_file():
            s3.put(f"celeba/{path.relative_to(folder).as_posix()}", path.read_bytes())
    assert load_examples(config(s3.uri("celeba"))).table.equals(here)


def test_authors_folders_are_known(folder: Path) -> None:
    before = load_examples(config(folder)).table
    (folder / "Anno").mkdir()
    (folder / "Eval").mkdir()
    (folder / "Img").mkdir()
    (folder / "list_attr_celeba.txt").rename(folder / "Anno" / "list_attr_celeba.txt")
    (folder / "identity_CelebA.txt").rename(folder / "Anno" / "identity_CelebA.txt")
    (folder / "list_eval_partition.txt").rename(folder / "Eval" / "list_eval_partition.txt")
    (folder / "img_align_celeba").rename(folder / "Img" / "img_align_celeba")
    assert load_examples(config(folder)).table.equals(before)


def test_identity_is_not_needed_where_nothing_asks_for_it(folder: Path) -> None:
    (folder / "identity_CelebA.txt").unlink()
    alone = CONFIG.replace("cluster: {column: identity}\n", "")
    assert load_examples(config(folder, alone)).clusters is None
    assert "'identity' needs identity_CelebA.txt in PLACE" in refused(folder)


def test_images_are_decoded_as_the_square_in_the_middle(tmp_path: Path) -> None:
    celeba.synthetic_celeba(tmp_path, examples=50)
    found = load_examples(config(tmp_path)).split("test")
    pixels = decode_images(found)
    assert pixels.shape == (len(found.ids), 3, 16, 16)
    with Image.open(tmp_path / "img_align_celeba" / found.ids[0]) as opened:
        assert opened.size == (178, 218)
        square = opened.crop((0, 20, 178, 198)).resize((16, 16), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(pixels[0].transpose(1, 2, 0), np.asarray(square))


def test_size_travels_with_the_examples(folder: Path, tmp_path: Path) -> None:
    examples = load_examples(config(folder))
    examples.write(tmp_path / "examples.parquet")
    assert AuditedExamples.read(tmp_path / "examples.parquet").size == ImageSize(16, 16)
    facts = look_at_images(config(folder), survey_examples(config(folder)))
    assert facts.shape == (16, 16)
    assert facts.encoded_bytes == sum(examples.table["image"].struct.field("bytes").bin.size())


def test_audit_takes_the_set_in(folder: Path, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", config(folder))
    prepare(run)
    assert AuditedExamples.read(run.examples).table.height == EXAMPLES - 39


# --- refusals -------------------------------------------------------------------------------------


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def change(name: str, edit: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    return lambda folder: edited(folder / name, edit)


def unpacked(folder: Path) -> None:
    (folder / "img_align_celeba").rename(folder / "elsewhere")
    (folder / "img_align_celeba.zip").write_bytes(b"")


@pytest.mark.parametrize(
    ("meddle", "sentence"),
    [
        (without("list_attr_celeba.txt"), "must hold list_attr_celeba.txt or list_attr_celeba.csv"),
        (without("list_eval_partition.txt"), "must hold list_eval_partition.txt or"),
        (unpacked, "source.data PLACE must hold img_align_celeba with the images; unpack"),
        (
            without("img_align_celeba/000007.jpg"),
            "has no image in PLACE/img_align_celeba: '000007.jpg'; add it",
        ),
        (
            change("list_attr_celeba.txt", lambda lines: [*lines[:5], lines[5][:-3], *lines[6:]]),
            "PLACE/list_attr_celeba.txt:6 must hold the name of an image and 40 values, got 39;",
        ),
        (
            change(
                "list_attr_celeba.txt",
                lambda lines: [*lines[:5], re.sub(r"-1$| 1$", " 0", lines[5]), *lines[6:]],
            ),
            "list_attr_celeba.txt:6 attribute 'Young' must be -1 or 1, got '0'",
        ),
        (
            change("list_attr_celeba.txt", lambda lines: lines[:-1]),
            "says '400' images in its first line and holds 399; download it again",
        ),
        (
            change("list_attr_celeba.txt", lambda lines: [*lines[:-1], lines[2]]),
            "list_attr_celeba.txt names '000001.jpg' twice",
        ),
        (
            change("list_eval_partition.txt", lambda lines: lines[:-2]),
            "lacks 2 of 400 images, the first is '000399.jpg'",
        ),
        (
            change("list_eval_partition.txt", lambda lines: [*lines[:-1], "000400.jpg 3"]),
            "must give each image 0 (training), 1 (validation) or 2 (test), got '3' for",
        ),
        (
            lambda folder: (folder / "list_attr_celeba.txt").write_bytes(b"\xff\xfe"),
            "list_attr_celeba.txt must be UTF-8 text",
        ),
        (
            lambda folder: (folder / "list_attr_celeba.txt").write_text("\n"),
            "list_attr_celeba.txt holds no attributes",
        ),
    ],
)
def test_what_cannot_be_read_is_told_in_one_sentence(
    folder: Path, meddle: Callable[[Path], None], sentence: str
) -> None:
    meddle(folder)
    found = refused(folder)
    assert sentence in found
    assert "\n" not in found


def test_attribute_that_is_not_there_is_told_with_the_nearest(folder: Path) -> None:
    text = CONFIG.replace("column: Male", "column: male")
    assert "groups.sex column 'male' is not in PLACE" in refused(folder, text)
    assert refused(folder, text).endswith("did you mean 'Male'?")


def test_place_with_nothing_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "no").startswith("source.data PLACE holds nothing; name the folder")


def test_name_that_leads_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "secret.jpg").write_bytes(b"")
    for name in ("list_attr_celeba.txt", "list_eval_partition.txt", "identity_CelebA.txt"):
        path = folder / name
        path.write_text(path.read_text().replace("000001.jpg", "../secret.jpg"))
    assert "list_attr_celeba leads out of" in refused(folder)


def test_check_names_the_folder_that_lacks_an_image(folder: Path, tmp_path: Path) -> None:
    (folder / "img_align_celeba" / "000007.jpg").unlink()
    path = tmp_path / "audit.yaml"
    path.write_text(CONFIG.replace("DATA", str(folder)))
    err = stderr_of("audit", "--plan", path, "--no-trial", "--quiet", code=4)
    assert err == (
        f"scotoma: 1 of 361 rows of {folder}/list_attr_celeba has no image in "
        f"{folder}/img_align_celeba: '000007.jpg'; add it or remove its row\n"
    )


# --- the set --------------------------------------------------------------------------------------


def attributes(folder: Path) -> pl.DataFrame:
    lines = (folder / "list_attr_celeba.txt").read_text().splitlines()
    rows = [[int(value) > 0 for value in line.split()[1:]] for line in lines[2:]]
    return pl.DataFrame(rows, schema=lines[1].split(), orient="row")


def test_shares_are_those_published(tmp_path: Path) -> None:
    examples = 20_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(celeba, "_jpeg", lambda *_: b"")
        patch.setattr(celeba, "_face", lambda *_: None)
        patch.setattr(Path, "write_bytes", lambda *_: 0)  # the images, of which none is read
        celeba.synthetic_celeba(tmp_path, examples=examples)
    table = attributes(tmp_path)
    assert tuple(table.columns) == celeba.NAMES
    assert len(set(celeba.NAMES)) == 40
    blond, male = table["Blond_Hair"].to_numpy(), table["Male"].to_numpy()
    # Each part is rounded to whole images: three parts of eight cells are off by less than 12.
    for (is_blond, is_male), share in {(1, 0): 0.14, (1, 1): 0.0085}.items():
        found = np.sum((blond == is_blond) & (male == is_male))
        assert abs(found - share * examples) < 12
    assert sum(celeba.SHARES.values()) == pytest.approx(1)
    partition = pl.Series((tmp_path / "list_eval_partition.txt").read_text().split()[1::2])
    for part, n in enumerate(celeba.PARTITION):
        assert abs((partition == str(part)).sum() - examples * n / sum(celeba.PARTITION)) < 1


def test_shares_of_sex_and_age_follow_from_the_published_errors() -> None:
    """Of all images an error is the weighted mean of those of two groups."""
    error = published.load("cie").table5["baseline"].row("error")
    male = (error["F"] - error["aggregate"]) / (error["F"] - error["M"])
    young = (error["O"] - error["aggregate"]) / (error["O"] - error["Y"])
    young_males = (error["MO"] - error["M"]) / (error["MO"] - error["MY"])
    assert sum(share for (_, is_male, _), share in celeba.SHARES.items() if is_male) == (
        pytest.approx(male, abs=0.002)
    )
    assert sum(share for (*_, is_young), share in celeba.SHARES.items() if is_young) == (
        pytest.approx(young, abs=0.005)
    )
    assert celeba.YOUNG[1] == pytest.approx(young_males, abs=0.005)


def test_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        celeba.synthetic_celeba(tmp_path / name, examples=60, seed=seed, height=27, width=22)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    content = {n: [(tmp_path / n / f).read_bytes() for f in files] for n in "abc"}
    assert content["a"] == content["b"] != content["c"]


def test_people_are_of_one_part_and_sex(folder: Path) -> None:
    table = attributes(folder).with_columns(
        pl.Series("who", (folder / "identity_CelebA.txt").read_text().split()[1::2]),
        pl.Series("part", (folder / "list_eval_partition.txt").read_text().split()[1::2]),
    )
    assert table.select(pl.struct("part", "Male").n_unique().over("who")).to_series().max() == 1
    assert table["who"].n_unique() > EXAMPLES // 20


def test_hair_can_be_learnt_but_not_perfectly(tmp_path: Path) -> None:
    celeba.synthetic_celeba(tmp_path, examples=1500, height=27, width=22)
    found = load_examples(config(tmp_path))
    train, test = found.split("train"), found.split("test")
    x, y = decode_images(train).reshape(len(train.ids), -1) / 255, train.labels
    weights, *_ = np.linalg.lstsq(np.c_[x, np.ones(len(x))], 2 * y - 1, rcond=1e-3)
    x, y = decode_images(test).reshape(len(test.ids), -1) / 255, test.labels
    scores = np.c_[x, np.ones(len(x))] @ weights
    above = scores[y == 1][:, None] > scores[y == 0]
    assert 0.85 < above.mean() < 1.0  # area under the curve
