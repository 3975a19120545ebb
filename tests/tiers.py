"""Which tests does `make test` leave to `make test-rest`, and which heavy ones does it keep?

A key is a folder, a file, or a test in it; the longest that fits counts, before any fixture.
Whoever adds a test that takes more than a second of processor time, its children included, adds a
line to `HEAVY`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["HEAVY", "KEPT", "is_heavy", "may_hold", "place"]

# Fixtures that start a browser or a server.
FIXTURES = {"browser", "running", "server", "team"}

# What else is left to `make test-rest`, and what it spends its time on; files that take longest
# first, since the last to be dealt keeps one core busy while the others idle.
HEAVY: dict[str, str] = {
    "tests/test_docs.py::test_commands_in_the_documents_run": "every command of every page",
    "tests/installed/test_wheel.py": "builds and installs a wheel",
    "tests/installed/test_rings.py": "commands where packages are missing",
    "tests/tracking": "MLflow's servers and databases",
    "tests/faults": "audits that are killed, changed and begun again",
    "tests/steps/test_machines.py": "fifteen processes that share nothing but storage",
    "tests/sources/test_external_cases.py": "30 audits of models and images as people have them",
    "tests/commands/test_pull_request.py": "the action's shell, pytest in pytest",
    "tests/fix/test_repair.py": "audits of models in which one layer does harm",
    "tests/pipelines": "runs on a stand-in for Kubeflow and by kfp.local",
    "tests/components/test_paired_verdict.py": "pipelines that kfp.local runs",
    "tests/golden/test_rows.py": "54 audits and comparisons",
    "tests/benchmarks": "scripts of benchmarks",
    "tests/fuzz/test_fuzz.py::test_a_reader_gives_a_result_or_a_sentence": "spoilt files",
    "tests/sources/test_sources_in_storage.py": "an audit of each kind of source in S3",
    "tests/bias/test_adult.py": "three runs on the whole of Adult",
    "tests/bias/test_clarify.py::"
    "test_the_fliptest_on_adult_counts_every_choice_of_tied_neighbours_alike": "all of Adult",
    "tests/bias/test_clarify_coverage.py": "simulated audits",
    "tests/bias/test_clarify_intervals.py": "simulated audits",
    "tests/bias/test_few_flips.py": "simulated audits",
    "tests/bias/test_subgroup_coverage.py": "simulated audits",
    "tests/divergence/test_divergence_members.py": "simulated audits",
    "tests/power/test_false_alarms.py": "simulated audits",
    "tests/verdict/test_simulated.py": "simulated audits",
    "tests/verdict/test_admission_simulated.py": "simulated audits",
    "tests/comparison/test_coverage.py": "simulated audits",
    "tests/report/test_page.py::test_names_from_the_data_are_text_and_nothing_else": "a large page",
    "tests/report/test_shapes.py::test_every_shape_of_an_audit_has_a_whole_page": "large pages",
    "tests/audit/test_audit.py::"
    "test_other_groups_are_measured_with_the_models_that_are_there": "a second audit",
    "tests/audit/test_audit_folder.py": "trains on a folder of images",
    "tests/audit/test_numbers_gone_wrong.py": "trains members that go wrong",
    "tests/commands/test_commands_runs.py::"
    "test_what_is_planted_is_recovered_and_dense_against_dense_passes": "simulated audits",
    "tests/commands/test_commands_runs.py::"
    "test_a_plan_fails_where_nothing_is_recovered": "simulated audits",
    "tests/commands/test_commands_slices.py::"
    "test_the_page_shows_what_its_commands_print": "every command of a page",
    "tests/commands/test_commands_slices.py::"
    "test_permuted_outcomes_yield_nothing": "searches of permuted tables",
    "tests/commands/test_commands_slices.py::"
    "test_the_interval_of_a_slice_excludes_0_as_its_test_does": "ten searches",
    "tests/comparison/test_command.py::"
    "test_models_of_other_reruns_are_judged_on_the_examples_of_all": "a process for each reading",
    "tests/comparison/test_decisions.py::"
    "test_an_audit_of_it_knows_the_favourable_answer": "an audit in a child",
    "tests/comparison/test_unanswered.py::"
    "test_an_example_that_broke_off_without_an_answer_is_wrong": "an audit in a child",
    "tests/costs/test_costs.py::"
    "test_steps_and_sizes_of_a_real_network_are_measured": "exports a ResNet",
    "tests/costs/test_costs.py::"
    "test_a_network_too_slow_for_its_batch_is_timed_on_fewer_images": "a slow network",
    "tests/datasets/test_image_store.py::"
    "test_memory_does_not_grow_with_the_images": "many images in a process of their own",
    "tests/detection/test_chance.py::"
    "test_an_audit_of_detectors_of_other_images_says_so": "audits in children",
    "tests/fix/test_layers.py::"
    "test_multiplications_are_counted_as_torch_counts_them": "exports a ResNet",
    "tests/notebook/test_notebook_answers.py::"
    "test_a_notebook_and_the_command_say_the_same": "six audits",
    "tests/processes/test_processes.py::"
    "test_a_call_has_the_memory_that_it_is_given_and_no_more": "fills its memory",
    "tests/quantization/test_quantization.py::"
    "test_what_the_graph_is_written_in_is_told": "exports a ResNet",
    "tests/quantization/test_quantization.py::"
    "test_every_kind_of_network_is_folded_and_exported_alike": "exports networks",
    "tests/quantization/test_quantization.py::"
    "test_plain_layers_are_written_as_torch_exports_them": "exports networks",
    "tests/quantization/test_quantization_static.py": "exports networks",
    "tests/run/test_mirror.py::"
    "test_a_trained_member_is_sent_by_the_worker_that_trained_it": "trains in a worker",
    "tests/runs/test_training.py": "trains",
    "tests/training/test_placement.py::"
    "test_compiled_members_have_the_gradients_of_each_member": "torch compiles",
    "tests/training/test_identical.py::"
    "test_runs_of_one_seed_are_trained_timed_and_compared_by_a_command": "trains",
    "tests/storage/test_credentials.py::"
    "test_no_file_and_no_line_of_an_audit_holds_the_credential_of_a_tracking_uri": "an audit",
    "tests/training/test_augmentation.py::"
    "test_every_image_is_a_shift_and_perhaps_a_mirror_of_its_own": "many images",
    "tests/runs/test_comparing.py::"
    "test_a_one_sided_test_in_the_direction_of_the_data_alarms_twice_as_often_as_it_says": "draws",
    "tests/runs/test_comparing.py::"
    "test_intervals_of_the_ratio_of_spreads_hold_the_truth": "simulated runs",
    "tests/run/test_retention.py::test_a_clock_that_jumped_ahead_deletes_nothing": "an audit",
    "tests/papers/test_hundred_classes.py": "exports and audits models of a hundred classes",
    "tests/mitigation/test_mitigate.py::test_csv_is_the_table_of_both": "searches offsets",
    "tests/mitigation/test_mitigate.py::"
    "test_dfr_gives_untrained_members_a_head_that_knows_digits": "retrains heads",
    "tests/mitigation/test_mitigate.py::"
    "test_offsets_mend_what_a_shift_of_one_group_broke": "searches offsets",
    "tests/sources/test_predicted.py::test_nothing_but_decoded_pixels_leaves": "an audit of images",
    "tests/sources/test_predicted.py::"
    "test_an_image_outside_the_folder_of_its_table_is_refused": "S3",
    "tests/sources/test_predicted.py::"
    "test_page_of_one_model_a_side_is_drawn_again_as_it_was_judged": "an audit in a child",
    "tests/sources/test_silent_readings.py::"
    "test_a_class_that_is_a_word_among_numbers_has_one_place_under_every_hash_seed": "processes",
    "tests/sources/test_silent_readings.py::"
    "test_two_spellings_of_one_image_are_one_example": "an audit of images",
}

# What `make test` keeps of it: one of each kind.
KEPT: dict[str, str] = {
    "tests/components/test_paired_verdict.py::"
    "test_a_pipeline_goes_on_by_the_verdict_on_two_artifacts[csv-0.3-FAIL]": "kfp.local",
    "tests/components/test_paired_verdict.py::"
    "test_options_that_cannot_be_are_refused_in_a_sentence": "refusals",
    "tests/commands/test_pull_request.py::test_the_hook_judges_a_run": "the hook of a pull request",
    "tests/commands/test_commands_slices.py::"
    "test_the_interval_of_a_slice_excludes_0_as_its_test_does[loss]": "a search",
    "tests/commands/test_commands_slices.py::"
    "test_the_interval_of_a_slice_excludes_0_as_its_test_does[error]": "a search",
    "tests/report/test_browser.py::"
    "test_without_scripts_every_section_and_drawing_can_be_read": "a page in a browser",
    "tests/sources/test_external_cases.py::test_weights_are_measured": "models made elsewhere",
    "tests/sources/test_external_cases.py::"
    "test_pictures_may_be_seen_as_they_are_stored": "models and images made elsewhere",
    "tests/pipelines/test_audit.py": "the pipeline's definition",
    "tests/pipelines/test_begin.py": "the first and the exit step of a run on Kubeflow",
    "tests/pipelines/test_client.py": "requests to Kubeflow",
    "tests/pipelines/test_status.py": "what Kubeflow tells of a run",
    "tests/tracking/test_records.py": "what is logged",
    "tests/tracking/test_store.py::"
    "test_a_server_takes_hostile_group_names_as_text": "a server of MLflow",
    "tests/faults/test_bombs.py::"
    "test_no_command_follows_a_link_out_of_a_run": "links in a run that was received",
}


def is_heavy(test: str, fixtures: Iterable[str] = ()) -> bool:
    """Whether a test, by its id and what it asks for, is left to `make test-rest`."""
    named = [key for key in (*HEAVY, *KEPT) if _is_in(test, key)]
    return max(named, key=len) in HEAVY if named else not FIXTURES.isdisjoint(fixtures)


def may_hold(file: str, text: str, *, heavy: bool) -> bool:
    """Whether any test of a file may be heavy, or may be not."""
    if heavy and FIXTURES & set(re.findall(r"\w+", text)):
        return True
    return is_heavy(file) is heavy or any(_is_in(k, file) for k in (HEAVY if heavy else KEPT))


def place(test: str) -> int:
    """Where the file of a test stands among those that take longest."""
    file = test.partition("::")[0]
    places = (n for n, key in enumerate(HEAVY) if _is_in(key, file) or _is_in(file, key))
    return next(places, len(HEAVY))


def _is_in(test: str, key: str) -> bool:
    return test == key or test.startswith((f"{key}/", f"{key}::", f"{key}["))
