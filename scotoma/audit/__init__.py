"""What are audit.json and gate.json? Types, through which alone they are written and read.

Every key has a description; `scotoma show schema audit` and `scotoma show schema verdict` print the
JSON schemas, and docs/results.md is generated from them.
"""

from __future__ import annotations

from scotoma.audit.base import Quantity, Spread
from scotoma.audit.document import Audit
from scotoma.audit.gate import GateFile, GateResult
from scotoma.audit.reading import (
    as_text,
    parse_audit,
    parse_gate,
    plain,
    read_audit,
    read_gate,
    read_part,
    write_part,
)

__all__ = [
    "Audit",
    "GateFile",
    "GateResult",
    "Quantity",
    "Spread",
    "as_text",
    "parse_audit",
    "parse_gate",
    "plain",
    "read_audit",
    "read_gate",
    "read_part",
    "write_part",
]
