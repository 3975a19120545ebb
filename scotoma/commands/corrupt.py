"""`scotoma corrupt`."""

from __future__ import annotations

import sys
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
    from scotoma.corruptions.of_image import draw_image
    from scotoma.document.lines import table_lines
    from scotoma.errors import ConfigError
    from scotoma.printable import printable

    if every == bool(kind):
        raise ConfigError("corrupt needs either --all or --kind; scotoma corrupt IMAGE --all")
    if out.suffix.lower() != ".png":
        raise ConfigError(f"--out must end in .png, got {printable(str(out))}; rename it")
    kinds, chosen, notes = draw_image(
        image, out, kinds=kind or (), severities=severity or (), profile_name=profile, frost=frost,
        seed=seed,
    )  # fmt: skip
    many = f"{len(kinds)} corruption{'s' * (len(kinds) > 1)}"
    sys.stdout.write(f"{printable(str(out))}: {many}, profile {chosen.name}\n")
    if every and chosen.left_out:
        lines = table_lines(("left out",), list(chosen.left_out.items()), right=1)
        sys.stdout.write("\n".join(["", *lines, ""]))
    if not quiet:
        sys.stderr.write("".join(f"note    {note}\n" for note in notes))
