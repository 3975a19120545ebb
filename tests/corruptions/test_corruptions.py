"""Corruptions as they are used: the same bytes in any batch, and what is refused."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage, stats

from scotoma.corruptions import (
    EXTENDED,
    FAMILIES,
    KINDS,
    PROFILES,
    SEVERITIES,
    STANDARD,
    Profile,
    corrupt,
    family_of,
    profile,
)
from scotoma.corruptions.apply import generators
from scotoma.corruptions.blur import disc, glass_blur, zoomed
from scotoma.corruptions.profiles import FORMULAS, severity_tables
from scotoma.errors import ConfigError, DataError
from tests.corruptions.references import drawn_image, write_frost

IDS = [f"e{number}" for number in range(40)]
IMAGES = np.stack([drawn_image(number) for number in range(40)])
RANDOM = [kind for kind in KINDS if FORMULAS[kind].draw is not None]


@pytest.fixture(scope="module")
def frost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("frost")
    write_frost(folder)
    return folder


@pytest.fixture(scope="module")
def cifar(frost: Path) -> Profile:
    return profile("cifar-c", 32, frost=frost)


# --- the same bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_comes_out_the_same_in_any_batch_and_order(kind: str, cifar: Profile) -> None:
    whole = corrupt(IMAGES, IDS, kind, 3, cifar, seed=5)
    order = np.random.default_rng(0).permutation(40)
    for size in (1, 7):
        for start in range(0, 40, size):
            rows = order[start : start + size]
            part = corrupt(IMAGES[rows], [IDS[row] for row in rows], kind, 3, cifar, seed=5)
            assert np.array_equal(part, whole[rows])


@pytest.mark.parametrize("kind", ["defocus_blur", "glass_blur", "elastic_transform", "spatter"])
def test_large_images_come_out_the_same_in_any_batch(kind: str) -> None:
    large = np.stack([drawn_image(number, 224, 224) for number in range(4)])
    chosen = profile("imagenet-c", 224)
    whole = corrupt(large, IDS[:4], kind, 4, chosen, seed=5)
    for row in range(4):
        assert np.array_equal(
            corrupt(large[[row]], [IDS[row]], kind, 4, chosen, seed=5), whole[[row]]
        )


@pytest.mark.parametrize("kind", RANDOM)
def test_seed_and_example_each_change_the_random_numbers(kind: str, cifar: Profile) -> None:
    same = np.repeat(IMAGES[:1], 8, axis=0)
    base = corrupt(same, IDS[:8], kind, 5, cifar, seed=0)
    assert len(np.unique(base.reshape(8, -1), axis=0)) > 1
    assert not np.array_equal(base, corrupt(same, IDS[:8], kind, 5, cifar, seed=1))


def test_each_part_of_the_key_counts_and_no_number_is_left_over() -> None:
    keys = itertools.product((0, 1), (1, 2), ("fog", "snow"), ("a", "b"))
    firsts = set()
    for seed, severity, kind, example_id in keys:
        (generator,) = generators(seed, [example_id], kind, severity)
        firsts.add(int(generator.integers(2**62)))
    assert len(firsts) == 16
    taken = []
    for generator in generators(0, ["x", "a"], "fog", 1):
        generator.random(3, dtype=np.float32)  # half of a number of 64 bits is left
        taken.append(generator.random(dtype=np.float32))
    (alone,) = generators(0, ["a"], "fog", 1)
    assert alone.random(4, dtype=np.float32)[3] == taken[1]


def test_what_is_no_random_corruption_depends_on_the_image_alone(cifar: Profile) -> None:
    for kind in sorted(set(KINDS) - set(RANDOM)):
        first = corrupt(IMAGES[:2], ["a", "b"], kind, 5, cifar, seed=0)
        assert np.array_equal(first, corrupt(IMAGES[:2], ["c", "d"], kind, 5, cifar, seed=9))


# --- formulas that no reference holds -------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 3, 40, 128, 250, 255])
@pytest.mark.parametrize("name", ["cifar-c", "imagenet-c"])
def test_shot_noise_has_the_moments_of_poisson_counts(name: str, level: int) -> None:
    size = severity_tables()[name]["size"]
    chosen, count = profile(name, size), 40 if size == 32 else 2
    for severity in (1, 5):
        photons = chosen.parameters("shot_noise", severity)["photons"]
        grey = np.full((count, size, size, 3), level, np.uint8)
        made = corrupt(grey, IDS[:count], "shot_noise", severity, chosen, seed=0).astype(float)
        counts = np.arange(photons + 1)
        share = stats.poisson.pmf(counts, photons * level / 255)
        share[-1] += 1 - share.sum()
        shown = np.floor(np.minimum(counts / photons, 1) * 255)
        mean = (share * shown).sum()
        deviation = np.sqrt((share * (shown - mean) ** 2).sum())
        error = deviation / made.size**0.5
        assert abs(made.mean() - mean) <= max(0.01 * mean, 4 * error)
        assert abs(made.std() - deviation) <= 0.02 * deviation + 4 * error


def test_noise_has_its_scale(cifar: Profile) -> None:
    grey = np.full((40, 32, 32, 3), 128, np.uint8)
    values = {
        kind: corrupt(grey, IDS, kind, 3, cifar, seed=0).astype(float)
        for kind in ("gaussian_noise", "impulse_noise")
    }
    truncated = np.hypot(0.08 * 255, 12**-0.5)
    assert values["gaussian_noise"].mean() == pytest.approx(127.5, rel=0.01)
    assert values["gaussian_noise"].std() == pytest.approx(truncated, rel=0.01)
    hit = values["impulse_noise"] != 128
    assert hit.mean() == pytest.approx(0.03, rel=0.05)
    assert (values["impulse_noise"][hit] == 255).mean() == pytest.approx(0.5, rel=0.05)
    of_a_pixel = hit.sum(axis=3)
    assert (of_a_pixel == 1).sum() > 50 * (of_a_pixel == 3).sum()  # each channel for itself


def test_glass_copies_pixel_by_pixel_from_the_last_to_the_first() -> None:
    height, width, delta, iterations = 20, 24, 3, 3
    image = drawn_image(4, height, width)
    shape = (1, iterations, height - 2 * delta, width - 2 * delta, 2)
    moves = np.random.default_rng(0).integers(-delta, delta, shape)
    made = glass_blur(image[None], moves, sigma=0, delta=delta, iterations=iterations)[0]
    slow, steps = image.copy(), iter(moves[0].reshape(-1, 2))
    for _ in range(iterations):
        for y, x in itertools.product(
            range(height - delta, delta, -1), range(width - delta, delta, -1)
        ):
            across, down = next(steps)
            # What looks like a swap in the original copies: both sides are views of one array.
            slow[y, x], slow[y + down, x + across] = slow[y + down, x + across], slow[y, x]
    assert np.array_equal(made, slow)


def test_zooms_are_those_of_scipy_at_every_size() -> None:
    for name in ("cifar-c", "tiny-imagenet-c", "imagenet-c"):
        size = severity_tables()[name]["size"]
        image = drawn_image(2, size, size).astype(np.float32)
        for zoom in (1.0, 1.06, 1.25, 2.25, 4.5):
            cropped = int(np.ceil(size / zoom))
            first = (size - cropped) // 2
            middle = image[first : first + cropped, first : first + cropped]
            enlarged = ndimage.zoom(middle, (zoom, zoom, 1), order=1)
            trim = (enlarged.shape[0] - size) // 2
            reference = enlarged[trim : trim + size, trim : trim + size]
            assert np.abs(zoomed(image[None], zoom)[0] - reference).max() < 0.01


def test_zoom_lists_end_where_floating_point_lets_them_end() -> None:
    for severity, (stop, included) in enumerate(
        [(1.06, True), (1.11, True), (1.16, False), (1.21, False), (1.26, False)]
    ):
        zooms = severity_tables()["cifar-c"]["severities"]["zoom_blur"]["zooms"][severity]
        assert zooms == np.arange(1, stop, 0.01).tolist()
        assert (zooms[-1] == pytest.approx(stop)) is included


@pytest.mark.parametrize("severity", SEVERITIES)
def test_large_discs_agree_with_a_direct_sum(severity: int) -> None:
    chosen = profile("imagenet-c", 224)
    image = drawn_image(6, 224, 224)
    made = corrupt(image[None], ["a"], "defocus_blur", severity, chosen, seed=0)[0]
    kernel = disc(**chosen.parameters("defocus_blur", severity))
    direct = ndimage.correlate(image.astype(float), kernel[..., None], mode="mirror")
    assert np.abs(made - np.clip(direct, 0, 255).astype(int)).max() <= 1


def test_the_extended_set_darkens_where_the_standard_set_brightens(cifar: Profile) -> None:
    clean = IMAGES.mean()
    for kind in ("low_light", "darken"):
        means = [corrupt(IMAGES, IDS, kind, s, cifar, seed=0).mean() for s in SEVERITIES]
        assert clean > means[0] > means[2] > means[4]
    assert corrupt(IMAGES, IDS, "brightness", 1, cifar, seed=0).mean() > clean
    darker = corrupt(IMAGES[:1], ["a"], "darken", 1, cifar, seed=0)[0].astype(int)
    assert IMAGES[0].max() - darker.max() == pytest.approx(25.5, abs=1)
    covered = (corrupt(IMAGES, IDS, "occlusion", 3, cifar, seed=0) == 127).all(axis=3).mean()
    assert covered == pytest.approx(0.14, abs=0.01)


# --- profiles -------------------------------------------------------------------------------------


def test_every_profile_has_numbers_for_every_corruption() -> None:
    for name, severity in itertools.product(PROFILES, SEVERITIES):
        size = severity_tables().get(name, {}).get("size", 224)
        chosen = profile(name, size)
        for kind in chosen.kinds:
            numbers = chosen.parameters(kind, severity).values()
            assert all(np.isfinite(number).all() for number in numbers)
    assert profile("scaled", 224).parameters("snow", 3) == profile("imagenet-c", 224).parameters(
        "snow", 3
    )


def test_scaled_leaves_out_what_falls_below_a_pixel_and_says_so() -> None:
    digits = profile("scaled", 8)
    assert set(STANDARD) - set(digits.kinds) == {
        "defocus_blur", "glass_blur", "motion_blur", "snow", "frost", "elastic_transform",
    }  # fmt: skip
    assert digits.note == "not comparable with published tables"
    faces = profile("scaled", 128)
    assert set(faces.left_out) == {"frost"}
    assert faces.parameters("motion_blur", 5)["radius"] == pytest.approx(20 * 128 / 224)
    wide = np.stack([drawn_image(1, 8, 11)])
    for kind in digits.kinds:
        assert corrupt(wide, ["a"], kind, 5, digits, seed=0).shape == wide.shape
    rectangle = np.stack([drawn_image(1, 128, 150)])
    for kind in faces.kinds:
        assert corrupt(rectangle, ["a"], kind, 5, faces, seed=0).shape == rectangle.shape


def test_published_files_went_through_jpeg_once_more() -> None:
    image = drawn_image(3, 64, 64)
    plain, saved = profile("tiny-imagenet-c", 64), profile("tiny-imagenet-c", 64, jpeg85=True)
    bright = corrupt(image[None], ["a"], "brightness", 1, plain, seed=0)[0]
    file = io.BytesIO()
    Image.fromarray(bright).save(file, "JPEG", quality=85)
    made = corrupt(image[None], ["a"], "brightness", 1, saved, seed=0)[0]
    assert np.array_equal(made, np.asarray(Image.open(file)))
    assert plain.fingerprint("fog", 1) != saved.fingerprint("fog", 1)


def test_fingerprints_tell_numbers_and_frost_pictures_apart(frost: Path, tmp_path: Path) -> None:
    chosen = profile("cifar-c", 32, frost=frost)
    prints = {chosen.fingerprint(k, s) for k, s in itertools.product(KINDS, SEVERITIES)}
    same_numbers = 5 - len({str(chosen.parameters("occlusion", s)) for s in SEVERITIES})
    assert len(prints) == len(KINDS) * 5 - same_numbers
    picture = Image.open(frost / "frost1.png")
    picture.save(tmp_path / "one.png")
    other = profile("cifar-c", 32, frost=tmp_path)
    assert other.fingerprint("frost", 1) != chosen.fingerprint("frost", 1)
    assert other.fingerprint("fog", 1) == chosen.fingerprint("fog", 1)


@pytest.mark.parametrize(("name", "size"), [("cifar-c", 32), ("imagenet-c", 224)])
def test_drawn_frost_is_mixed_as_the_published_frost_of_its_size(name: str, size: int) -> None:
    chosen, published = profile(name, size), severity_tables()[name]["severities"]["frost"]
    for severity in SEVERITIES:
        drawn = chosen.parameters("frost_like", severity)
        assert drawn == {key: values[severity - 1] for key, values in published.items()}


def test_families_are_four_of_the_paper_and_the_extended_set() -> None:
    assert {family_of(kind) for kind in KINDS} == set(FAMILIES)
    assert {kind for kind in KINDS if family_of(kind) == "extended"} == set(EXTENDED)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cifar-c", "tiny-imagenet-c", "imagenet-c"])
@pytest.mark.parametrize(
    ("size", "fitting"), [(31, "scaled"), (32, "cifar-c"), (64, "tiny-imagenet-c"), (96, "scaled")]
)
def test_profile_of_another_size_names_the_one_that_fits(
    name: str, size: int, fitting: str
) -> None:
    if severity_tables()[name]["size"] == size:
        assert profile(name, size).size == size
        return
    with pytest.raises(ConfigError, match=rf"got {size}; set {fitting}$"):
        profile(name, size)


def test_unknown_names_and_severities_are_refused(cifar: Profile, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'cifar-c'"):
        profile("cifar-10", 32)
    with pytest.raises(ConfigError, match="did you mean 'glass_blur'"):
        corrupt(IMAGES, IDS, "glas_blur", 1, cifar, seed=0)
    for severity in (0, 6):
        with pytest.raises(ConfigError, match=f"must be 1, 2, 3, 4 or 5, got {severity}"):
            corrupt(IMAGES, IDS, "fog", severity, cifar, seed=0)
    with pytest.raises(ConfigError, match="frost cannot be made with profile cifar-c: it needs"):
        corrupt(IMAGES, IDS, "frost", 1, profile("cifar-c", 32), seed=0)
    with pytest.raises(ConfigError, match="at least 8 pixels, got 7"):
        profile("scaled", 7)
    with pytest.raises(ConfigError, match="jpeg85 needs profile"):
        profile("cifar-c", 32, jpeg85=True)
    with pytest.raises(ConfigError, match="found none"):
        profile("cifar-c", 32, frost=tmp_path)
    Image.fromarray(drawn_image(0, 160, 161)).save(tmp_path / "small.png")
    with pytest.raises(ConfigError, match=r"small\.png must be larger than 32 pixels, got 32x32"):
        profile("cifar-c", 32, frost=tmp_path)


def test_frost_must_cover_the_longer_side_of_an_image(tmp_path: Path) -> None:
    Image.fromarray(drawn_image(0, 30, 50)).resize((800, 800)).save(tmp_path / "frost.png")
    chosen = profile("scaled", 16, frost=tmp_path)
    wide = drawn_image(0, 16, 60)[None]
    with pytest.raises(ConfigError, match="larger than images of 60x16 pixels, got 57x57"):
        corrupt(wide, ["a"], "frost", 1, chosen, seed=0)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.full((1, 32, 32, 3), np.nan, np.float32), "must be uint8 from 0 to 255, got float32"),
        (np.zeros((1, 32, 32, 3), np.uint16), "got uint16"),
        (np.zeros((1, 32, 32), np.uint8), r"must have shape \(n, height, width, 3\)"),
        (np.zeros((1, 32, 32, 1), np.uint8), "repeat grey three times"),
        (np.zeros((1, 32, 48, 3), np.uint8), "must be 32x32 pixels with this profile, got 48x32"),
        (np.zeros((2, 32, 32, 3), np.uint8), "1 ids for 2 images"),
    ],
)
def test_images_of_another_kind_are_refused(
    images: NDArray[np.uint8], message: str, cifar: Profile
) -> None:
    with pytest.raises(DataError, match=message):
        corrupt(images, ["a"], "fog", 1, cifar, seed=0)


def test_no_images_give_no_images(cifar: Profile) -> None:
    for kind in KINDS:
        assert corrupt(IMAGES[:0], [], kind, 1, cifar, seed=0).shape == (0, 32, 32, 3)
