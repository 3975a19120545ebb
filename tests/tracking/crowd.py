"""A made-up audit of many members."""

from __future__ import annotations

from typing import Any

from scotoma.run import Run, read_json, write_json

__all__ = ["crowd"]


def crowd(run: Run, audit: dict[str, Any], members: int) -> dict[str, Any]:
    """The same audit with that many members a variant, each with weights of its own.

    Args:
        run: With manifests of a few members, which are written anew.
        audit: Content of audit.json.
        members: A variant.
    """
    for name, accuracy in audit["accuracy"].items():
        path = run.population(name) / "manifest.json"
        first = read_json(path)["members"][0]
        found = [
            {**first, "index": k, "seed": 2**63 + k, "sha256": f"{name}-{k}".encode().hex()}
            for k in range(members)
        ]
        write_json(path, {"members": found})
        accuracy["members"] = [0.9 - k / 10_000 for k in range(members)]
    return audit
