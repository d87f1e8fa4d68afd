"""What pyproject.toml cannot say: every folder of the package is one of its packages, and so are ``arch_specs/`` and the example plugin.

Folders of data alone are namespace packages; so each file in the tree is installed, and no list names any folder.
"""

from setuptools import find_namespace_packages, setup

PACKAGES = find_namespace_packages(include=["fmha_cli", "fmha_cli.*"], exclude=["*.__pycache__"])

EXAMPLE = {"fmha_cli.example": "plugins/fmha-example"}
"""What ``fmha plugins new`` starts from."""
for part in ("src/fmha_example", "tests"):
    EXAMPLE["fmha_cli.example." + part.replace("/", ".")] = f"plugins/fmha-example/{part}"

setup(
    packages=[*PACKAGES, "fmha_cli.arch_specs", *EXAMPLE],
    package_dir={"fmha_cli.arch_specs": "arch_specs", **EXAMPLE},
)
