"""`scotoma corrupt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["corrupt"]


def corrupt(
    image: Annotated[Path, typer.Argument(help="Image file.")],
    every: Annotated[
        bool, typer.Option("--all", help="Show every corruption at severities 1, 3 and 5.")
    ] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Corruption to show at severities 1 to 5. Can be repeated."),
    ] = None,
    severity: Annotated[
        list[int] | None, typer.Option(help="Severity to show, 1 to 5. Can be repeated.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="cifar-c (32 pixels), tiny-imagenet-c (64), imagenet-c (224) or scaled. Default: "
            "the one for the size of the image, which is made smaller if it has more than 224."
        ),
    ] = None,
    frost: Annotated[
        Path | None, typer.Option(help="Folder of photographs of frost. Default: no frost.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    out: Annotated[Path, typer.Option(help="PNG to write.")] = Path("corruptions.png"),
    quiet: options.Quiet = False,
) -> None:
    """Show what the corruptions of a robustness measurement do to an image."""
    from scotoma.commands.corrupt.image import corrupt_image

    corrupt_image(
        image, every=every, kinds=kind or (), severities=severity or (), profile_name=profile,
        frost=frost, seed=seed, out=out, quiet=quiet,
    )  # fmt: skip
