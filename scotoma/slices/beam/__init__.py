"""How is a table searched that no machine holds?"""

from __future__ import annotations

from scotoma.slices.beam.find import open_table, search_parquet
from scotoma.slices.table import SlicesQuestion

__all__ = ["SlicesQuestion", "open_table", "search_parquet"]
