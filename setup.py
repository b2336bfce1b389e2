"""What pyproject.toml cannot say: the folder configs/ is installed as the package harp_jax.configs."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["harp_jax", "harp_jax.*", "data_pipeline", "data_pipeline.*"]),
        *(f"harp_jax.{name}" for name in find_packages(include=["configs", "configs.*"])),
    ],
    package_dir={"harp_jax": "harp_jax", "data_pipeline": "data_pipeline", "harp_jax.configs": "configs"},
    # All data files are named: setuptools takes the folders of those that MANIFEST.in adds for packages, and warns.
    include_package_data=False,
    package_data={
        "harp_jax": ["py.typed", "text/inquery.txt", "evaluation/templates/*", "serving/static/*"],
        "data_pipeline": ["py.typed"],
    },
)
