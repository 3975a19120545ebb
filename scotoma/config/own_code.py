"""Code of the user's own that a configuration names: run only where it was allowed, and told apart.

The permission is an option of the command, never a key of the configuration: a file from elsewhere
cannot give it to itself. It travels to the steps of a run on this machine in their environment,
and to no cluster.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable
from scotoma.storage.files import file_digest

CODE_VARIABLE = "SCOTOMA_ALLOW_CODE"  # the folder that modules are found in, beside installed ones


def is_code(model: str) -> bool:
    """Whether the name of a network is a function of the user's, `package.module:function`.

    >>> is_code("nets:make"), is_code("resnet18")
    (True, False)
    """
    return ":" in model


@contextmanager
def code_allowed(model: str, folder: Path, *, allowed: bool) -> Iterator[None]:
    """A block in which this process and its children may run the network's code, if it is any.

    Args:
        model: Name of the network; empty where none is trained.
        folder: Where its module may lie.
        allowed: Whether the user has allowed it.

    Raises:
        ConfigError: The network is code and the user has not.
    """
    before = os.environ.pop(CODE_VARIABLE, None)
    try:
        if is_code(model):
            if not allowed:
                raise _not_allowed(model)
            os.environ[CODE_VARIABLE] = str(folder.absolute())
        yield
    finally:
        os.environ.pop(CODE_VARIABLE, None)
        if before is not None:
            os.environ[CODE_VARIABLE] = before


def function_of(model: str) -> Callable[..., Any]:
    """The function that a name stands for; its module is imported.

    Raises:
        ConfigError: It is not allowed here, cannot be imported, or is no function.
    """
    module, name = _parts(model)
    _look_beside_the_configuration(model)
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # a module may raise anything
        raise ConfigError(
            f"source.model {model!r} cannot be imported ({error_line(error)}); put "
            f"{module.partition('.')[0]} beside the configuration, install it, or correct it"
        ) from error
    if not hasattr(imported, name):
        names = [each for each in vars(imported) if not each.startswith("_")]
        raise ConfigError(
            f"source.model {model!r} names no function of {module}{nearest(name, names)}"
        )
    function: object = getattr(imported, name)
    if not callable(function):
        raise ConfigError(
            f"source.model {model!r} must be a function of the number of classes, got "
            f"{type(function).__name__}"
        )
    return function


def module_digest(model: str) -> str:
    """SHA-256 of the file of a network's module: what it made is made again if it changes.

    Raises:
        ConfigError: See `function_of`.
    """
    module, _ = _parts(model)
    _look_beside_the_configuration(model)
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # of a package above it
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        function_of(model)  # says why
        raise ConfigError(
            f"source.model {model!r} is not in a file, so Scotoma cannot notice changes; move it "
            "into one"
        )
    return file_digest(Path(spec.origin))


def _parts(model: str) -> tuple[str, str]:
    parts = re.fullmatch(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", model)
    if parts is None:
        raise ConfigError(
            f"source.model {printable(model)!r} must be package.module:function; correct the name"
        )
    return parts[1], parts[2]


def _look_beside_the_configuration(model: str) -> None:
    """Let modules be found there; last, so that none takes the place of an installed one."""
    folder = os.environ.get(CODE_VARIABLE)
    if not folder:
        raise _not_allowed(model)
    if folder not in sys.path:
        sys.path.append(folder)
        importlib.invalidate_caches()


def _not_allowed(model: str) -> ConfigError:
    return ConfigError(
        f"source.model {printable(model)!r} is code, which runs only with --allow-code on this "
        "machine; repeat the command with it if you trust that code"
    )


def error_line(error: Exception) -> str:
    r"""Format an error that the user's code raised as one line.

    >>> error_line(ValueError("no\nwidth"))
    'ValueError: no width'
    """
    return printable(" ".join(f"{type(error).__name__}: {error}".split()))[:200]
