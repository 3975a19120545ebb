"""What a run is judged by: as was asked for when it began, or when it was judged last."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from scotoma.config.gate import GateRules, chosen_rules, day
from scotoma.printable import listed
from scotoma.run import Run, checksums, read_json, write_json
from scotoma.run.mirror import Mirror

JUDGING = "judging.json"


@dataclass(frozen=True)
class Judging:
    """What a run is judged by, as it was asked for.

    Attributes:
        rules: The gate; None for the default rules.
        as_of: Day that decides which waivers have expired.
        asked: Whether rules were asked for; else a run that was judged before keeps its own.
    """

    rules: GateRules | None
    as_of: datetime.date
    asked: bool = True

    @classmethod
    def chosen(cls, rules: Path | None, margin: float | None, as_of: str | None) -> Judging:
        """What `--rules`, `--margin` and `--as-of` ask for."""
        asked = rules is not None or margin is not None
        return cls(chosen_rules(rules, margin), day(as_of), asked)

    @classmethod
    def of(cls, run: Run | Mirror) -> Judging:
        """What was left in the run's folder; without it the default rules, today."""
        folder = run if isinstance(run, Mirror) else run.mirror
        path = folder.root / JUDGING
        folder.fetch([path])
        checksums.refuse_changed(folder, [JUDGING])
        if not path.exists():
            return cls(None, datetime.date.today())
        found = read_json(path)
        rules = found["rules"] and GateRules.model_validate_json(json.dumps(found["rules"]))
        return cls(rules, datetime.date.fromisoformat(found["as_of"]))

    def kept(self, run: Run | Mirror) -> Judging:
        """This, by the rules that the run was judged by before where no others are asked for."""
        return self if self.asked else replace(self, rules=Judging.of(run).rules)

    def leave(self, run: Run | Mirror) -> None:
        """Leave it in the run's folder, for the step that judges and for the next verdict."""
        folder = run if isinstance(run, Mirror) else run.mirror
        rules = self.rules and self.rules.model_dump(mode="json", exclude_unset=True)
        path = folder.root / JUDGING
        write_json(path, {"rules": rules, "as_of": self.as_of.isoformat()})
        folder.publish([path])
        checksums.amend(folder, [JUDGING])

    @property
    def words(self) -> str:
        """The rules, for a reader.

        >>> Judging(GateRules(margin=0.02), datetime.date(2027, 3, 1)).words
        'built-in, margin 0.02'
        """
        if self.rules is not None and self.rules.rules:
            return listed([rule.id for rule in self.rules.rules])
        margin = None if self.rules is None else self.rules.margin
        return "built-in" if margin is None else f"built-in, margin {margin:g}"

    @property
    def digest(self) -> str:
        """SHA-256 of what decides the verdict: the day counts where something expires by it."""
        waived = self.rules is not None and bool(self.rules.waivers)
        rules = "" if self.rules is None else self.rules.model_dump_json(exclude_unset=True)
        return hashlib.sha256(f"{rules}/{self.as_of if waived else ''}".encode()).hexdigest()
