"""Configurations without what other eyes must not see."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from scotoma.storage.credentials import masked

if TYPE_CHECKING:
    from scotoma.config import Config

__all__ = ["portable", "shareable"]


def shareable(config: Config) -> str:
    """A configuration as YAML, with every default filled in and no credentials."""
    values = config.model_dump(mode="json", exclude_none=True)
    if config.label.column is None:
        values["label"]["column"] = None  # a key that is never left out
    if config.tracking.uri:
        values["tracking"]["uri"] = masked(config.tracking.uri)
    return yaml.safe_dump(values, sort_keys=False)


def portable(text: str) -> str:
    r"""A written configuration without the folders of this machine, for other eyes.

    Args:
        text: Content of a run's `config.yaml`, whose local paths are absolute.

    Returns:
        The same, every path of data and tracking cut to its last part; `s3://` URIs as they are.

    >>> portable("source: {images: /home/me/faces, data: 's3://b/x'}")
    'source:\n  images: faces\n  data: s3://b/x\n'
    """
    values = yaml.safe_load(text)
    for section in ("source", "tracking"):
        for key, value in values.get(section, {}).items():
            if isinstance(value, str):
                values[section][key] = re.sub(r"^(sqlite:///|file://)?/(.*/)?", r"\1", value)
    return yaml.safe_dump(values, sort_keys=False)
