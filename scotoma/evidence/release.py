"""What is released, which audit it rests on, and every number that goes into a file about it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal

from scotoma.audit import Audit, GateFile, Quantity
from scotoma.audit.document import DENSE, AuditedVariant
from scotoma.audit.gate import JudgedVariant

ALL = "all"
METRICS = {"error": "error rate", "fpr": "false positive rate", "fnr": "false negative rate"}
Side = Literal["compressed", "baseline", "change"]
# Names of the standards' identifiers are made from this one, so that equal audits give equal ones.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://spdx.org/rdf/scotoma")


@dataclass(frozen=True)
class ModelFile:
    """The file that is released.

    Attributes:
        name: Its name, without folders.
        sha256: SHA-256 of its content, hexadecimal.
        size_bytes: Its size.
        member: Which audited model it is; None where the audit has no copy of it, as of predictions
            alone.
    """

    name: str
    sha256: str
    size_bytes: int
    member: int | None


@dataclass(frozen=True)
class Release:
    """One model, and the audit that speaks of it.

    Attributes:
        model: The file that is released.
        audit: The audit.
        gate: The verdict on it.
        audit_sha256: SHA-256 of audit.json.
        gate_sha256: SHA-256 of gate.json.
        config_sha256: SHA-256 of config.yaml.
        variant: Which variant of the audit the model belongs to.
        seeds: Training seeds of the variant's models, in their order; empty where they are not
            known.
    """

    model: ModelFile
    audit: Audit
    gate: GateFile
    audit_sha256: str
    gate_sha256: str
    config_sha256: str
    variant: AuditedVariant
    seeds: tuple[int, ...]

    @property
    def judged(self) -> JudgedVariant:
        """The verdict on the model's variant."""
        return next(one for one in self.gate.variants if one.name == self.variant.name)

    @property
    def day(self) -> str:
        """The day of the verdict, YYYY-MM-DD: the only date in the files."""
        return self.gate.as_of.isoformat()

    @property
    def binding(self) -> str:
        """In one sentence, how the file and the audit belong together."""
        if self.model.member is not None and self.variant.members == 1:
            return f"The file is the model of {self.variant.name} in the audit, byte for byte."
        if self.model.member is not None:
            return (
                f"The file is model {self.model.member} of the {self.variant.members} models of "
                f"{self.variant.name} in the audit, byte for byte."
            )
        return (
            "The audit rests on predictions and holds no model: whoever wrote this file says that "
            f"they are those of {self.variant.name}."
        )

    def identifier(self, name: str) -> str:
        """A UUID that is the same for the same model, audit and verdict.

        Args:
            name: What it identifies.
        """
        parts = (self.model.sha256, self.audit_sha256, self.gate_sha256, name)
        return str(uuid.uuid5(NAMESPACE, "/".join(parts)))


@dataclass(frozen=True)
class Measurement:
    """One number of the released model's variant, as every format takes it.

    Attributes:
        metric: What is measured, in words.
        of: `compressed` for the variant itself, `baseline` for what it is compared with, `change`
            for compressed - baseline.
        group: Key of the group; `all` for all examples.
        group_name: What readers call it.
        quantity: The number, a fraction or a difference of fractions, with interval and n.
    """

    metric: str
    of: Side
    group: str
    group_name: str
    quantity: Quantity

    @property
    def name(self) -> str:
        """The metric and whose it is: `error rate, change`."""
        return self.metric if self.of == "compressed" else f"{self.metric}, {self.of}"


def measurements(release: Release) -> list[Measurement]:
    """List the numbers about a released model: accuracy, error rates of groups, changed labels.

    Args:
        release: The model and its audit.

    Returns:
        Accuracy first, then every rate of every group (of single classes only those of the positive
        class), each for the variant, for the baseline and as a change; last the CIE excess, which
        an audit without labels has alone. Undefined numbers are among them, with their reason.
    """
    audit, name = release.audit, release.variant.name
    names = audit.group_names
    rows: list[Measurement] = []
    sides: tuple[tuple[Side, str], ...] = (("compressed", name), ("baseline", DENSE))
    for of, variant in sides:
        if (top1 := audit.number("accuracy", variant, "top1")) is not None:
            rows.append(Measurement("top-1 accuracy", of, ALL, names[ALL], top1))
    parts: dict[Side, str] = {
        "compressed": "compressed", "baseline": "dense", "change": "absolute"
    }  # fmt: skip
    for at in audit.at("rates", name, class_name=None):
        for of, what in parts.items():
            group = str(at[what].group)
            metric = METRICS[str(at[what].metric)]
            rows.append(Measurement(metric, of, group, names[group], at[what].number))
    rows += [
        Measurement("CIE excess", "change", ALL, names[ALL], row.number)
        for row in audit.numbers("divergence", name, what="cie.excess")
    ]
    return rows
