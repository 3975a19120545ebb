"""What does every format's module say of one answer?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scotoma.credentials import looks_secret, masked
from scotoma.errors import DataError
from scotoma.printable import printable

__all__ = [
    "About",
    "Evaluation",
    "Format",
    "Record",
    "hash_text",
    "masked_settings",
    "parsed",
    "quoted_id",
]

MASK = "***"
LONGEST_ID = 80  # characters of an id in a message
LONGEST_SETTING = 500


class Evaluation(NamedTuple):
    """Whose answers, to what, scored after which filter; empty where a log does not say."""

    model: str
    task: str
    filter: str = ""


class Record(NamedTuple):
    """One answer; None where a log has none.

    `scores` and `attributes` hold what the log holds: any JSON value.
    """

    evaluation: Evaluation
    example_id: str
    scores: Mapping[str, Any]
    attributes: Mapping[str, Any]
    rerun: int = 0
    content_hash: str | None = None
    prompt_hash: str | None = None
    target_hash: str | None = None
    prompt: str | None = None
    target: str | None = None
    answer: str | None = None
    text: str | None = None
    choice: int | None = None


class About(NamedTuple):
    """What a log says of an evaluation as a whole.

    `settings` must agree between two logs that are compared, `details` need not.
    """

    settings: Mapping[str, Any]
    details: Mapping[str, Any]
    notes: tuple[str, ...] = ()


class Format(NamedTuple):
    """A format: its name, its records one after the other, and what is said of the whole."""

    name: str
    records: Callable[[Path], Iterator[Record]]
    about: Callable[[Path, Evaluation], About]


def hash_text(*texts: str | None) -> str:
    """Hash texts, so that equal ones can be told without keeping them.

    >>> hash_text("a", "b") == hash_text("ab")
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        part = b"" if text is None else text.encode("utf-8", "surrogatepass")
        digest.update(f"{text is None:d}{len(part)}:".encode() + part)
    return digest.hexdigest()


def masked_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Write settings as text, without credentials, in the order of their names.

    >>> masked_settings({"model_args": {"token": "abc", "dtype": "int4"}, "limit": None})
    {'limit': 'none', 'model_args': '{"dtype": "int4", "token": "***"}'}
    """
    shown = {}
    for name, value in sorted(settings.items()):
        if value is None or value in ("", [], {}):
            shown[name] = "none"
            continue
        open_value = _without_secrets(name, value)
        text = open_value if isinstance(open_value, str) else json.dumps(open_value, sort_keys=True)
        text = masked(text)
        if len(text) > LONGEST_SETTING:
            text = f"{text[:LONGEST_SETTING]}... ({hash_text(text)})"
        shown[name] = text
    return shown


def _without_secrets(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_secrets(str(key), one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_secrets(name, one) for one in value]
    if isinstance(value, str):
        parts = value.split(",")  # pretrained=org/model,token=...
        pairs = [part.partition("=") for part in parts]
        if looks_secret(name, ""):
            return MASK
        return ",".join(
            f"{key}={MASK}" if equals and looks_secret(key.strip(), one) else f"{key}{equals}{one}"
            for key, equals, one in pairs
        )
    return MASK if isinstance(value, (int, float)) and _names_secret(name) else value


def _names_secret(name: str) -> bool:
    """Whether a number is a secret: not where tokens are counted.

    >>> _names_secret("password"), _names_secret("max_tokens")
    (True, False)
    """
    return "token" not in name.lower() and looks_secret(name, "")


def parsed(line: str | bytes, called: str, place: str) -> Any:
    """Parse JSON.

    Args:
        line: The text.
        called: What messages call the file.
        place: Where in it, such as `line 3`.

    Raises:
        DataError: It is no JSON.
    """
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be decoded"
        raise DataError(
            f"{printable(called)} must hold JSON, and {place} does not ({why}): the file may have "
            "been cut off; copy it again, or remove that part"
        ) from error


def quoted_id(example_id: str) -> str:
    """Quote an id for a message.

    >>> quoted_id("a" * 100)[-6:]
    "aa...'"
    """
    text = masked(printable(example_id))
    return repr(text if len(text) <= LONGEST_ID else f"{text[: LONGEST_ID - 3]}...")
