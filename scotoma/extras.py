"""Which optional part of the installation a module needs, said in one sentence."""

from __future__ import annotations

import importlib
from typing import Any

from scotoma.errors import MissingExtra

__all__ = ["needs"]


def needs(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module.

    Args:
        module: Its dotted name.
        extra: The extra of this package that installs it.
        purpose: What it is needed for, as the subject of a sentence.

    Returns:
        The module.

    Raises:
        MissingExtra: It is not installed; the message says which extra brings it.

    >>> needs("math", "train", "arithmetic").pi > 3
    True
    >>> needs("no_such_module", "train", "training")
    Traceback (most recent call last):
    ...
    scotoma.errors.MissingExtra: training needs no_such_module; pip install 'scotoma[train]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{purpose} needs {error.name}; pip install 'scotoma[{extra}]'"
        ) from error
