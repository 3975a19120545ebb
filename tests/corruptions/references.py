"""Run the original functions on 64 drawn images, and keep what they give.

    python tests/corruptions/references.py make_cifar_c.py

with ImageNet-C/create_c/make_cifar_c.py of https://github.com/hendrycks/robustness at commit
ca360085d57889288c4143fddd8a707bbcae01bd, in an environment with numpy 2.4.6, scipy 1.17.1,
scikit-image 0.26.0, opencv-python 5.0.0.93, Pillow 13.0.0, Wand 0.7.2 and ImageMagick 6.9.11-60.

Nothing of the original is changed but what today's libraries no longer have: `np.float_`,
`np.fromstring`, `multichannel`; and scikit-image's own generator is seeded. What is kept: of each
corruption images 1 to 5 at severities 1 to 5 as one PNG, and of all 64 images a signed sum of the
values, which tells other pixels from the same ones a level apart.

    python tests/corruptions/references.py make_imagenet_c.py --large

does the same for the corruptions of ImageNet-C that draw no random number, at 224 pixels, without
ImageMagick (its script at commit e0377d46411fa30c01a9559017bdb6a5f78d4abf): of images 1 to 5 a
corner and a piece of the middle, of four images the signed sums.

    python tests/corruptions/references.py make_tinyimagenet_c.py --tiny

does it for those of Tiny-ImageNet-C but the two that ImageMagick moves (its script at commit
7a64e6a188082e666f200dc1b9762cfb5cdf8fe8): pieces at 64 pixels, and the signed sums of eight images.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent / "references"
SIDE = 32
# Not shot noise: how many numbers its generator takes depends on the counts, so none can be fed.
KINDS = [
    "gaussian_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
    "speckle_noise",
    "gaussian_blur",
    "spatter",
    "saturate",
]
# What ImageNet-C changes without random numbers.
LARGE_KINDS = [
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg_compression",
    "gaussian_blur",
    "saturate",
]
# What Tiny-ImageNet-C changes without ImageMagick.
TINY_KINDS = [kind for kind in KINDS if kind not in ("motion_blur", "snow")]
LARGE, LARGE_IMAGES = 224, 4
TINY, TINY_IMAGES = 64, 8
SIGNS = np.random.RandomState(0).choice([-1, 1], SIDE * SIDE * 3)
LARGE_SIGNS = np.random.RandomState(0).choice([-1, 1], LARGE * LARGE * 3)
TINY_SIGNS = np.random.RandomState(0).choice([-1, 1], TINY * TINY * 3)


def drawn_image(number: int, height: int = SIDE, width: int = SIDE) -> NDArray[np.uint8]:
    """Waves of light in three colours, rectangles, and grain; now and then grey."""
    random = np.random.RandomState(number)
    y, x = np.mgrid[:height, :width] / max(height, width)
    image = np.zeros((height, width, 3))
    for channel in range(3):
        for _ in range(3):
            a, b, phase = random.uniform(-9, 9, 3)
            image[..., channel] += random.uniform(10, 60) * np.sin(a * y + b * x + phase)
    image += random.uniform(60, 190)
    for _ in range(random.randint(4)):
        top, left = random.randint(height - 6), random.randint(width - 6)
        down, across = random.randint(3, height // 2), random.randint(3, width // 2)
        image[top : top + down, left : left + across] = random.choice([0, 90, 255], 3)
    image += random.normal(0, 6, image.shape)
    if number % 8 == 7:
        image = np.repeat(image[..., :1], 3, axis=2)
    return np.clip(image, 0, 255).astype(np.uint8)


def frost_pictures() -> dict[str, NDArray[np.uint8]]:
    """Drawn ones in place of the photographs, under the names that the original opens."""
    names = ["frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg"]
    return {name: drawn_image(100 + at, 230, 260 + at) for at, name in enumerate(names)}


def seed_of(number: int, severity: int) -> int:
    return 10 * number + severity


def signature(image: NDArray[np.uint8]) -> int:
    return int((image.ravel().astype(int) * SIGNS).sum())


def piece(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A corner, where borders show, and a part of the middle, shape (32, 32, 3)."""
    return np.concatenate([image[:SIDE, :16], image[96 : 96 + SIDE, 104:120]], axis=1)


def tiny_piece(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The upper left corner and the lower right one, shape (32, 32, 3)."""
    return np.concatenate([image[:SIDE, :16], image[-SIDE:, -16:]], axis=1)


def tiny_signature(image: NDArray[np.uint8]) -> int:
    return int((image.ravel().astype(int) * TINY_SIGNS).sum())


def large_signature(image: NDArray[np.uint8]) -> int:
    return int((image.ravel().astype(int) * LARGE_SIGNS).sum())


def write_frost(folder: Path) -> None:
    from PIL import Image

    for name, picture in frost_pictures().items():
        Image.fromarray(picture).save(folder / name, "PNG")


class _Numpy:
    """numpy, with two names that it no longer has."""

    float_ = np.float64
    fromstring = staticmethod(np.frombuffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def original_functions(path: Path, *, motion: bool = True) -> dict[str, Any]:
    """The functions and classes of the script, without what it runs when it is started.

    Without `motion` those that ImageMagick moves are left out.
    """
    import ctypes
    import io
    import types

    import cv2
    import skimage
    import skimage.color
    import skimage.filters
    import skimage.util
    from PIL import Image
    from scipy.ndimage import map_coordinates, zoom

    @functools.wraps(skimage.filters.gaussian)
    def gaussian(*arguments: Any, multichannel: bool = False, **options: Any) -> Any:
        axis = -1 if multichannel else None
        return skimage.filters.gaussian(*arguments, channel_axis=axis, **options)

    namespace: dict[str, Any] = {
        "np": _Numpy(), "cv2": cv2, "ctypes": ctypes, "BytesIO": io.BytesIO, "PILImage": Image,
        "scizoom": zoom, "map_coordinates": map_coordinates, "gaussian": gaussian,
        "sk": types.SimpleNamespace(color=skimage.color, util=types.SimpleNamespace()),
    }  # fmt: skip
    wanted: tuple[type[ast.stmt], ...] = (ast.FunctionDef,)
    if motion:
        from wand.api import library
        from wand.image import Image as WandImage

        namespace |= {"wandlibrary": library, "WandImage": WandImage}
        wanted = (ast.FunctionDef, ast.ClassDef)
    tree = ast.parse(path.read_text("utf-8"))
    body = [
        node
        for node in tree.body
        if isinstance(node, wanted)
        or (motion and isinstance(node, ast.Assign) and "argtypes" in ast.unparse(node.targets[0]))
    ]
    exec(compile(ast.Module(body, []), str(path), "exec"), namespace)  # the file that was named
    return namespace


def seeded_references(
    script: str, kinds: list[str], images: list[NDArray[np.uint8]], *, motion: bool
) -> dict[str, list[list[NDArray[np.uint8]]]]:
    """What the original makes of images: by corruption, a list a severity."""
    import skimage.util
    from PIL import Image

    original = original_functions(Path(script).resolve(), motion=motion)

    def reference(kind: str, number: int, severity: int) -> NDArray[np.uint8]:
        seed = seed_of(number, severity)
        np.random.seed(seed)  # noqa: NPY002  the original draws from it
        original["sk"].util.random_noise = functools.partial(skimage.util.random_noise, rng=seed)
        image = Image.fromarray(images[number])
        return np.uint8(original[kind](image, severity))  # as the script does

    with tempfile.TemporaryDirectory() as folder:
        write_frost(Path(folder))
        os.chdir(folder)
        return {
            kind: [[reference(kind, n, s) for n in range(len(images))] for s in range(1, 6)]
            for kind in kinds
        }


def write_sums(path: Path, sums: dict[str, list[list[int]]]) -> None:
    rows = ",\n".join(f" {json.dumps(kind)}: {json.dumps(rows)}" for kind, rows in sums.items())
    path.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")


def main(script: str) -> None:
    from PIL import Image

    images = [drawn_image(number) for number in range(64)]
    sums: dict[str, list[list[int]]] = {}
    for kind, made in seeded_references(script, KINDS, images, motion=True).items():
        sums[kind] = [[signature(image) for image in row] for row in made]
        strip = np.concatenate([made[s - 1][s] for s in range(1, 6)], axis=1)
        Image.fromarray(strip).save(HERE / f"{kind}.png", optimize=True)
    write_sums(HERE / "sums.json", sums)


def tiny(script: str) -> None:
    from PIL import Image

    images = [drawn_image(number, TINY, TINY) for number in range(TINY_IMAGES)]
    sums: dict[str, list[list[int]]] = {}
    strips = []
    for kind, made in seeded_references(script, TINY_KINDS, images, motion=False).items():
        sums[kind] = [[tiny_signature(image) for image in row] for row in made]
        strips.append(np.concatenate([tiny_piece(made[s - 1][s]) for s in range(1, 6)], axis=1))
    Image.fromarray(np.concatenate(strips)).save(HERE / "tiny.png", optimize=True)
    write_sums(HERE / "tiny-sums.json", sums)


def large(script: str) -> None:
    from PIL import Image

    original = original_functions(Path(script).resolve(), motion=False)
    images = [Image.fromarray(drawn_image(number, LARGE, LARGE)) for number in range(6)]
    sums: dict[str, list[list[int]]] = {}
    for kind in LARGE_KINDS:
        made = [[np.uint8(original[kind](image, s)) for image in images] for s in range(1, 6)]
        sums[kind] = [[large_signature(image) for image in row[:LARGE_IMAGES]] for row in made]
        strip = np.concatenate([piece(made[s - 1][s]) for s in range(1, 6)], axis=1)
        Image.fromarray(strip).save(HERE / f"large-{kind}.png", optimize=True)
    write_sums(HERE / "large-sums.json", sums)


if __name__ == "__main__":
    {"--large": large, "--tiny": tiny}.get(sys.argv[-1], main)(sys.argv[1])
