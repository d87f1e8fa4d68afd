"""What pyproject.toml cannot say: every folder of the package is one of its packages, and so is ``arch_specs/``.

Folders of data alone are namespace packages; so each file in the tree is installed, and no list names any folder.
"""

from setuptools import find_namespace_packages, setup

PACKAGES = find_namespace_packages(include=["fmha_cli", "fmha_cli.*"], exclude=["*.__pycache__"])

setup(packages=[*PACKAGES, "fmha_cli.arch_specs"])
