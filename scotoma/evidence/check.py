"""Does a test result speak of this run and of one of its models, and who signed it?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma.audit import read_gate
from scotoma.errors import DataError
from scotoma.evidence.envelope import open_envelope, public_key
from scotoma.evidence.in_toto import PAYLOAD_TYPE, PREDICATE, RESULTS
from scotoma.evidence.write import audited_model, model_digest, small_file
from scotoma.run import Run
from scotoma.storage.files import file_digest

FILES = ("config.yaml", "audit.json", "gate.json")
VERDICTS = {result: verdict for verdict, result in RESULTS.items()}


@dataclass(frozen=True)
class CheckedEvidence:
    """Valid evidence: it rests on this run, whatever the verdict that it states.

    Attributes:
        verdict: PASS, UNSURE or FAIL, as it states.
        subject: Name of the model.
        sha256: Digest of the model.
        signed: Whether the key that was named has signed it.
    """

    verdict: str
    subject: str
    sha256: str
    signed: bool

    def sentence(self) -> str:
        """Say that it is valid, and what it states.

        >>> print(CheckedEvidence("FAIL", "int8.onnx", "0123456789abcdef", True).sentence())
        evidence valid, signed by this key; its verdict is FAIL for int8.onnx (SHA-256 0123456789ab)
        """
        whose = "signed by this key" if self.signed else "signature not checked (--key checks it)"
        return (
            f"evidence valid, {whose}; its verdict is {self.verdict} for {self.subject} "
            f"(SHA-256 {self.sha256[:12]})"
        )


def check_evidence(
    run: Run, evidence: Path, key: Path | None, model: Path | None = None
) -> CheckedEvidence:
    """Hold a test result against the run that it is said to rest on.

    Args:
        run: The finished audit.
        evidence: The in-toto envelope that `scotoma evidence` wrote.
        key: PEM of the public key that must have signed it; None to check no signature.
        model: The file that it must speak of, by its SHA-256; None to compare none.

    Returns:
        What it states.

    Raises:
        ConfigError: A file cannot be read.
        DataError: The envelope is broken, not signed by the key, or speaks of another run.
    """
    trusted = None if key is None else public_key(small_file(key, "--key"), str(key))
    payload, signed = open_envelope(
        small_file(evidence, "--evidence"), PAYLOAD_TYPE, trusted, str(evidence)
    )
    statement = _statement(payload, evidence)
    subject, predicate = statement["subject"][0], statement["predicate"]
    stated = {row["name"]: row["digest"]["sha256"] for row in predicate["configuration"]}
    run.fetch(*(run.path(name) for name in FILES))
    for name in FILES:
        if stated.get(name) != file_digest(run.path(name)):
            raise DataError(
                f"{evidence} speaks of another {name} than {run.place} holds; name the run that "
                "it was made from"
            )
    digest = subject["digest"]["sha256"]
    if model is not None and (own := model_digest(model)) != digest:
        raise DataError(
            f"{evidence} speaks of SHA-256 {digest[:12]}, and --model {model} has {own[:12]}; do "
            "not release this file on it"
        )
    match = audited_model(run, digest)
    if match is None and not run.config.source.has_answers:
        raise DataError(
            f"{evidence} speaks of SHA-256 {digest[:12]}, which no model of {run.place} has; do "
            "not trust it"
        )
    verdicts: dict[str, str] = {
        one.name: one.verdict for one in read_gate(run.path("gate.json")).variants
    }
    if match is not None:
        verdicts = {match[0]: verdicts.get(match[0], "none")}
    if VERDICTS[predicate["result"]] not in verdicts.values():
        told = ", ".join(f"{verdict} for {name}" for name, verdict in verdicts.items())
        raise DataError(
            f"{evidence} says {predicate['result']}, and gate.json says {told}; do not trust it"
        )
    return CheckedEvidence(VERDICTS[predicate["result"]], subject["name"], digest, signed)


def _statement(payload: bytes, evidence: Path) -> dict[str, Any]:
    """The statement, if it has the parts that are read here."""
    try:
        statement = json.loads(payload)
        digests = [statement["subject"][0]["digest"]["sha256"]]
        digests += [row["digest"]["sha256"] for row in statement["predicate"]["configuration"]]
        names = [statement["subject"][0]["name"], statement["predicate"]["result"]]
        names += [row["name"] for row in statement["predicate"]["configuration"]]
        whole = all(isinstance(text, str) for text in digests + names)
        if whole and statement["predicateType"] == PREDICATE and names[1] in VERDICTS:
            return dict(statement)
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise DataError(
        f"{evidence} must hold an in-toto test result, got another statement; name a file that "
        "scotoma evidence wrote"
    )
