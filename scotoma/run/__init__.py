"""Where does a run live, and what is finished there?"""

from __future__ import annotations

from scotoma.run.folder import Run, portable, shareable
from scotoma.storage.files import code_digest, read_json, read_record, write_json

__all__ = [
    "Run",
    "code_digest",
    "portable",
    "read_json",
    "read_record",
    "shareable",
    "write_json",
]
