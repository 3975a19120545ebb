"""Draw what the corruptions of a robustness measurement make of an image.

    python examples/corrupt.py IMAGE --all                       # all, at severities 1, 3 and 5
    python examples/corrupt.py IMAGE --kind fog --kind snow --severity 2

It writes corruptions.png, and says which corruptions are left out, and why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

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
from scotoma.corruptions.images import draw_strip, has_transparency
from scotoma.corruptions.resampling import Images
from scotoma.datasets.image_size import ImageSize
from scotoma.document.lines import table_lines
from scotoma.errors import ConfigError, ScotomaError
from scotoma.printable import nearest, printable
from scotoma.storage.files import written

SHOWN = (1, 3, 5)  # severities of all of them


def draw_image(
    path: Path,
    out: Path,
    *,
    kinds: Sequence[str],
    severities: Sequence[int],
    profile_name: str | None,
    frost: Path | None,
    seed: int,
) -> tuple[Sequence[str], Profile, list[str]]:
    """Write a PNG of what corruptions make of an image, all at some severities without `kinds`.

    Returns:
        The corruptions, the profile, and what to note.

    Raises:
        ConfigError: No such file, corruption, severity or profile.
        DataError: The image cannot be decoded.
    """
    image, notes = _read(path, profile_name)
    chosen = _profile(image, profile_name, frost)
    severities = severities or (SEVERITIES if kinds else SHOWN)
    kinds = [chosen.checked(kind) for kind in kinds] or chosen.kinds
    rows = {"clean": [image]}
    for kind in kinds:
        rows[_caption(kind, severities)] = [
            corrupt(image[None], [path.name], kind, severity, chosen, seed=seed)[0]
            for severity in severities
        ]
    with written(out) as temporary:
        draw_strip(rows).save(temporary, "PNG")
    if chosen.note:
        notes.append(f"profile {chosen.name}: {chosen.note}")
    return kinds, chosen, notes


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


def main() -> int:
    """Draw what is asked for; the exit code is that of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("image", type=Path, help="Image file.")
    parser.add_argument("--all", action="store_true", help="Show every corruption.")
    parser.add_argument("--kind", action="append", default=[], help="Corruption to show.")
    parser.add_argument("--severity", action="append", default=[], type=int, help="1 to 5.")
    parser.add_argument("--profile", help=f"{', '.join(PROFILES)}. Default: by the image's size.")
    parser.add_argument("--frost", type=Path, help="Folder of photographs of frost.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random numbers.")
    parser.add_argument("--out", type=Path, default=Path("corruptions.png"), help="PNG to write.")
    asked = parser.parse_args()
    try:
        if asked.all == bool(asked.kind):
            raise ConfigError("corrupt.py needs either --all or --kind; corrupt.py IMAGE --all")
        if asked.out.suffix.lower() != ".png":
            raise ConfigError(f"--out must end in .png, got {printable(str(asked.out))}; rename it")
        kinds, chosen, notes = draw_image(
            asked.image, asked.out, kinds=asked.kind, severities=asked.severity,
            profile_name=asked.profile, frost=asked.frost, seed=asked.seed,
        )  # fmt: skip
    except ScotomaError as error:
        sys.stderr.write(f"corrupt.py: {printable(str(error))}\n")
        return error.exit_code
    many = f"{len(kinds)} corruption{'s' * (len(kinds) > 1)}"
    print(f"{printable(str(asked.out))}: {many}, profile {chosen.name}")
    if asked.all and chosen.left_out:
        lines = table_lines(("left out",), list(chosen.left_out.items()), right=1)
        print("\n".join(["", *lines]))
    sys.stderr.write("".join(f"note    {note}\n" for note in notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
