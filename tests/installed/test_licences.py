"""Whoever may use Scotoma may use what is installed with it: no licence asks for more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# As SPDX, classifiers and free text name them. MPL-2.0 binds who changes a package's own files.
ALLOWED = re.compile(
    r"(The )?(MIT|(0|3-Clause )?BSD|Apache|ISC|PSF|Python Software Foundation|Zlib|BSL-1\.0"
    r"|CC0-1\.0|MPL-2\.0|Mozilla Public License 2\.0)\b.*"
)
NVIDIA = re.compile(r"LicenseRef-NVIDIA-Proprietary|NVIDIA Proprietary Software")
# Their metadata say nothing; their licence files do.
SILENT = {"huey": "MIT", "skops": "MIT", "cuda-toolkit": "LicenseRef-NVIDIA-Proprietary"}


def installed(
    name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]
) -> Iterator[Distribution]:
    """A distribution and all that it requires on this machine."""
    if (canonicalize_name(name), extras) in seen:
        return
    seen.add((canonicalize_name(name), extras))
    found = distribution(name)
    yield found
    for text in found.requires or ():
        needed = Requirement(text)
        marker = needed.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield from installed(needed.name, frozenset(needed.extras), seen)


def licences(found: Distribution) -> list[str]:
    """What a distribution says of its licence, alternatives and parts each by itself."""
    about = found.metadata
    if canonicalize_name(found.name) in SILENT:
        return [SILENT[canonicalize_name(found.name)]]
    classifiers = about.get_all("Classifier") or []
    said = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License :: ")]
    said = [about["License-Expression"]] if "License-Expression" in about else said
    said = said or [(about.get("License") or "").splitlines()[0]]
    return [part for text in said for part in re.split(r" (?:AND|OR) ", text)]


def test_every_licence_is_allowed_or_nvidias_for_its_own_gpus() -> None:
    every = {canonicalize_name(d.name): d for d in installed("scotoma", frozenset({"all"}), set())}
    assert len(every) > 50
    for name, found in every.items():
        for licence in licences(found):
            of_gpus = name.startswith(("nvidia-", "cuda-")) and NVIDIA.fullmatch(licence)
            assert ALLOWED.fullmatch(licence) or of_gpus, f"{name}: {licence}"
