"""How are slices found in a table that no machine holds?"""

from __future__ import annotations

from scotoma.slices.beam.find import open_table, search_parquet

__all__ = ["open_table", "search_parquet"]
