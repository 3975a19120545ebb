"""examples/corrupt.py: the picture, what it says, and what it refuses."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scotoma.corruptions import corrupt, profile
from tests.corruptions.references import drawn_image, write_frost
from tests.helpers.bombs import image_of_gigabytes

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "corrupt.py"))


def drawn(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the script."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["corrupt.py", *map(str, arguments)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code: int = SCRIPT["main"]()
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(drawn_image(1)).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def test_all_draws_every_corruption_with_its_name(picture: Path) -> None:
    write_frost(picture.parent)
    out = picture.with_name("all.png")
    found = drawn(picture, "--all", "--frost", picture.parent / "none", "--out", out)
    assert found[0] == 2
    assert "found none" in found[2]
    (picture.parent / "frost").mkdir()
    for path in picture.parent.glob("frost?.*"):
        path.rename(path.parent / "frost" / path.name)
    frost = picture.parent / "frost"
    found = drawn(picture, "--all", "--frost", frost, "--out", out)
    assert found == (0, f"{out}: 25 corruptions, profile cifar-c\n", "")
    sheet = np.asarray(Image.open(out))
    cell, gap, caption = 96, 6, 20
    assert sheet.shape == (13 * (cell + gap + caption) + gap, 2 * (3 * (cell + gap) + gap), 3)
    # The second row is gaussian_noise; its last image has severity 5.
    top, left = (cell + gap + caption) + gap // 2 + caption, gap + 2 * (cell + gap)
    shown = sheet[top : top + cell : 3, left : left + cell : 3]
    noisy = corrupt(
        drawn_image(1)[None], ["picture.png"], "gaussian_noise", 5, profile("cifar-c", 32), seed=0
    )
    assert np.array_equal(shown, noisy[0])


def test_what_is_left_out_is_said_with_its_reason(picture: Path) -> None:
    Image.open(picture).convert("L").resize((8, 8)).save(picture)
    code, out, err = drawn(picture, "--all", "--out", picture.with_name("o.png"))
    assert code == 0
    assert "17 corruptions, profile scaled" in out
    assert "motion_blur        from severity 3 on it moves or blurs by at most 0.71 pixels" in out
    assert "frost              it needs photographs of frost" in out
    assert "the image is grey" in err
    assert "not comparable with published tables" in err


def test_transparency_is_dropped_and_no_pixel_changes_for_it(picture: Path) -> None:
    out = picture.with_name("o.png")
    sheets = []
    for mode in ("RGB", "RGBA"):
        Image.open(picture).convert(mode).save(picture)
        code, printed, err = drawn(picture, "--kind", "fog", "--out", out)
        assert (code, printed) == (0, f"{out}: 1 corruption, profile cifar-c\n")
        assert ("transparency was dropped" in err) is (mode == "RGBA")
        sheets.append(out.read_bytes())
    assert sheets[0] == sheets[1]


@pytest.mark.parametrize(
    ("options", "columns", "rows"),
    [
        (["--kind", "fog"], 5, 2),
        (["--kind", "fog", "--kind", "snow", "--severity", "2"], 1, 3),
    ],
)
def test_single_corruptions_are_drawn_at_the_severities_that_were_asked(
    picture: Path, options: list[str], columns: int, rows: int
) -> None:
    out = picture.with_name("o.png")
    assert drawn(picture, *options, "--out", out)[0] == 0
    with Image.open(out) as sheet:
        assert sheet.size == (columns * 102 + 6, rows * 122 + 6)


def test_an_image_of_another_size_is_made_to_fit_and_that_is_said(picture: Path) -> None:
    Image.fromarray(drawn_image(1, 300, 240)).save(picture)
    out = picture.with_name("o.png")
    for options, size in (((), 224), (("--profile", "cifar-c"), 32)):
        code, _, err = drawn(picture, "--kind", "fog", *options, "--out", out)
        assert code == 0
        assert f"the middle square of 240x300 pixels was resized to {size}x{size}" in err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "either --all or --kind"),
        (["--all", "--kind", "fog"], 2, "either --all or --kind"),
        (["--kind", "fogg"], 2, "did you mean 'fog'?"),
        (["--kind", "frost"], 2, "it needs photographs of frost"),
        (["--kind", "fog", "--severity", "6"], 2, "severity must be 1, 2, 3, 4 or 5, got 6"),
        (["--all", "--profile", "cifar"], 2, "did you mean 'cifar-c'?"),
        (["--all", "--out", "strip.jpg"], 2, "--out must end in .png"),
    ],
)
def test_a_mistake_is_one_sentence(
    picture: Path, options: list[str], code: int, message: str
) -> None:
    found = drawn(picture, *options)
    assert found[0] == code
    assert message in found[2]
    assert found[2].count("\n") == 1
    assert [path.name for path in picture.parent.iterdir()] == ["picture.png"]


def test_images_that_cannot_be_trusted_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    deep = tmp_path / "deep.png"
    Image.fromarray(np.zeros((32, 32), np.uint16)).save(deep)
    bomb = image_of_gigabytes(tmp_path / "bomb.png")
    for path, code, message in (
        (tmp_path / "text.png", 4, "cannot be decoded"),
        (deep, 4, "must have 8 bits per channel"),
        (bomb, 4, "must have at most"),
        (tmp_path / "none.png", 2, "is not a file"),
    ):
        found = drawn(path, "--all", "--out", tmp_path / "o.png")
        assert found[0] == code, found
        assert message in found[2]
        assert not (tmp_path / "o.png").exists()
