"""PASS, UNSURE or FAIL: from the numbers of an audit to a decision that can be defended.

FAIL says that harm beyond a margin is shown, PASS that it is ruled out, each at a stated risk of
being wrong; UNSURE says neither, and what would settle it.
"""

from __future__ import annotations

from scotoma.verdict.deciding import decide
from scotoma.verdict.evidence import AuditRows, Rise
from scotoma.verdict.gate import applied_rules, exit_code, judge
from scotoma.verdict.question import Question, rise_question
from scotoma.verdict.rules import questions

__all__ = [
    "AuditRows",
    "Question",
    "Rise",
    "applied_rules",
    "decide",
    "exit_code",
    "judge",
    "questions",
    "rise_question",
]
