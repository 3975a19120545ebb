"""Which packages the wheel holds: components/ and pipelines/ stand at the top for readers."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["scotoma", "scotoma.*"]),
        # No Python in these, but packages to setuptools.
        "scotoma.review.page",
        "scotoma.study.page",
        *(f"scotoma.{name}" for name in find_packages(include=["components*", "pipelines*"])),
    ],
    package_dir={
        "scotoma": "scotoma",
        "scotoma.components": "components",
        "scotoma.pipelines": "pipelines",
    },
)
