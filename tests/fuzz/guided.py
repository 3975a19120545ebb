"""Let coverage choose the inputs of one reader: `python -m tests.fuzz.guided READER [SECONDS]`.

Needs `pip install atheris`. What ends otherwise than in a result or a refusal is kept in the
folder in which temporary files lie, as `fuzz-...`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path


def main(name: str, seconds: str = "60") -> None:
    """Fuzz; libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["scotoma", "yaml"]):  # so not before
        from scotoma.errors import ScotomaError
        from tests.fuzz.targets import CORPUS, TARGETS

    target, home = TARGETS[name], Path(tempfile.mkdtemp(prefix="guided-"))
    shutil.copytree(CORPUS / target.corpus, home / "corpus")

    def once(data: bytes) -> None:
        with tempfile.TemporaryDirectory(dir=home) as folder:
            try:
                target.read(data, Path(folder))
            except ScotomaError:
                return

    limits = [f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=4096"]
    kept = f"-artifact_prefix={tempfile.gettempdir()}/fuzz-"
    atheris.Setup([sys.argv[0], *limits, kept, str(home / "corpus")], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
