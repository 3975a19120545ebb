"""What is the key of a group, and what does a key say? The same in every result."""

from __future__ import annotations

from collections.abc import Iterable


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


def parse_group_key(key: str) -> tuple[tuple[str, str], ...]:
    r"""Read attributes and values out of a key of `group_key`; none for `all`.

    >>> parse_group_key("sex=male,age=old"), parse_group_key("all")
    ((('sex', 'male'), ('age', 'old')), ())
    >>> parse_group_key(r"income=>=50K\, net")
    (('income', '>=50K, net'),)
    """
    parts: list[list[str]] = [[""]]
    signs = iter("" if key == "all" else key)
    for sign in signs:
        if sign == "\\":
            parts[-1][-1] += next(signs, "")
        elif sign == ",":
            parts.append([""])
        elif sign == "=" and len(parts[-1]) == 1:
            parts[-1].append("")
        else:
            parts[-1][-1] += sign
    return tuple((part[0], part[1]) for part in parts if len(part) == 2)


def _escaped(name: str, syntax: str) -> str:
    return "".join(f"\\{sign}" if sign in syntax else sign for sign in name)
