"""Golden rows: every number of planted audits, held at 1e-9 while the house is rebuilt around them.

After a wanted change: SCOTOMA_GOLDEN=1 pytest tests/golden writes the rows that changed anew. An
address that leaves for good gets a line in `LEFT`.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.golden.addresses import FIELDS, Address, Rows, Value, rows_of
from tests.golden.planted import PLANTED

pytestmark = pytest.mark.slow

ROWS = Path(__file__).parent / "rows"
RELATIVE = 1e-9
ABSOLUTE = 1e-13  # rounding in differences of fractions, and in tails of p-values
TINY = 1e-16  # the same in variances, which are squares
ENDLESS = 1e12  # degrees of freedom from which rounding makes them endless
SHOWN = 10

# Addresses that left on purpose: a pattern (`*` for anything), and why.
LEFT: tuple[tuple[str, str], ...] = (
    ("rates / * / examples", "n of its numbers; where there are clusters, their number"),
    ("rates / * / dense_variance.*", "se and df of the rate, on its scale"),
    ("rates / * / compressed_variance.*", "se and df of the rate, on its scale"),
    ("* / spread*.runs", "a spread is a row, whose n are its runs"),
    ("variance * / *runs", "a comparison is a row, whose n are the runs of both sides"),
    ("variance * / effect", "a word for Cohen's d, which is a row"),
    ("variance * / tests_in_family", "the rows of p-values are the family"),
)


@dataclass(frozen=True)
class Difference:
    """A number that is not what it was; `old` or `new` is None where it is undefined."""

    address: Address
    field: str
    old: Value
    new: Value

    @property
    def size(self) -> float:
        """How far the two are apart, as a share of the larger one."""
        if not isinstance(self.old, float) or not isinstance(self.new, float):
            return math.inf
        if self.old == self.new:
            return 0.0
        scale = max(abs(self.old), abs(self.new))
        return math.inf if math.isinf(scale) else abs(self.old - self.new) / scale

    @property
    def matters(self) -> bool:
        """Whether rounding cannot be the reason."""
        if self.old == self.new:
            return False
        if not math.isfinite(self.size):
            return True
        assert isinstance(self.old, float)
        assert isinstance(self.new, float)
        of_df = "df" in (self.field, self.address.what.rpartition(".")[2])
        if of_df and min(self.old, self.new) > ENDLESS:
            return False
        floor = TINY if "variance" in self.address.what else ABSOLUTE
        return abs(self.old - self.new) > floor and self.size > RELATIVE

    def __str__(self) -> str:
        """Address, field, old and new on a line."""
        return f"{self.address} . {self.field}: {_shown(self.old)} -> {_shown(self.new)}"


@pytest.mark.parametrize("name", PLANTED)
def test_every_number_of_a_planted_audit_is_what_it_was(name: str, tmp_path: Path) -> None:
    found = rows_of(PLANTED[name](tmp_path))
    path = ROWS / f"{name}.csv.gz"
    rewriting = bool(os.environ.get("SCOTOMA_GOLDEN"))
    assert rewriting or path.exists(), f"{path.name} is missing; SCOTOMA_GOLDEN=1 writes it"
    golden = read_rows(path) if path.exists() else {}
    wrong = differences(golden, found)
    if rewriting:
        if wrong or golden.keys() != found.keys():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(written(found))
        return
    worst = sorted(wrong, key=lambda one: -one.size)[:SHOWN]
    lines = "\n".join(map(str, worst))
    if wrong:
        pytest.fail(f"{len(wrong)} numbers of {name} changed; the worst:\n{lines}", pytrace=False)
    returned = [str(address) for address in found if left(address)]
    assert not returned, f"LEFT names what is still there: {returned[:SHOWN]}"


def differences(golden: Rows, found: Rows) -> list[Difference]:
    """Golden numbers that are others now, or gone; numbers that are new are none."""
    wrong = []
    for address, row in golden.items():
        if left(address):
            continue
        if address not in found:
            if row:  # an undefined number without n or level may as well be left out
                wrong.append(Difference(address, "address", "there", "gone"))
            continue
        for field in FIELDS:
            one = Difference(address, field, row.get(field), found[address].get(field))
            if one.matters:
                wrong.append(one)
    return wrong


def left(address: Address) -> bool:
    """Whether an address left on purpose."""
    return any(fnmatchcase(str(address), pattern) for pattern, _ in LEFT)


def written(rows: Rows) -> bytes:
    """Rows as compressed CSV: an address and its fields on a line; equal rows, equal bytes."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*Address._fields, *FIELDS])
    for address in sorted(rows):
        table.writerow([*address, *(_text(rows[address].get(field)) for field in FIELDS)])
    return gzip.compress(text.getvalue().encode(), mtime=0)


def read_rows(path: Path) -> Rows:
    """The rows of a file."""
    lines = csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
    next(lines)
    parts = len(Address._fields)
    return {
        Address(*line[:parts]): {
            field: _value(text) for field, text in zip(FIELDS, line[parts:], strict=True) if text
        }
        for line in lines
    }


def _text(value: Value) -> str:
    """Twelve digits, a thousandth of what is held."""
    return f"{value:.12g}" if isinstance(value, float) else value or ""


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text


def _shown(value: Value) -> str:
    return "undefined" if value is None else f"{value:.12g}" if isinstance(value, float) else value
