"""Faults of a configuration: every one in a sentence with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scotoma.config import Recipe, load_config, parse_config
from scotoma.config.gate import parse_rules
from scotoma.errors import ConfigError
from tests.config.test_config import CONFIG, FOLDER, changed, refused

# --- every fault, one sentence with its line ------------------------------------------------------

KEYS = (
    "version, project, data_date, source, label, groups, cluster, advantaged, over_index, "
    "baseline, variants, population, mitigation, tournament, slices, clarify, tracking, "
    "kubeflow, retraining, robustness, limits"
)
RECIPE = ", ".join(Recipe.model_fields)
FAULTS = {
    "an unknown key": (
        "population:\n",
        "populaton:\n",
        f"audit.yaml:16 populaton is not a key here; known are {KEYS}, keep_scores, deterministic; "
        "did you mean 'population'?",
    ),
    "an unknown key that is like no other": (
        "version: 1",
        "zzz: 1",
        f"audit.yaml:1 zzz is not a key here; known are {KEYS}, keep_scores, deterministic",
    ),
    "an unknown key below": (
        "  models: 4",
        "  model: 4",
        "audit.yaml:17 population.model is not a key here; known are models, seed, identical, "
        "forked; did you mean 'models'?",
    ),
    "an unknown key two below": (
        "steps: 40",
        "step: 40",
        f"audit.yaml:6 source.recipe.step is not a key here; known are {RECIPE}; "
        "did you mean 'steps'?",
    ),
    "a word for a whole number": (
        "models: 4",
        "models: four",
        "audit.yaml:17 population.models should be a valid integer, got 'four'",
    ),
    "a fraction for a whole number": (
        "models: 4",
        "models: 4.5",
        "audit.yaml:17 population.models should be a valid integer, got 4.5",
    ),
    "a yes for a whole number": (
        "models: 4",
        "models: true",
        "audit.yaml:17 population.models should be a valid integer, got true",
    ),
    "a list for a section": (
        "  column: digit",
        "  - digit",
        'audit.yaml:7 label should be an object, got ["digit"]',
    ),
    "a word for an attribute": (
        "style: {column: style}",
        "style: style",
        "audit.yaml:10 groups.style should be an object, got 'style'",
    ),
    "sparsity 1.5": (
        "[0.5, 0.9]",
        "[0.5, 1.5]",
        "audit.yaml:14 variants.1.prune.1 must be less than 1.0, got 1.5",
    ),
    "sparsity 1, which leaves nothing": (
        "[0.5, 0.9]",
        "[1, 0.9]",
        "audit.yaml:14 variants.1.prune.0 must be less than 1.0, got 1",
    ),
    "a negative sparsity": (
        "[0.5, 0.9]",
        "[-0.5]",
        "audit.yaml:14 variants.1.prune.0 must be at least 0.0, got -0.5",
    ),
    "a sparsity that is no number": (
        "[0.5, 0.9]",
        "[.nan]",
        "audit.yaml:14 variants.1.prune.0 should be a finite number, got NaN",
    ),
    "0 members": (
        "models: 4",
        "models: 0",
        "audit.yaml:17 population.models must be at least 1, got 0",
    ),
    "more members than an id can count": (
        "models: 4",
        "models: 256",
        "audit.yaml:17 population.models must be at most 255, got 256",
    ),
    "a negative seed": (
        "seed: 7",
        "seed: -1",
        "audit.yaml:18 population.seed must be at least 0, got -1",
    ),
    "a seed past 32 bits": (
        "seed: 7",
        "seed: 4294967296",
        "audit.yaml:18 population.seed must be less than 4294967296, got 4294967296",
    ),
    "a skew that skews nothing": (
        "skew: 0.9",
        "skew: 0.5",
        "audit.yaml:5 source.skew must be greater than 0.5, got 0.5",
    ),
    "an unknown source": (
        "kind: digits-s",
        "kind: digits",
        "audit.yaml:3 source.kind must be one of 'digits-s', 'image_folder', 'train', "
        "'parquet', 'celeba', 'coco', 'imsitu', 'cifar10', 'cifar10s', 'onnx', 'predictions', "
        "'detections', 'scores', got 'digits'",
    ),
    "a source without its kind": (
        "  kind: digits-s\n",
        "",
        "audit.yaml:3 source.kind is missing; it is one of 'digits-s', 'image_folder', 'train', "
        "'parquet', 'celeba', 'coco', 'imsitu', 'cifar10', 'cifar10s', 'onnx', 'predictions', "
        "'detections', 'scores'",
    ),
    "an unknown way of compressing": (
        "prune: [0.5, 0.9]",
        "shrink: [0.5]",
        "audit.yaml:14 variants.1 must be dense, {prune: [...]}, {int8: [...]} or {float16: true}, "
        'got {"shrink": [0.5]}',
    ),
    "an unknown int8 mode": (
        "[dynamic]",
        "[dynamik]",
        "audit.yaml:15 variants.2.int8.0 must be 'dynamic', 'dynamic-per-layer' or 'static', got "
        "'dynamik'",
    ),
    "a variant that is a misspelt word": (
        "- dense",
        "- dens",
        "audit.yaml:13 variants.0 must be 'dense', got 'dens'",
    ),
    "a column that is missing": (
        "  column: digit",
        "  positive: 3",
        "audit.yaml:7 label.column is missing; it has no default",
    ),
    "pruning that ends before it begins": (
        "steps: 40",
        "prune_begin: 0.8, prune_end: 0.7",
        "audit.yaml:6 prune_end must be later than prune_begin, got 0.7 and 0.8; the CIE paper "
        "uses 0.9 and 0.1",
    ),
    "another version": (
        "version: 1",
        "version: 2",
        "audit.yaml:1 version should be 1, got 2",
    ),
    "an intersection of an unknown attribute": (
        "  exposure: {column: exposure}\n",
        "  exposure: {column: exposure}\n  intersections: [[style, exposur]]\n",
        "audit.yaml:9 intersection names the attribute 'exposur', which is not among "
        "['style', 'exposure']; did you mean 'exposure'?",
    ),
    "an advantaged value of an unknown attribute": (
        "  exposure: {column: exposure}\n",
        "  exposure: {column: exposure}\nadvantaged: {style: plain, exposur: majority}\n",
        "audit.yaml:12 advantaged names the attribute 'exposur', which is not among "
        "['style', 'exposure']; did you mean 'exposure'?",
    ),
    "two advantaged values of an attribute": (
        "  exposure: {column: exposure}\n",
        "  exposure: {column: exposure}\nadvantaged: {style: [plain, styled]}\n",
        'audit.yaml:12 advantaged.style should be a valid string, got ["plain", "styled"]',
    ),
    "an intersection of an attribute with itself": (
        "  exposure: {column: exposure}\n",
        "  exposure: {column: exposure}\n  intersections: [[style, style]]\n",
        "audit.yaml:9 an intersection needs two different attributes, got ['style', 'style']",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_one_sentence_with_its_line(old: str, new: str, sentence: str) -> None:
    assert refused(changed(old, new)) == sentence


VARIANT_FAULTS = {
    "no dense": (
        "  - dense\n",
        "",
        "variants must name `dense`: every change is measured against it",
    ),
    "nothing compressed": (
        "  - prune: [0.5, 0.9]\n  - int8: [dynamic]\n",
        "",
        "variants must name a compressed one, such as {prune: [0.9]}",
    ),
    "one twice": ("[0.5, 0.9]", "[0.9, 0.9]", "variants names prune-0.9 twice; keep one of them"),
    "two with one name": (
        "[0.5, 0.9]",
        "[0.9, 0.9000000001]",
        "variants names prune-0.9 twice; keep one of them",
    ),
    "two twice": (
        "  - int8: [dynamic]\n",
        "  - int8: [dynamic, dynamic]\n  - dense\n",
        "variants names dense, int8-dynamic twice; keep one of them",
    ),
}


@pytest.mark.parametrize(
    ("old", "new", "sentence"), VARIANT_FAULTS.values(), ids=VARIANT_FAULTS.keys()
)
def test_a_fault_of_all_variants_together_stands_at_their_line(
    old: str, new: str, sentence: str
) -> None:
    assert refused(changed(old, new)) == f"audit.yaml:12 {sentence}"


def test_configuration_without_variants_is_refused() -> None:
    assert refused("version: 1\n") == "audit.yaml:1 variants is missing; it has no default"


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("prune: [0.5, 0.9]", "prune: []", 14, "variants.1.prune"),
        ("project: faces", "project: ../faces", 2, "project"),
        ("project: faces", 'project: "faces\\n"', 2, "project"),
        ("project: faces", "project: ''", 2, "project"),
    ],
)
def test_a_fault_of_length_or_pattern_reads_as_a_sentence(
    old: str, new: str, line: int, key: str
) -> None:
    message = refused(changed(old, new))
    assert message.startswith(f"audit.yaml:{line} {key} ")
    assert "should String" not in message
    assert "should List" not in message
    assert re.search(r"(must|should) \w+ .*, got ", message)


def test_every_fault_is_named_at_once_in_the_order_of_the_file() -> None:
    text = changed("[0.5, 0.9]", "[1.5]")
    text = changed("models: 4", "models: 0", text)
    assert refused(changed("seed: 7", "seeds: 7", text)).split("; ") == [
        "audit.yaml:14 variants.1.prune.0 must be less than 1.0, got 1.5",
        "audit.yaml:17 population.models must be at least 1, got 0",
        "audit.yaml:18 population.seeds is not a key here",
        "known are models, seed, identical, forked",
        "did you mean 'seed'?",
    ]


def test_a_fault_of_a_value_of_either_type_is_named_once_by_the_key_of_the_file() -> None:
    message = refused(changed("train: 0", "train: 0.5", FOLDER))
    assert message.startswith("audit.yaml:6 source.split.train ")
    assert message.count("audit.yaml:") == 1


def test_a_variant_with_two_ways_at_once_is_told_what_is_wrong() -> None:
    message = refused(changed("- prune: [0.5, 0.9]", "- {prune: [0.5], int8: [static]}"))
    assert message.startswith("audit.yaml:14 variants.1")
    assert "did you mean 'int8'" not in message  # that is what stands there


LABELS = FOLDER.replace("column: face", "columns: [dog, cat]")
SEVERAL = {
    "one column": ("[dog, cat]", "[dog]", "names one label, 'dog'; write label.column"),
    "a column twice": ("[dog, cat]", "[dog, dog]", "names 'dog' twice; keep one of them"),
    "a column of predictions": ("[dog, cat]", "[dog, score]", "names 'score', which is a column"),
    "a positive class": ("cat]", "cat], positive: 1", "label.positive is for one label"),
    "a threshold": ("cat]", "cat], threshold: 3", "with label.columns write label.thresholds"),
    "a threshold of 1": ("cat]", "cat], thresholds: {dog: 1}", "label.thresholds.dog must be less"),
    "an unknown label": ("cat]", "cat], thresholds: {dgo: 0.3}", "label.thresholds names 'dgo'"),
    "a source of one label": (
        "image_folder", "parquet\n  data: d", "and source.kind parquet reads one",
    ),
    "a technique of one label": (
        "variants", "mitigation: {technique: JTT}\nvariants",
        "mitigation.technique JTT is for one label and label.columns names several; choose among "
        "R1, R2, R3",
    ),
    "a tournament of such a technique": (
        "variants", "tournament: {techniques: [R1, JTT], attribute: x}\nvariants",
        "tournament.techniques JTT is for one label and label.columns names several; choose among "
        "R1, R2, R3",
    ),
    "other test sets": (
        "variants", "robustness: {sets: [{name: a, folder: b}]}\nvariants",
        "robustness.sets has a folder a class and label.columns names several labels",
    ),
    "groups of the attribute": (
        "variants", "groups: {label_name: {column: x}}\nvariants", "name another label.attribute",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", SEVERAL)
def test_what_several_labels_cannot_have_is_refused(fault: str) -> None:
    old, new, sentence = SEVERAL[fault]
    text = LABELS.replace(old, new, 1)
    if fault == "a source of one label":
        text = "".join(
            line for line in text.splitlines(keepends=True)
            if not line.strip().startswith(("images", "attributes", "split"))
        )  # fmt: skip
    message = refused(text)
    assert sentence in message
    assert message.startswith("audit.yaml")


def test_thresholds_without_columns_are_refused() -> None:
    message = refused(changed("column: face", "column: face, thresholds: 0.3", FOLDER))
    assert message.startswith("audit.yaml:7 label.thresholds is for several labels")


def test_an_infinite_number_is_refused() -> None:
    message = refused(changed("steps: 40", "learning_rate: .inf"))
    assert message.startswith("audit.yaml:6 source.recipe.learning_rate ")


def test_of_a_merged_key_and_ones_own_the_own_one_counts_and_has_its_line() -> None:
    text = """\
rules:
- &a
  id: one
  metric: cie_share_excess
  max: 2
- <<: *a
  id: ''
"""
    with pytest.raises(ConfigError) as refusal:
        parse_rules(text, "gate.yaml")
    assert str(refusal.value) == (
        "gate.yaml:5 rules.0.max must be less than 1.0, got 2; "
        "gate.yaml:7 rules.1.id must not be empty, got ''; write what it is; "
        "gate.yaml:5 rules.1.max must be less than 1.0, got 2"
    )


def test_a_key_that_stands_twice_is_refused_and_not_silently_overridden() -> None:
    message = refused(CONFIG + "project: others\n")
    assert message.startswith("audit.yaml:19 project ")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("variants: [dense", "audit.yaml is not YAML: "),
        ("version: 1\n\tproject: faces", "audit.yaml is not YAML: "),
        ("version: 1\n---\nversion: 1\n", "audit.yaml is not YAML: "),
        ("version: \0", "audit.yaml is not YAML: "),
        ("", "audit.yaml must hold keys and values, got NoneType"),
        ("- dense", "audit.yaml must hold keys and values, got list"),
        ("dense", "audit.yaml must hold keys and values, got str"),
    ],
)
def test_text_that_is_no_mapping_is_refused(text: str, start: str) -> None:
    assert refused(text).startswith(start)


def test_an_object_of_python_is_refused_and_never_made() -> None:
    message = refused("version: !!python/object/apply:builtins.exit [9]")
    assert message.startswith("audit.yaml is not YAML: could not determine a constructor")


def test_a_list_that_holds_itself_is_refused() -> None:
    assert refused("project: &loop [*loop]").startswith("audit.yaml")


@pytest.mark.parametrize("key", ["2024-01-01", "!!binary aaaa", "[1, 2]", "1.5", "null"])
def test_a_key_that_is_no_word_is_refused(key: str) -> None:
    assert refused(CONFIG + f"? {key}\n: 1\n").startswith("audit.yaml")


def test_a_hostile_key_cannot_steer_the_terminal_that_shows_it() -> None:
    message = refused(CONFIG + '"\\e[2J\\nz": 1\n')
    assert message.startswith("audit.yaml:19 ")
    assert message.isprintable()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory"), (b"project: \xff\xfe", "it is not UTF-8 text")],
)
def test_an_unreadable_file_is_refused(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "audit.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == f"configuration {path} cannot be read: {reason}"


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


def test_a_fault_in_a_file_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "my audit.yaml"
    path.write_text(changed("models: 4", "models: 0"))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == f"{path}:17 population.models must be at least 1, got 0"


def test_of_a_source_the_keys_of_its_kind_are_known() -> None:
    """Nor is anything said of variants, which the files of predictions name."""
    text = "source: {kind: predictions, files: a, examples: b, rerun: x}\nlabel: {column: l}\n"
    with pytest.raises(ConfigError) as fault:
        parse_config(text, "a.yaml")
    assert str(fault.value) == (
        "a.yaml:1 source.rerun is not a key here; known are kind, files, columns, predicted, "
        "examples, captions, key, numbered, training, classes"
    )
