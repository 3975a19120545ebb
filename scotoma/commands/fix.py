"""`scotoma fix`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from scotoma.commands.asking import Answer, Options, argument, option
from scotoma.config.techniques import AFTERWARDS

if TYPE_CHECKING:
    By: TypeAlias = str
else:
    By = Literal[(*AFTERWARDS, "layers")]


class FixOptions(Options):
    """What is fixed, and how."""

    run: str = argument("Folder of a finished audit, or s3://BUCKET/PREFIX.")
    by: By = option(
        ...,
        f"{', '.join(AFTERWARDS)}: rules by which members decide, without training; layers: "
        "ranges of int8, and layers to leave in float32.",
    )
    variant: str | None = option(
        None,
        "Variant to fix. Default: the first of the worst verdict; for layers the only one of int8, "
        "or the only static one.",
    )
    attribute: str | None = option(
        None, "Rules: attribute whose groups count, several joined by commas."
    )
    together: int = option(2, "ensemble: members that decide together.")
    max_size_increase: str = option(
        "10%", "layers: by how much the int8 file may grow, in per cent."
    )
    out: Path | None = option(None, "New folder. Default: RUN-VARIANT+BY.")

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        of_rules = self.attribute is not None or self.together != 2
        if self.by == "layers" and of_rules:
            yield "--attribute and --together are for rules; leave out, or change --by"
        if self.by != "layers" and self.max_size_increase != "10%":
            yield "--max-size-increase is for --by layers; leave it out, or change --by"


def fix(options: FixOptions) -> Answer:
    """Fix a variant without training it again, and judge it beside the others.

    Half of the test examples choose; the other half, clusters whole, judges the new variant beside
    the others. The new folder holds rules or repaired ONNX models, and an audit of its own; RUN
    stays as it is. Exit code: 0.
    """
    from scotoma.steps.fix import fix_variant

    return fix_variant(options)
