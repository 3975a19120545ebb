from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scotoma.config import (
    DEFAULT_CONFIG,
    Config,
    Recipe,
    Variant,
    default_config,
    load_config,
    parse_config,
)
from scotoma.errors import ConfigError
from scotoma.sources.folder import FolderSource

CONFIG = """\
version: 1
project: faces
source:
  kind: digits-s
  skew: 0.9
  recipe: {steps: 40}
label:
  column: digit
groups:
  style: {column: style}
  exposure: {column: exposure}
variants:
  - dense
  - prune: [0.5, 0.9]
  - int8: [dynamic]
population:
  models: 4
  seed: 7
"""
FOLDER = """\
variants: [dense, {prune: [0.5]}]
source:
  kind: image_folder
  images: pictures
  attributes: table.csv
  split: {column: part, train: 0, test: 1}
label: {column: face}
"""


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "audit.yaml")
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed(old: str, new: str, text: str = CONFIG) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


# --- what a sound configuration means -------------------------------------------------------------


def test_the_default_is_the_embedded_digits_with_ten_members_a_variant() -> None:
    config = default_config()
    assert config.source.kind == "digits-s"
    assert config.label.column == "digit"
    assert config.cluster is not None
    assert config.cluster.column == "source_id"
    assert {name: group.column for name, group in config.groups.attributes.items()} == {
        "style": "style",
        "exposure": "exposure",
    }
    assert config.population.models >= 10
    assert config.population.seed == 0
    assert not config.deterministic
    assert config.tracking.uri is None


def test_what_is_left_out_has_its_default() -> None:
    config = parse_config("variants: [dense, {prune: [0.9]}]", "audit.yaml")
    assert config.version == 1
    assert config.label.column == "digit"
    assert config.groups.attributes == {}
    assert config.groups.intersections == []
    assert config.cluster is None
    assert config.source.recipe == Recipe()
    assert config.population == default_config().population


def test_variants_are_resolved_dense_first_then_in_the_order_of_the_file() -> None:
    config = parse_config(
        "variants: [{int8: [static]}, {prune: [0.95, 0.5]}, dense, {int8: [dynamic]}]", "audit.yaml"
    )
    assert config.resolved_variants == (
        Variant(name="dense", kind="dense"),
        Variant(name="int8-static", kind="int8", derived_from="dense", mode="static", bits=8),
        Variant(name="prune-0.95", kind="prune", sparsity=0.95),
        Variant(name="prune-0.5", kind="prune", sparsity=0.5),
        Variant(name="int8-dynamic", kind="int8", derived_from="dense", mode="dynamic", bits=8),
    )


def test_only_quantized_members_are_paired_with_dense_ones() -> None:
    paired = {variant.name: variant.paired for variant in default_config().resolved_variants}
    assert {name for name, value in paired.items() if value} == {"int8-dynamic", "int8-static"}


def test_a_pruned_member_that_is_quantized_derives_from_the_pruned_one() -> None:
    config = parse_config(
        "variants: [dense, {prune: [0.5, 0.9], then: [int8-static, float16]}]", "audit.yaml"
    )
    found = {variant.name: variant for variant in config.resolved_variants}
    assert list(found) == [
        "dense", "prune-0.5", "prune-0.9", "prune-0.5+int8-static", "prune-0.5+float16",
        "prune-0.9+int8-static", "prune-0.9+float16",
    ]  # fmt: skip
    both = found["prune-0.9+int8-static"]
    assert both == Variant(
        name="prune-0.9+int8-static", kind="int8", derived_from="prune-0.9", sparsity=0.9,
        mode="static", bits=8,
    )  # fmt: skip
    assert not both.paired  # with dense members, which it is compared with
    one = parse_config("variants: [dense, {prune: [0.5], then: float16}]", "audit.yaml")
    assert one.resolved_variants[2].name == "prune-0.5+float16"


def test_options_of_a_variant_stand_in_its_name() -> None:
    config = parse_config(
        """
variants:
  - dense
  - int8: [dynamic, static]
  - {int8: [static], calibrator: entropy}
  - {int8: [static], calibrator: percentile, percentile: 99.9, images: 500}
  - {int8: [static, dynamic], reduce_range: true, calibrator: minmax}
  - {int8: [static], protocol: published}
  - float16: true
""",
        "audit.yaml",
    )
    assert [variant.name for variant in config.resolved_variants] == [
        "dense", "int8-dynamic", "int8-static", "int8-static-entropy",
        "int8-static-percentile-99.9-500images", "int8-static-7bit", "int8-dynamic-7bit",
        "int8-static-published", "float16",
    ]  # fmt: skip
    assert {variant.bits for variant in config.resolved_variants} == {8, 16, 32}
    assert [v.paired for v in config.resolved_variants] == [False] + 8 * [True]


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("{float16: false}", "audit.yaml:1 variants.1.float16 should be True, got false"),
        (
            "{int4: true}",
            "audit.yaml:1 variants.1 should be dense, {prune: [...]}, {int8: [...]} or "
            '{float16: true}, got {"int4": true}',
        ),
        ("{prune: [0.9], then: int4}", "audit.yaml:1 variants.1.then.0 should be 'int8-dynamic', "),
        ("{prune: [0.9], then: int9}", "audit.yaml:1 variants.1.then.0 should be 'int8-dynamic', "),
        ("{int8: [static], calibrator: max}", "audit.yaml:1 variants.1.calibrator should be 'min"),
    ],
)
def test_a_wrong_option_of_a_variant_is_named(entry: str, sentence: str) -> None:
    message = refused(f"variants: [dense, {entry}]")
    assert message.replace(" must be ", " should be ").startswith(sentence)


def test_a_variant_is_found_by_its_name() -> None:
    assert default_config().variant("prune-0.95").sparsity == 0.95


def test_attributes_keep_the_order_of_the_file() -> None:
    config = parse_config(CONFIG, "audit.yaml")
    assert list(config.groups.attributes) == ["style", "exposure"]
    swapped = changed("style: {column: style}", "age: {column: young}")
    assert list(parse_config(swapped, "audit.yaml").groups.attributes) == ["age", "exposure"]


def test_names_of_values_may_be_given_by_number() -> None:
    text = changed("{column: style}", "{column: style, names: {0: plain, 1: styled}}")
    names = parse_config(text, "audit.yaml").groups.attributes["style"].names
    assert names == {"0": "plain", "1": "styled"}


def test_paths_are_taken_from_the_folder_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.yaml"
    path.write_text(changed("table.csv", "/elsewhere/table.csv", FOLDER))
    source = load_config(path).source
    assert isinstance(source, FolderSource)
    assert source.images == str(tmp_path / "pictures")
    assert source.attributes == "/elsewhere/table.csv"


@pytest.mark.parametrize("kind", ["parquet", "cifar10", "cifar10s"])
def test_an_s3_uri_is_left_as_it_is(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.yaml"
    text = f"variants: [dense, {{prune: [0.5]}}]\nsource: {{kind: {kind}, data: 's3://b/cifar'}}\n"
    path.write_text(text)
    assert load_config(path).source.data == "s3://b/cifar"  # type: ignore[union-attr]
    path.write_text(text.replace("s3://b/cifar", "images"))
    assert load_config(path).source.data == str(tmp_path / "images")  # type: ignore[union-attr]


def test_a_configuration_cannot_be_changed() -> None:
    config = default_config()
    for value, field in [
        (config, "project"),
        (config.population, "models"),
        (config.source.recipe, "steps"),
        (config.groups, "intersections"),
        (config.resolved_variants[0], "name"),
    ]:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(value, field, getattr(value, field))


# --- its digest -----------------------------------------------------------------------------------


def test_digest_is_that_of_the_meaning_and_not_of_the_spelling() -> None:
    config = parse_config(CONFIG, "audit.yaml")
    respelt = yaml.safe_dump(yaml.safe_load(CONFIG), sort_keys=True, default_flow_style=True)
    assert respelt.index("groups") < respelt.index("project") < respelt.index("version")
    assert parse_config(respelt, "elsewhere.yaml").digest() == config.digest()
    explicit = changed("seed: 7", "seed: 7\ndeterministic: false")
    assert parse_config(explicit, "audit.yaml").digest() == config.digest()


def test_digest_ignores_where_runs_are_tracked_and_nothing_else() -> None:
    config = parse_config(CONFIG, "audit.yaml")
    tracked = parse_config(CONFIG + "tracking: {uri: 'http://u:p@host:5000'}\n", "audit.yaml")
    assert tracked.digest() == config.digest()
    assert tracked.model_dump_json() != config.model_dump_json()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("project: faces", "project: masks"),
        ("skew: 0.9", "skew: 0.91"),
        ("steps: 40", "steps: 41"),
        ("column: digit", "column: style"),
        ("{column: exposure}", "{column: style}"),
        ("[0.5, 0.9]", "[0.9, 0.5]"),
        ("[dynamic]", "[static]"),
        ("models: 4", "models: 5"),
        ("seed: 7", "seed: 8"),
        ("version: 1\n", "version: 1\ndeterministic: true\n"),
        ("version: 1\n", "version: 1\nadvantaged: {exposure: majority}\n"),
    ],
)
def test_digest_changes_with_everything_that_decides_results(old: str, new: str) -> None:
    before = parse_config(CONFIG, "audit.yaml").digest()
    assert parse_config(changed(old, new), "audit.yaml").digest() != before


def test_an_advantaged_value_may_be_a_number_or_a_word() -> None:
    for written in ("1", "'1'"):
        text = changed("version: 1\n", f"version: 1\nadvantaged: {{exposure: {written}}}\n")
        assert parse_config(text, "audit.yaml").advantaged == {"exposure": "1"}


# --- round trips ----------------------------------------------------------------------------------

words = st.text(min_size=1, max_size=12)
fractions = st.floats(0, 1, exclude_min=True, exclude_max=True, allow_subnormal=False)
recipes = st.fixed_dictionaries(
    {},
    optional={
        "steps": st.integers(1, 10**7),
        "batch_size": st.integers(1, 10**6),
        "learning_rate": st.floats(1e-9, 1e9),
        "momentum": fractions,
        "weight_decay": st.floats(0, 1e3),
        "prune_every": fractions,
        "augmentation": st.sampled_from(["none", "flip", "crop-flip"]),
        "precision": st.sampled_from(["float32", "bfloat16"]),
    },
).flatmap(
    lambda recipe: st.one_of(
        st.just(recipe),
        st.floats(0, 0.9).map(lambda begin: recipe | {"prune_begin": begin, "prune_end": 1.0}),
    )
)
sources = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("digits-s"), "recipe": recipes},
        optional={"skew": st.floats(0.5, 1, exclude_min=True, exclude_max=True), "model": words},
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["cifar10", "cifar10s", "parquet"]), "data": words}
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("image_folder"),
            "images": words,
            "attributes": words,
            "split": st.fixed_dictionaries(
                {
                    "column": words,
                    "train": words | st.integers(),
                    "test": words | st.integers(),
                }
            ),
        }
    ),
)
groups = st.dictionaries(
    words.filter(lambda name: name != "intersections"),
    st.fixed_dictionaries(
        {"column": words}, optional={"names": st.dictionaries(words, words, max_size=3)}
    ),
    max_size=3,
).flatmap(
    lambda attributes: st.fixed_dictionaries(
        {name: st.just(column) for name, column in attributes.items()},
        optional={"intersections": st.just([list(attributes)])} if len(attributes) > 1 else {},
    )
)
variants = st.lists(st.integers(0, 999), min_size=1, max_size=4, unique=True).flatmap(
    lambda thousandths: st.permutations(
        ["dense", {"prune": [t / 1000 for t in thousandths]}, {"int8": ["static", "dynamic"]}]
    )
)
configs = st.fixed_dictionaries(
    {"source": sources, "groups": groups, "variants": variants},
    optional={
        "project": st.builds(
            "".join, st.tuples(st.sampled_from("aé7_"), st.text("aé7_ .-", max_size=20))
        ),
        "label": st.fixed_dictionaries({"column": words, "positive": words | st.integers()}),
        "cluster": st.fixed_dictionaries({"column": words}),
        "population": st.fixed_dictionaries(
            {"models": st.integers(1, 255), "seed": st.integers(0, 2**32 - 1)}
        ),
        "tracking": st.fixed_dictionaries({"uri": words}),
        "deterministic": st.booleans(),
    },
)


@settings(max_examples=100)
@given(values=configs)
def test_a_configuration_written_as_yaml_and_read_is_the_same(values: dict[str, Any]) -> None:
    try:
        Recipe(**values.get("source", {}).get("recipe", {}))
    except ValueError:
        assume(False)  # the last mask update would fall after the last step
    config = parse_config(yaml.safe_dump(values), "drawn")
    resolved = yaml.safe_dump(config.model_dump(mode="json", exclude_none=True), sort_keys=False)
    again = parse_config(resolved, "resolved")
    assert again == config
    assert list(again.groups.attributes) == list(config.groups.attributes)
    assert again.digest() == config.digest()
    assert Config.model_validate_json(config.model_dump_json()) == config


@given(
    at=st.integers(0, len(DEFAULT_CONFIG) - 1),
    noise=st.text(alphabet="{}[]:,-&*!|>'\"%@`#\n\t 01.eyn~", min_size=1, max_size=6),
)
def test_damaged_text_is_read_or_refused_in_one_sentence(at: int, noise: str) -> None:
    message = ""
    try:
        parse_config(DEFAULT_CONFIG[:at] + noise + DEFAULT_CONFIG[at:], "audit.yaml")
    except ConfigError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize("section", ["slices: {max_cross: 2}", "clarify: {features: [age]}"])
def test_what_is_measured_decides_the_results_and_no_model(section: str) -> None:
    before, after = (parse_config(text, "audit.yaml") for text in (CONFIG, f"{CONFIG}\n{section}"))
    assert before.digest() != after.digest()
    assert before.models_digest() == after.models_digest()
