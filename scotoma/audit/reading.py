"""How audit.json, gate.json and their parts are read and written: whole, typed, or not at all."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from scotoma.audit.document import VERSION, Audit
from scotoma.audit.gate import GATE_VERSION, GateFile, GateResult
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.storage.files import open_regular, written

LIMIT_BYTES = 1 << 30
WAY_OUT = "run the audit again with this version"
# Keys of an audit that are absent where there is nothing of the kind.
ABSENT = ("class_rates", "robustness", "labels", "strata", "scores")
SHOWN = 60  # characters of a value that a message quotes
Content = TypeVar("Content")


def read_audit(path: Path, shown: str | None = None) -> Audit:
    """Read an audit.json.

    Args:
        path: The file.
        shown: What a message calls it; None for the path.

    Raises:
        DataError: It is not there, or not an audit that this version reads.
    """
    name = shown or str(path)
    return parse_audit(_content(path, name), name)


def parse_audit(content: bytes, shown: str) -> Audit:
    """Read the bytes of an audit.json.

    Args:
        content: The bytes.
        shown: What a message calls the file.

    Raises:
        DataError: It is not an audit that this version reads.

    >>> parse_audit(b'{"version": 1}', "run/audit.json")
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: run/audit.json must have version 3, got 1; run the audit again \
with this version
    """
    try:
        return _audit(content)
    except ValidationError as error:
        raise DataError(f"{_refusal(error, shown, VERSION)}; {WAY_OUT}") from None


@lru_cache(maxsize=1)
def _audit(content: bytes) -> Audit:
    """Parse what the steps after one another read: verdict, page, logging. It is frozen."""
    return cast(Audit, _adapter(Audit).validate_json(content))


def read_gate(path: Path, shown: str | None = None) -> GateFile:
    """Read a gate.json; arguments and errors as for `read_audit`."""
    name = shown or str(path)
    return parse_gate(_content(path, name), name)


def parse_gate(content: bytes, shown: str) -> GateFile:
    """Read the bytes of a gate.json; arguments and errors as for `parse_audit`."""
    return _parsed(content, GateFile, shown, GATE_VERSION)


def read_part(
    path: Path, kind: type[Content], shown: str | None = None, way_out: str = WAY_OUT
) -> Content:
    """Read a part of an audit that a step left.

    Args:
        path: The file.
        kind: What it holds: a model, or a container of models.
        shown: What a message calls it; None for the path.
        way_out: What a message tells the reader to do.

    Raises:
        DataError: It is not there, or holds something else.
    """
    name = shown or str(path)
    return _parsed(_content(path, name), kind, name, way_out=way_out)


def write_part(path: Path, part: BaseModel) -> None:
    """Write a part of an audit with sorted keys, whole or not at all."""
    with written(path) as temporary:
        temporary.write_text(as_text(part), encoding="utf-8")


def as_text(part: BaseModel) -> str:
    """Spell a part of an audit as JSON: keys sorted, nan as null, infinities by name.

    >>> from scotoma.audit.gate import Margins
    >>> print(as_text(Margins(relative=float("inf"), absolute=None, clearing=0.02)), end="")
    {
     "absolute": null,
     "clearing": 0.02,
     "relative": "inf"
    }
    """
    return _spelled(plain(part), "\n") + "\n"


def _spelled(value: Any, line: str) -> str:
    r"""Write JSON as `json.dumps(value, indent=1, sort_keys=True)` does, which is slow.

    Only without `indent` is Python's encoder compiled: it writes what holds no containers.

    Args:
        value: Plain JSON.
        line: Line break and indentation of the line that it stands in.

    >>> _spelled({"b": [1.5, None], "a": {}}, "\n") == json.dumps(
    ...     {"b": [1.5, None], "a": {}}, indent=1, sort_keys=True)
    True
    """
    inner = f"{line} "
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)) or not value:
        return _compact(value, inner)
    if not any(isinstance(item, (dict, list)) for item in items):
        text = _compact(value, inner)
        return f"{text[0]}{inner}{text[1:-1]}{line}{text[-1]}"
    if isinstance(value, list):
        parts = [_spelled(item, inner) for item in value]
    else:
        parts = [f"{_compact(key, inner)}: {_spelled(value[key], inner)}" for key in sorted(value)]
    opened, closed = "[]" if isinstance(value, list) else "{}"
    return f"{opened}{inner}{f',{inner}'.join(parts)}{line}{closed}"


def _compact(value: Any, inner: str) -> str:
    separators = (f",{inner}", ": ")
    return json.dumps(
        value, separators=separators, sort_keys=True, allow_nan=False, ensure_ascii=False
    )


def plain(part: BaseModel) -> dict[str, Any]:
    """Convert a part of an audit to plain JSON values, to put into a larger file."""
    value: dict[str, Any] = _named_infinities(part.model_dump(mode="json", by_alias=True))
    for variant in value.get("variants", ()) if isinstance(part, GateResult) else ():
        if not variant["blocked"]:
            del variant["blocked"]
    if isinstance(part, Audit) and not part.collapsed:
        del value["collapsed"]
    if isinstance(part, Audit) and part.labelled:
        del value["examples"]["unlabelled"]
    if isinstance(part, Audit):
        for key in ABSENT:
            if value[key] is None:
                del value[key]
    return value


def _named_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _named_infinities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_named_infinities(item) for item in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value


def _content(path: Path, shown: str) -> bytes:
    if not path.is_file():
        raise DataError(f"{shown} is not there; let scotoma audit end first")
    if (size := path.stat().st_size) > LIMIT_BYTES:
        raise DataError(
            f"{shown} must have at most {LIMIT_BYTES:,} bytes, got {size:,}; audit fewer groups"
        )
    with open_regular(path) as file:
        return file.read()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _parsed(
    content: bytes, kind: type[Content], shown: str, version: int = 0, way_out: str = WAY_OUT
) -> Content:
    try:
        parsed: Content = _adapter(cast(Any, kind)).validate_json(content)
    except ValidationError as error:
        raise DataError(f"{_refusal(error, shown, version)}; {way_out}") from None
    return parsed


def _refusal(error: ValidationError, shown: str, version: int) -> str:
    """The first fault as a sentence; that of the version goes before all others."""
    faults = error.errors(include_url=False)
    fault = next((one for one in faults if version and one["loc"] == ("version",)), faults[0])
    place = ".".join(map(str, fault["loc"]))
    if fault["type"] == "json_invalid":
        return f"{shown} must be JSON that scotoma audit wrote, got something else"
    if place == "version":
        value = "none" if fault["type"] == "missing" else _quoted(fault["input"])
        return f"{shown} must have version {version}, got {value}"
    if fault["type"] == "value_error":
        return f"{shown}: {place}{' ' if place else ''}{fault['ctx']['error']}"
    if fault["type"] == "missing":
        return f"{shown} must hold {place}, got none"
    if fault["type"] == "extra_forbidden":
        return f"{shown} must not hold {place}"
    rule = fault["msg"].partition("should ")[2] or fault["msg"]
    subject = place or "the content"
    return f"{shown}: {subject} should {rule}, got {_quoted(fault['input'])}"


def _quoted(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(type(value).__name__)
    return printable(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


@dataclass(frozen=True)
class LoggedAudit:
    """One audit of a project.

    Attributes:
        at: When it was logged, UTC.
        state: `finished`, `failed` or `skipped`.
        run: Id of the run that stands for it.
        reason: Why it has no result, as a sentence; else empty.
        audit: Its audit.json; None where this version reads none.
        gate: Its gate.json, likewise.
        page: Address of that run's page; empty where no server serves it.
        report: Address of the report; empty where there is none.
        data_date: Day or month that its data are from, YYYY-MM-DD or YYYY-MM; else empty.
    """

    at: datetime.datetime
    state: str
    run: str
    reason: str = ""
    audit: Audit | None = None
    gate: GateFile | None = None
    page: str = ""
    report: str = ""
    data_date: str = ""

    def with_files(self, audit: bytes, gate: bytes) -> LoggedAudit:
        """Read the files of a finished audit; `reason` says why one of them cannot be read.

        Args:
            audit: Content of its audit.json.
            gate: Content of its gate.json.
        """
        try:
            return replace(
                self, audit=parse_audit(audit, "audit.json"), gate=parse_gate(gate, "gate.json")
            )
        except DataError as error:
            return replace(self, reason=str(error))
