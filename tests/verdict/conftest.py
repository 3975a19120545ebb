"""Audits as audit.json holds them, from predictions whose truth is planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scotoma.bias.subgroup import amplification
from scotoma.divergence import excess
from scotoma.document.jsonable import jsonable
from scotoma.impact import class_impact
from scotoma.power.simulate import PlantedAudit, PlantedGroup, planted_audit
from tests.helpers.audits import class_rows

TOP1 = {"value": 0.95, "low": 0.94, "high": 0.96, "n": 100}
NOTHING = {"value": None, "low": None, "high": None, "reason": "not measured"}


def errors_of(planted: PlantedAudit, *, paired: bool = False) -> dict[str, Any]:
    """An audit of one variant that holds the error of every group and little else."""
    errors = [
        predicted != planted.labels[:, None] for predicted in (planted.dense, planted.compressed)
    ]
    changes = amplification(
        np.zeros(len(planted.labels), int), *(wrong.astype(int) for wrong in errors),
        planted.groups, planted.names, n_classes=2, paired=paired,
    )  # fmt: skip
    rows = [
        {
            "group": change.group,
            "metric": change.metric,
            "class": None,
            **{
                name: getattr(change, name).as_dict()
                for name in (
                    "dense", "compressed", "relative", "absolute", "relative_variance",
                    "absolute_variance",
                )
            },
        }
        for change in changes
        if change.metric == "error" and change.class_id is None
    ]  # fmt: skip
    return audit_of({"prune-0.9": rows}, members=planted.dense.shape[1], groups=planted.names)


def audit_of(
    subgroups: dict[str, list[dict[str, Any]]], *, members: int, groups: list[str]
) -> dict[str, Any]:
    """The parts of audit.json around rows of subgroups."""
    cie = {"count": 7, "low": 5, "high": 9, "ties": 2}
    names = ["dense", *subgroups]
    return {
        "version": 3,
        "scotoma": "0",
        "project": "planted",
        "config_sha256": "c0",
        "scope": "population" if members > 1 else "shipped",
        "level": 0.95,
        "examples": {"test": 100, "clusters": 100, "positive": None, "notes": []},
        "groups": [{"key": group, "name": group, "n": 10} for group in groups],
        "variants": [
            {"name": name, "kind": name.partition("-")[0], "sparsity": 0.9, "members": members}
            for name in names
        ],
        "accuracy": {name: {"top1": TOP1} for name in names},
        "divergence": {
            name: {"cie": {"cie": cie, "n": 100, "votes": 1, "excess": NOTHING, "floor": NOTHING}}
            for name in subgroups
        },
        "rows": {"impact": []},
        "subgroups": subgroups,
    }


@pytest.fixture(scope="session")
def rates_only() -> Callable[..., dict[str, Any]]:
    """Audits that hold the error of every group and little else, made in no time."""
    return errors_of


@pytest.fixture(scope="session")
def whole_audit() -> Callable[..., dict[str, Any]]:
    """All that a verdict reads, measured: groups with a positive class, classes, CIEs."""

    def made(
        relatives: dict[str, float] | None = None,
        *,
        members: int = 10,
        n: int = 1500,
        rate: float = 0.05,
        paired: bool = False,
        variants: tuple[str, ...] = ("prune-0.9",),
        seed: int = 0,
    ) -> dict[str, Any]:
        harmed = relatives or {"men": 0.0, "women": 0.0}
        planted = planted_audit(
            [PlantedGroup(name=k, n=n, rate=rate, relative=r) for k, r in harmed.items()],
            members=members, paired=paired, seed=seed,
        )  # fmt: skip
        names = ["all", *planted.names]
        masks = np.vstack([np.ones(len(planted.labels), bool), planted.groups])
        both = planted.dense, planted.compressed
        changes = amplification(
            planted.labels, *both, masks, names, positive=1, n_classes=2, paired=paired
        )
        impact = class_impact(*both, planted.labels, n_classes=2, paired=paired)
        rows = [jsonable(change) for change in changes]
        audit = audit_of(dict.fromkeys(variants, rows), members=members, groups=names)
        audit["examples"] |= {"positive": "1", "test": len(planted.labels)}
        cie = {"cie": jsonable(excess(*both, 2, paired=paired))}
        audit["divergence"] = dict.fromkeys(variants, cie)
        audit["rows"] = {"impact": [
            row for name in variants for one in impact
            for row in class_rows(name, str(one.class_id), jsonable(one.numbers),
                                  jsonable(one.loss_variance))
        ]}  # fmt: skip
        found: dict[str, Any] = json.loads(json.dumps(audit, allow_nan=False))
        return found

    return made
