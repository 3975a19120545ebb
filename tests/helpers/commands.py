"""The command line, called in this process."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from pathlib import Path
from typing import Any

from scotoma.cli import main


def scotoma(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["scotoma", *map(str, arguments)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code: object = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert isinstance(code, int)
    return code, out.getvalue(), err.getvalue()


def ended(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
    """What a command prints and says that ends with a code."""
    seen, out, err = scotoma(*arguments)
    assert seen == code, out + err
    return out, err


def stdout_of(*arguments: str | Path, code: int = 0) -> str:
    """What a command prints that ends with a code."""
    return ended(*arguments, code=code)[0]


def stderr_of(*arguments: str | Path, code: int = 0) -> str:
    """What a command says that ends with a code."""
    return ended(*arguments, code=code)[1]


def measured(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    """What a command prints with --json."""
    found: dict[str, Any] = json.loads(stdout_of(*arguments, "--json", code=code))
    return found
