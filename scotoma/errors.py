"""What can go wrong that a person can put right, and the exit code that says so.

ScotomaError            5  internal
├── ConfigError         2  the configuration or the command line
│   └── MissingExtra    2  an optional part of the installation
├── DataError           4  examples, labels, attributes or predictions
│   └── UnreachableError 4  they are where this machine cannot read
└── NotLogged           7  the audit is complete, and the tracking server does not hold it

`scotoma verify` ends with 6 where the evidence is valid and states FAIL: that is no error.

Each message is one sentence: subject, rule, value found, way out.
"""

from __future__ import annotations


class ScotomaError(Exception):
    """Base of every error that Scotoma raises on purpose."""

    exit_code = 5


class ConfigError(ScotomaError, ValueError):
    """The configuration asks for something that cannot be."""

    exit_code = 2


class MissingExtra(ConfigError):  # noqa: N818  it reads as what it is: a missing extra
    """A module needs an optional part of the installation."""


class DataError(ScotomaError, ValueError):
    """The data cannot be audited as they are."""

    exit_code = 4


class UnreachableError(DataError):
    """The place of the data does not answer this machine, or lets it not in."""


UNLOGGED = "the audit is complete but not logged"  # begins the sentence of a NotLogged


class NotLogged(ScotomaError):  # noqa: N818  it reads as what it is: audited, not logged
    """An audit is complete, and the tracking server that was named does not hold it."""

    exit_code = 7
