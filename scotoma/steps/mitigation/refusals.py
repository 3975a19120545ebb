"""To which members can nothing be done after training?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scotoma.errors import ConfigError

if TYPE_CHECKING:
    from scotoma.config import Config

__all__ = ["refuse_heads"]


def refuse_heads(config: Config, todo: str) -> None:
    """Refuse members that decide by a head a group; `todo` is done to another audit."""
    if config.mitigation is not None and config.mitigation.heads:
        raise ConfigError(
            f"members trained with {config.mitigation.technique} have a head a group and a rule of "
            f"their own; {todo} an audit without mitigation.technique DD or DI"
        )
