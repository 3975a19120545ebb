"""Read a finished audit, find the released model in it, and write the files about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scotoma.audit import read_gate
from scotoma.audit.document import DENSE
from scotoma.document.text import markdown_text
from scotoma.errors import ConfigError, DataError
from scotoma.evidence.cyclonedx import bill_of_materials
from scotoma.evidence.dossier import dossier
from scotoma.evidence.envelope import private_key, sealed_envelope
from scotoma.evidence.in_toto import PAYLOAD_TYPE, verdict_statement
from scotoma.evidence.release import ModelFile, Release
from scotoma.predictions.finished import FinishedAudit
from scotoma.printable import code_span, printable
from scotoma.report.model_card import model_card
from scotoma.run import Run
from scotoma.storage.files import file_digest, open_regular, read_json, written

TEST_RESULT = "test-result.intoto.json"
LIMIT_BYTES = 1 << 24


def write_evidence(
    run: Run, model: Path, variant: str | None, out: Path, sign: Path | None
) -> tuple[dict[str, Any], str]:
    """Write every file, or none if one of them cannot be made.

    Args:
        run: The finished audit; nothing in it changes.
        model: The file that is released.
        variant: Its variant; None where the audit has its models.
        out: Folder for the files.
        sign: PEM of an Ed25519 private key, or None.

    Returns:
        What JSON says of it, and the same as a sentence.

    Raises:
        ScotomaError: The audit has not ended or was changed, or the model is not part of it.
    """
    key = None if sign is None else private_key(small_file(sign, "--sign"), str(sign))
    finished = FinishedAudit(run)
    _refuse_inside(out, run)
    release = _release(finished, model, variant)
    statement = _json(verdict_statement(release)).encode()
    texts = {
        "bom.cdx.json": _json(bill_of_materials(release)),
        TEST_RESULT: _json(sealed_envelope(PAYLOAD_TYPE, statement, key)),
        "model-card.md": card_section(release),
        "dossier.md": markdown_text(dossier(release)),
    }
    for name, text in texts.items():
        _write(out / name, text.encode())
    verdict, name = release.judged.verdict, release.variant.name
    files = [str(out / name) for name in texts]
    content = {"version": 1, "verdict": verdict, "variant": name, "signed": key is not None}
    signed = "signed" if key else "not signed; --sign KEY signs it"
    return content | {"files": files}, (
        f"{verdict} for {printable(name)}; {len(texts)} files in {printable(str(out))}; the test "
        f"result is {signed}"
    )


def audited_model(run: Run, sha256: str) -> tuple[str, dict[str, Any]] | None:
    """Find the model with a SHA-256 among those of an audit.

    Args:
        run: The audit.
        sha256: Of its file, hexadecimal.

    Returns:
        Its variant and its row of manifest.json; None if no model of the audit has it.
    """
    for variant in run.config.resolved_variants:
        for row in _members(run, variant.name):
            if row.get("sha256") == sha256:
                return variant.name, row
    return None


def _members(run: Run, variant: str) -> list[dict[str, Any]]:
    path = run.population(variant) / "manifest.json"
    run.fetch(path)
    return list(read_json(path)["members"]) if path.is_file() else []


def _release(finished: FinishedAudit, model: Path, variant: str | None) -> Release:
    """Bind the model's file to the variant that it is a member of."""
    run, audit = finished.run, finished.audit
    gate_file = finished.file(run.path("gate.json"))
    digest = model_digest(model)
    match = audited_model(run, digest)
    rows = {one.name: one for one in audit.variants}
    if match is None:
        if not run.config.source.has_answers:
            raise ConfigError(
                f"--model {model} must be a model of the audit, got SHA-256 {digest[:12]}, which "
                f"none of them has; name a file below {run.place}/populations, or audit this one"
            )
        if variant is None:
            raise ConfigError(
                "--variant must say which variant --model belongs to, for the audit has "
                f"predictions and no models; name one of {', '.join(list(rows)[1:])}"
            )
    name = variant if match is None else match[0]
    if match is not None and variant not in (None, name):
        raise ConfigError(f"--variant must be {name}, which --model belongs to, got {variant}")
    if name == DENSE or name not in rows:
        raise ConfigError(
            f"--model must be of a compressed variant, got {name}, on which there is no verdict; "
            f"name a model of {', '.join(list(rows)[1:])}"
        )
    member = None if match is None else match[1]
    seeds = [row.get("seed") for row in _members(run, name)]
    return Release(
        model=ModelFile(
            name=model.name,
            sha256=digest,
            size_bytes=model.stat().st_size,
            member=None if member is None else member["index"],
        ),
        audit=audit,
        gate=read_gate(gate_file, run.mirror.place(gate_file)),
        audit_sha256=file_digest(finished.file(run.path("audit.json"))),
        gate_sha256=file_digest(gate_file),
        config_sha256=file_digest(finished.file(run.path("config.yaml"))),
        variant=rows[name],
        seeds=tuple(seed for seed in seeds if isinstance(seed, int)),
    )


def _refuse_inside(out: Path, run: Run) -> None:
    if not run.uri and out.resolve().is_relative_to(run.root.resolve()):
        raise ConfigError(
            f"--out must be outside the run, whose files are sealed, got {out}; choose another"
        )


def small_file(path: Path, option: str) -> bytes:
    """Read a key or a statement.

    Args:
        path: The file.
        option: That named it.

    Raises:
        ConfigError: It cannot be read.
        DataError: It is too large.
    """
    try:
        with open_regular(path) as file:
            content = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read: {error.strerror}") from None
    if len(content) > LIMIT_BYTES:
        raise DataError(f"{option} {path} must be under {LIMIT_BYTES >> 20} MiB; name another file")
    return content


def model_digest(model: Path) -> str:
    """SHA-256 of the model that is released."""
    if not model.is_file():
        raise ConfigError(f"--model must be a file, got {model}; name the model that is released")
    return file_digest(model)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, content: bytes) -> None:
    with written(path) as temporary:
        temporary.write_bytes(content)


def card_section(release: Release) -> str:
    """Write the section of a model card about this model: the audit's table, bound to the file.

    Args:
        release: The model and its audit.

    Returns:
        Markdown in which names are code, so that nothing in them is markup.
    """
    model = release.model
    return (
        f"{model_card(release.audit, release.gate)}\n"
        f"This model: {code_span(model.name)}, variant {code_span(release.variant.name)}, "
        f"SHA-256 `{model.sha256}`. {release.binding} Verdict of the variant: "
        f"{release.judged.verdict} ({release.day}); audit.json has SHA-256 "
        f"`{release.audit_sha256}`.\n"
    )
