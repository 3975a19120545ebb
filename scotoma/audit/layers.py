"""Which layers of a variant that fails change most labels? layers.json, as a type."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from scotoma.audit.base import Fraction, Part, Quantity
from scotoma.audit.reading import read_part


class LayerFlips(Part):
    """One layer, compressed alone and together with those before it in the list."""

    layer: str = Field(description="Its name in the network.")
    sparsity: Fraction | None = Field(
        description="Share of its weights that pruning set to zero, mean over the members; null "
        "for int8."
    )
    alone: Quantity = Field(description="Share of labels that change if it alone is compressed.")
    together: Quantity = Field(
        description="The same if the layers before it in the list are compressed too."
    )


class VariantLayers(Part):
    """The layers of one variant, those that change most labels first."""

    compared: str = Field(description="What was compared with what, as a sentence.")
    layers: tuple[LayerFlips, ...] = Field(description="The layers.")


class VariantsLayers(Part):
    """The layers of every variant that failed."""

    version: Literal[1] = Field(description="Version of this format.")
    variants: dict[str, VariantLayers] = Field(description="By variant.")


def read_layers(path: Path) -> VariantsLayers:
    """Read layers.json.

    Raises:
        DataError: It is not there, or holds something else.
    """
    return read_part(path, VariantsLayers)
