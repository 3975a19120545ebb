"""Which configuration does a command run with?"""

from __future__ import annotations

import contextlib
from pathlib import Path

from scotoma import storage
from scotoma.config import Config, default_config, load_config
from scotoma.config.own_code import code_allowed
from scotoma.errors import ConfigError


def configuration(
    path: Path | None,
    *,
    deterministic: bool,
    seed: int | None,
    data: str | None,
    models: int | None = None,
) -> Config:
    """Read a configuration, with what the command line replaces; nothing else is opened.

    Args:
        path: The file; None for the embedded default.
        deterministic: Set `deterministic` to True.
        seed: Replaces `population.seed`.
        data: Replaces `source.data`.
        models: Replaces `population.models`.

    Raises:
        ConfigError: It breaks a rule, or its source has no `data` or trains no members.

    >>> configuration(None, deterministic=False, seed=7, data=None).population.seed
    7
    """
    config = default_config() if path is None else load_config(path)
    if models is not None and not config.source.trains:
        raise ConfigError(
            f"--models sets how many members to train, and source.kind {config.source.kind!r} "
            "trains none; leave it out"
        )
    changed = {key: n for key, n in (("seed", seed), ("models", models)) if n is not None}
    if changed:
        population = config.population.model_copy(update=changed)
        config = config.model_copy(update={"population": population})
    if data is not None:
        place = data if storage.is_remote(data) else str(Path(data).absolute())
        config = config.model_copy(update={"source": config.source.with_data(place)})
    if deterministic:
        config = config.model_copy(update={"deterministic": True})
    return config


def own_code(
    config: Config, path: Path | None, *, allowed: bool
) -> contextlib.AbstractContextManager[None]:
    """Make a block in which code that a configuration names may run, if the user allows it.

    Args:
        config: The configuration.
        path: Its file, whose folder is searched for modules; None for this folder.
        allowed: Whether the user passed --allow-code.
    """
    home = Path() if path is None else path.parent
    return code_allowed(config.source.network, home, allowed=allowed)
