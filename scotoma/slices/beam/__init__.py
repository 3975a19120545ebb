"""How is a table searched that no machine holds?"""

from __future__ import annotations

from scotoma.slices.beam.columns import TableColumns
from scotoma.slices.beam.find import open_table, search_parquet

__all__ = ["TableColumns", "open_table", "search_parquet"]
