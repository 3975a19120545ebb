"""What is the key of a group? The same in every result, and never that of another group."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["group_key"]


def group_key(values: Iterable[tuple[str, str]]) -> str:
    r"""Build the key of the group whose examples have all of these values.

    A backslash goes before what a name shares with the syntax: `,` and a backslash anywhere, and
    `=` in an attribute. Two groups therefore never have the same key, whatever their names hold.

    Args:
        values: Attribute and value, one pair an attribute; none for all examples.

    Returns:
        `all`, `sex=male`, or of an intersection `sex=male,age=old`.

    >>> group_key([]), group_key([("sex", "male")]), group_key([("sex", "male"), ("age", "old")])
    ('all', 'sex=male', 'sex=male,age=old')
    >>> print(group_key([("income", ">=50K, net")]), group_key([("a=b", "c")]))
    income=>=50K\, net a\=b=c
    """
    parts = (
        _escaped(attribute, r"\,=") + "=" + _escaped(value, r"\,") for attribute, value in values
    )
    return ",".join(parts) or "all"


def _escaped(name: str, syntax: str) -> str:
    return "".join(f"\\{sign}" if sign in syntax else sign for sign in name)
