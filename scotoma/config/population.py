"""How many models of each variant are made, and from which seeds."""

from __future__ import annotations

from pydantic import Field

from scotoma.config.shared import Frozen

__all__ = ["Population"]


class Population(Frozen):
    """How many members each variant has, and the seed that all of theirs derive from."""

    models: int = Field(10, ge=1, le=255, description="Members a variant.")
    seed: int = Field(0, ge=0, lt=2**32)
    identical: bool = Field(
        False, description="Every member has the first one's seed: only the software varies."
    )
    forked: bool = Field(
        False,
        description="Pruned members branch off the dense ones at the first mask update: cheaper, "
        "and analysed as pairs.",
    )

    def seed_index(self, member: int) -> int:
        """The member whose seed a member has: itself, or the first one."""
        return 0 if self.identical else member
