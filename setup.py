"""The one thing that pyproject.toml cannot say: the packages that are found, and ``arch_specs/`` as one of them."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["fmha_cli", "fmha_cli.*"]), "fmha_cli.arch_specs"])
