"""Which extra brings a missing package? One sentence names it, with how to install it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from scotoma.errors import MissingExtra


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
        raise _missing(error.name, extra, purpose) from error


def home_of(package: str, extra: str, purpose: str) -> Path:
    """Locate an optional package without importing it: torch would take seconds.

    Args:
        package: Its name.
        extra: The extra of this package that installs it.
        purpose: What it is needed for, as the subject of a sentence.

    Returns:
        Its folder.

    Raises:
        MissingExtra: It is not installed; the message says which extra brings it.

    >>> home_of("email", "train", "writing").name
    'email'
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise _missing(package, extra, purpose)
    return Path(spec.origin).parent


def _missing(module: str | None, extra: str, purpose: str) -> MissingExtra:
    return MissingExtra(f"{purpose} needs {module}; pip install 'scotoma[{extra}]'")
