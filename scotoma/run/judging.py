"""What a run is judged by, as it was asked for when the run began."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass

from scotoma.config.gate import GateRules
from scotoma.run import Run, read_json, write_json


@dataclass(frozen=True)
class Judging:
    """What a run is judged by, as it was asked for when the run was started.

    Attributes:
        rules: The gate; None for the default rules.
        as_of: Day that decides which waivers have expired.
    """

    rules: GateRules | None
    as_of: datetime.date

    @classmethod
    def of(cls, run: Run) -> Judging:
        """What was left in the run's folder; without it the default rules, today."""
        path = run.path("judging.json")
        run.fetch(path)
        if not path.exists():
            return cls(None, datetime.date.today())
        found = read_json(path)
        rules = found["rules"] and GateRules.model_validate_json(json.dumps(found["rules"]))
        return cls(rules, datetime.date.fromisoformat(found["as_of"]))

    def leave(self, run: Run) -> None:
        """Leave it in the run's folder, for the step that judges."""
        rules = self.rules and self.rules.model_dump(mode="json", exclude_unset=True)
        write_json(run.path("judging.json"), {"rules": rules, "as_of": self.as_of.isoformat()})
        run.publish(run.path("judging.json"))

    @property
    def digest(self) -> str:
        """SHA-256 of what decides the verdict: the day counts where something expires by it."""
        waived = self.rules is not None and bool(self.rules.waivers)
        rules = "" if self.rules is None else self.rules.model_dump_json(exclude_unset=True)
        return hashlib.sha256(f"{rules}/{self.as_of if waived else ''}".encode()).hexdigest()
