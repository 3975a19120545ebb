"""Draw corruptions of one image, and say which are left out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scotoma.commands.shared.text_table import table_lines
from scotoma.corruptions import (
    EXTENDED,
    PROFILES,
    SEVERITIES,
    SIZES,
    VALIDATION,
    Profile,
    corrupt,
    family_of,
    profile,
    read_image,
)
from scotoma.corruptions.arrays import Images
from scotoma.corruptions.images import has_transparency
from scotoma.corruptions.strip import draw_strip
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable
from scotoma.storage.files import written

__all__ = ["corrupt_image"]

SHOWN = (1, 3, 5)  # severities with --all


def corrupt_image(
    path: Path,
    *,
    every: bool,
    kinds: Sequence[str],
    severities: Sequence[int],
    profile_name: str | None,
    frost: Path | None,
    seed: int,
    out: Path,
    quiet: bool,
) -> None:
    """Run `scotoma corrupt`.

    Raises:
        ConfigError: Not one of --all and --kind; no such file, corruption, severity or profile.
        DataError: The image cannot be decoded.
    """
    if every == bool(kinds):
        raise ConfigError("corrupt needs either --all or --kind; scotoma corrupt IMAGE --all")
    if out.suffix.lower() != ".png":
        raise ConfigError(f"--out must end in .png, got {printable(str(out))}; rename it")
    image, notes = _read(path, profile_name)
    chosen = _profile(image, profile_name, frost)
    kinds = chosen.kinds if every else [chosen.checked(kind) for kind in kinds]
    severities = severities or (SHOWN if every else SEVERITIES)

    def worse(kind: str) -> list[Images]:
        images, ids = image[None], [path.name]
        return [corrupt(images, ids, kind, s, chosen, seed=seed)[0] for s in severities]

    rows = {"clean": [image]} | {_caption(kind, severities): worse(kind) for kind in kinds}
    with written(out) as temporary:
        draw_strip(rows).save(temporary, "PNG")
    many = f"{len(kinds)} corruption{'s' * (len(kinds) > 1)}"
    sys.stdout.write(f"{printable(str(out))}: {many}, profile {chosen.name}\n")
    if every and chosen.left_out:
        lines = table_lines(("left out",), list(chosen.left_out.items()), right=1)
        sys.stdout.write("\n".join(["", *lines, ""]))
    if chosen.note:
        notes.append(f"profile {chosen.name}: {chosen.note}")
    if not quiet:
        sys.stderr.write("".join(f"note    {note}\n" for note in notes))


def _caption(kind: str, severities: Sequence[int]) -> str:
    kept_apart = {**dict.fromkeys(VALIDATION, "validation"), **dict.fromkeys(EXTENDED, "extended")}
    group = dict.fromkeys([family_of(kind), kept_apart.get(kind, "")])
    return f"{kind} ({', '.join(filter(None, group))}): {', '.join(map(str, severities))}"


def _read(path: Path, profile_name: str | None) -> tuple[Images, list[str]]:
    """Read the image at the size of the profile, and say what was done to it."""
    if profile_name is not None and profile_name not in PROFILES:
        raise ConfigError(
            f"profile must be one of {', '.join(PROFILES)}, got {profile_name!r}"
            f"{nearest(profile_name, PROFILES)}"
        )
    if not path.is_file():
        raise ConfigError(f"image {printable(str(path))} is not a file; name an image file")
    image = read_image(path)
    notes = []
    size = SIZES.get(profile_name or "")
    if profile_name is None and min(image.shape[:2]) > max(SIZES.values()):
        size = max(SIZES.values())
    if size is not None and image.shape[:2] != (size, size):
        notes.append(
            f"the middle square of {image.shape[1]}x{image.shape[0]} pixels was resized to "
            f"{size}x{size}"
        )
        image = read_image(path, ImageSize(size, size))
    if np.ptp(image, axis=2).max(initial=0) == 0:
        notes.append("the image is grey: its three channels are equal before the corruption")
    if has_transparency(path):
        notes.append("transparency was dropped")
    return image, notes


def _profile(image: Images, name: str | None, frost: Path | None) -> Profile:
    height, width = image.shape[:2]
    fitting = {size: known for known, size in SIZES.items()} if height == width else {}
    return profile(name or fitting.get(height, "scaled"), min(height, width), frost=frost)
