from kfp import dsl

from scotoma.components.image import CORE_IMAGE


@dsl.component(base_image=CORE_IMAGE, install_kfp_package=False)
def write_report(
    run_uri: str,
    verdict: dsl.Input[dsl.Artifact],
    report: dsl.Output[dsl.Artifact],
    page: dsl.Output[dsl.HTML],
) -> None:
    """Write the report page.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`.
        verdict: Where audit.json and the verdict are.

    Returns:
        report: Where it is.
        page: The page, as Kubeflow shows it.
    """
    from scotoma.steps.runner import execute

    execute(
        "report",
        run_uri,
        report.path,
        after=[verdict.path],
        shown={"report.html": page.path},
    )
