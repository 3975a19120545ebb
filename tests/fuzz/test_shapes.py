"""Values of every kind where others are expected: hypothesis writes the files."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import polars as pl
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing.parametric import dataframes

from scotoma.config import parse_config
from scotoma.config.gate import parse_rules
from scotoma.config.reading import DEFAULT_CONFIG
from scotoma.datasets.select_examples import examples_from_source
from scotoma.errors import ScotomaError
from tests.fuzz.targets import CORPUS, PARSED

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
GATE = (CORPUS / "gate" / "default.yaml").read_text()
COLUMNS = ("example_id", "label", "sex", "member", "predicted")


def places(tree: Any) -> list[tuple[Any, ...]]:
    """Where something stands in a tree, from its root."""
    branches = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found: list[tuple[Any, ...]] = []
    for key, below in branches:
        found.append((key,))
        if isinstance(below, dict | list):
            found += [(key, *rest) for rest in places(below)]
    return found


@settings(max_examples=120)
@given(data=st.data())
def test_any_value_anywhere_in_a_file_of_keys_is_taken_or_refused(data: st.DataObject) -> None:
    readers: list[tuple[str, Callable[[str, str], object]]] = [
        (DEFAULT_CONFIG, parse_config),
        (GATE, parse_rules),
    ]
    text, read = data.draw(st.sampled_from(readers))
    tree = yaml.safe_load(text)
    *above, key = data.draw(st.sampled_from(places(tree)))
    branch = tree
    for step in above:
        branch = branch[step]
    branch[key] = data.draw(ANY)
    with contextlib.suppress(ScotomaError):
        read(yaml.safe_dump(tree), "a.yaml")


@settings(max_examples=60)
@given(
    table=dataframes(
        min_cols=len(COLUMNS), max_cols=len(COLUMNS), max_size=6, allow_null=True,
        excluded_dtypes=[pl.Object],
    )
)  # fmt: skip
def test_any_type_in_any_column_is_taken_or_refused(table: pl.DataFrame) -> None:
    named = table.rename(dict(zip(table.columns, COLUMNS, strict=True)))
    listed = named.with_columns(
        pl.int_range(pl.len()).cast(pl.String).alias("example_id"), split=pl.lit("test")
    )
    with contextlib.suppress(ScotomaError):
        found = examples_from_source(listed, parse_config(PARSED, "a.yaml"), "the table")
        content = io.BytesIO()
        found.table.write_parquet(content)
        assert found.partition().masks.shape[1] == found.table.height <= listed.height
