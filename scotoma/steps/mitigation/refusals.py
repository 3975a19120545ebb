"""Which variants and members can nothing be done to after training?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable

if TYPE_CHECKING:
    from scotoma.config import Config, Variant

__all__ = ["compressed_variant", "refuse_heads"]


def compressed_variant(config: Config, name: str) -> Variant:
    """The compressed variant that an option names."""
    names = [one.name for one in config.resolved_variants[1:]]
    if name not in names:
        raise ConfigError(
            f"--variant must be a compressed variant of the audit, got {printable(name)!r}; "
            f"they are {', '.join(names)}{nearest(name, names)}"
        )
    return config.variant(name)


def refuse_heads(config: Config, todo: str) -> None:
    """Refuse members that decide by a head a group; `todo` is done to another audit."""
    if config.mitigation is not None and config.mitigation.heads:
        raise ConfigError(
            f"members trained with {config.mitigation.technique} have a head a group and a rule of "
            f"their own; {todo} an audit without mitigation.technique DD or DI"
        )
