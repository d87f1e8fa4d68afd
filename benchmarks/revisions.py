"""The tree of another revision of this repository, next to this checkout, and processes that import the modules of one
of them.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """A folder with the files of a revision, removed at the end. Ends the script if git has no such revision, after git's own words."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", revision], stdout=subprocess.PIPE, check=False)
    if packed.returncode:
        sys.exit(f"git has no revision {revision!r} in {ROOT}")
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder).resolve()


def environment_of(tree: Path) -> dict[str, str]:
    """The variables of a Python process that imports the package and the benchmarks of a tree."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "benchmarks")])}


def require_from(tree: Path, module: str) -> None:
    """Raises RuntimeError if a module's file, which a process told, is not one of the tree."""
    if not Path(module).is_relative_to(tree):
        raise RuntimeError(f"{module or 'nothing'} was imported, which is not of {tree}")
