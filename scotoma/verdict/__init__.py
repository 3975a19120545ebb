"""PASS, UNSURE or FAIL: from the numbers of an audit to a decision that can be defended.

FAIL says that harm beyond a margin is shown, PASS that it is ruled out, each at a stated risk of
being wrong; UNSURE says neither, and what would settle it.
"""

from __future__ import annotations

from scotoma.verdict.deciding import Deciding, Finding, Verdict, decide, multipliers
from scotoma.verdict.evidence import AuditRows, Rise
from scotoma.verdict.gate import Gate, VariantVerdict, judge, rules_without_file
from scotoma.verdict.question import Question
from scotoma.verdict.result import gate_file, gate_result
from scotoma.verdict.rules import questions

__all__ = [
    "AuditRows",
    "Deciding",
    "Finding",
    "Gate",
    "Question",
    "Rise",
    "VariantVerdict",
    "Verdict",
    "decide",
    "gate_file",
    "gate_result",
    "judge",
    "multipliers",
    "questions",
    "rules_without_file",
]
