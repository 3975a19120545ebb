"""The command line of a benchmark: a case is a function, and its parameters are the options."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from pathlib import Path


def run(about: str | None, *cases: Callable[..., object]) -> None:
    """Call the case that the command names.

    A default of False is a switch, a tuple takes several values, None is a file that may be left
    out, and a parameter without default is one that may not.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    named = parser.add_subparsers(required=True, metavar="CASE")
    for case in cases:
        known = (case.__doc__ or "").partition("\n")[0]
        own = named.add_parser(case.__name__.replace("_", "-"), help=known, description=known)
        own.set_defaults(case=case)
        for name, parameter in inspect.signature(case).parameters.items():
            option, value = "--" + name.replace("_", "-"), parameter.default
            if value is False:
                own.add_argument(option, action="store_true")
            elif isinstance(value, tuple):
                kind = type(value[0]) if value else Path
                own.add_argument(option, nargs="*", type=kind, default=value)
            elif value is None or value is inspect.Parameter.empty:
                own.add_argument(option, type=Path, required=value is not None)
            else:
                own.add_argument(option, type=type(value), default=value)
    asked = vars(parser.parse_args())
    asked.pop("case")(**asked)
