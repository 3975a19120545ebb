"""Does the test find a planted loss of one group, hold its size, and cover the truth?

Run `python benchmarks/robustness.py`. Each audit draws right answers of 10 + 10 members on 2,000
examples under four families of corruptions at three severities; an extra loss under noise is
planted in a group of 500, as large as `scotoma audit --plan` says can be found.
"""

from __future__ import annotations

import sys

import numpy as np

from scotoma.robustness.losses import (
    amplified_loss,
    group_contrast,
    group_tests,
    planted_robustness,
    smallest_contrast,
)

AUDITS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
EXAMPLES, GROUP, MEMBERS, SEVERITIES = 2_000, 500, 10, 3
FAMILIES = {"noise": 3, "blur": 4, "weather": 4, "digital": 4}
KEYS = {f"age={age}": slice(GROUP * age, GROUP * (age + 1)) for age in range(4)}


def audited(extra: float, seed: int) -> tuple[dict[tuple[str, str], float], bool, bool]:
    """Adjusted p-values, and whether the intervals of noise cover: the group's, all examples'."""
    masks = {key: np.zeros(EXAMPLES, np.bool_) for key in KEYS}
    for key, rows in KEYS.items():
        masks[key][rows] = True
    first = masks["age=0"]
    dense, compressed = planted_robustness(
        first, extra=extra, members=MEMBERS, families=tuple(FAMILIES.values()),
        severities=SEVERITIES, seed=seed,
    )  # fmt: skip
    ends = np.cumsum(list(FAMILIES.values()))
    contrasts, whole = {}, None
    for family, end in zip(FAMILIES, ends, strict=True):
        places = range(end - FAMILIES[family], end)
        own = dense.under(places), compressed.under(places)
        if family == "noise":
            whole = amplified_loss(own[0].means(), own[1].means(), "absolute")[0]
        contrasts |= {(key, family): group_contrast(*own, mask) for key, mask in masks.items()}
    one = contrasts["age=0", "noise"]
    tests = {key: adjusted for key, (_, adjusted) in group_tests(contrasts).items()}
    assert whole is not None
    return (
        tests,
        one.low <= extra <= one.high,
        whole.low <= extra * GROUP / EXAMPLES <= whole.high,
    )


def main() -> None:
    """Print the shares."""
    effect = smallest_contrast(
        GROUP, EXAMPLES - GROUP, members=MEMBERS, corruptions=FAMILIES["noise"],
        severities=SEVERITIES, tests=len(KEYS) * len(FAMILIES),
    )  # fmt: skip
    for name, extra in (("planted", effect), ("none planted", 0.0)):
        audits = [audited(extra, seed) for seed in range(AUDITS)]
        found = sum(tests["age=0", "noise"] <= 0.05 for tests, *_ in audits)
        alarms = sum(min(tests.values()) <= 0.05 for tests, *_ in audits)
        shown = f"found in {found}" if extra else f"a false alarm in {alarms}"
        print(
            f"{name} ({100 * extra:.1f} points): {shown} of {AUDITS}; the interval covers for the "
            f"group {sum(one for _, one, _ in audits)}, for all {sum(a for *_, a in audits)}"
        )


if __name__ == "__main__":
    main()
