from kfp import dsl

from scotoma.components.image import CORE_IMAGE


@dsl.component(base_image=CORE_IMAGE, install_kfp_package=False)
def decide_verdict(
    run_uri: str,
    divergence: dsl.Input[dsl.Dataset],
    bias: dsl.Input[dsl.Artifact],
    slices: dsl.Input[dsl.Artifact],
    verdict: dsl.Output[dsl.Artifact],
    summary: dsl.Output[dsl.Markdown],
    metrics: dsl.Output[dsl.Metrics],
    robustness: dsl.Input[dsl.Artifact] = None,
) -> None:
    """Write audit.json and judge it: PASS, UNSURE or FAIL for every variant.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        divergence: Where the divergence scores are.
        bias: Where the tables of classes and groups are.
        slices: Where the slices are.
        robustness: Where the losses on corrupted pictures are, if they were measured.

    Returns:
        verdict: Where audit.json and the verdict are.
        summary: The verdict in words, as Kubeflow shows it.
        metrics: Numbers of every variant, by which Kubeflow compares audits.
    """
    from scotoma.steps.runner import execute

    execute(
        "verdict",
        run_uri,
        verdict.path,
        after=[each.path for each in (divergence, bias, slices, robustness) if each],
        shown={"summary.md": summary.path},
        metrics=metrics.metadata,
    )
