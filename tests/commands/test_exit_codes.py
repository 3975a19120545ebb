"""How a command ends says what happened; no fault ends with 1, which is a verdict."""

from __future__ import annotations

import pytest

from scotoma.commands import gate
from scotoma.commands.asking import Answer
from scotoma.errors import ConfigError, DataError, MissingExtra, ScotomaError
from tests.helpers.commands import scotoma

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (ConfigError("rules must be there"), 2, "scotoma: rules must be there\n"),
        (MissingExtra("mlflow is missing"), 2, "scotoma: mlflow is missing\n"),
        (DataError("audit.json must be whole"), 4, "scotoma: audit.json must be whole\n"),
        (ScotomaError("a step fell"), 5, "scotoma: a step fell\n"),
        (OSError(28, "No space left"), 5, "scotoma: [Errno 28] No space left; free the path or "),
        (ZeroDivisionError("x"), 5, "Traceback (most recent call last):\n"),
        (AssertionError(), 5, "Traceback (most recent call last):\n"),
        (
            KeyboardInterrupt(),
            130,
            "scotoma: interrupted; repeat the command to resume\n",
        ),
        (EOFError(), 5, "Traceback (most recent call last):\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_fault_ends_with_its_own_code(
    fault: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall(options: gate.GateOptions) -> Answer:
        raise fault

    monkeypatch.setattr(gate, "gate", fall)
    found, out, err = scotoma("gate", "run")
    assert (found, out) == (code, "")
    assert err.startswith(said)


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_verdict_ends_as_it_is(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(options: gate.GateOptions) -> Answer:
        return Answer("", exit_code=code)

    monkeypatch.setattr(gate, "gate", judge)
    assert scotoma("gate", "run")[0] == code


@pytest.mark.parametrize("arguments", [["gate"], ["gate", "run", "--no-such"], ["nonsense"]])
def test_usage_that_cannot_be_ends_with_2(arguments: list[str]) -> None:
    assert scotoma(*arguments)[0] == 2
