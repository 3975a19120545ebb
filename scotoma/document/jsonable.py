"""How results become JSON: every number bare, nan as null beside its reason."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from typing import Any

import numpy as np


def jsonable(value: Any) -> Any:
    """Dataclasses, arrays and containers as what `json` can write.

    Args:
        value: Dataclasses become objects (by their own `as_dict` where they have one), arrays
            lists, numpy numbers numbers, times ISO 8601.

    Returns:
        The same in dicts, lists, strings, numbers and None; nan and infinities become None, since
        JSON has neither.

    >>> jsonable({"share": np.float64(0.5), "low": float("nan"), "ids": np.array([1, 2])})
    {'share': 0.5, 'low': None, 'ids': [1, 2]}
    """
    if type(value) in (str, int, bool, type(None)):  # most values: none of what follows
        return value
    if hasattr(value, "as_dict"):
        return jsonable(value.as_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, Enum):
        return jsonable(value.value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
