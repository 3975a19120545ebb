"""Under which names does MLflow take metrics?"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["metric_names"]

NAME_LENGTH = 100  # the server takes 250, with section and prefix


def metric_names(keys: Iterable[str]) -> dict[str, str]:
    """Names that MLflow takes as the last part of a metric's, one a key, no two the same.

    Plain keys stay readable, without the `=` and `,` that MLflow refuses. Where other characters
    had to go, a name is too long, or two differ in case only (which some databases do not see), a
    digest of the key is appended.

    Args:
        keys: Group keys or attribute names, any text.

    Returns:
        Key to name, of characters in [A-Za-z0-9_.-].

    >>> metric_names(["sex=male", "sex=male,age=old"])
    {'sex=male': 'sex.male', 'sex=male,age=old': 'sex.male_and_age.old'}
    >>> list(metric_names(["sex=male/old", "sex=male?old"]).values())
    ['sex.male_old.aa101749b63d', 'sex.male_old.0814f67970dd']
    """
    readable = {key: key.replace("=", ".").replace(",", "_and_") for key in dict.fromkeys(keys)}
    seen = Counter(name.casefold() for name in readable.values())
    return {
        key: name
        if seen[name.casefold()] == 1
        and len(name) <= NAME_LENGTH
        and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)
        and not re.search(r"\.[0-9a-f]{12}$", name)
        else _digested(key, name)
        for key, name in readable.items()
    }


def _digested(key: str, name: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[: NAME_LENGTH - 20].strip("._-")
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{stem or 'group'}.{digest[:12]}"
