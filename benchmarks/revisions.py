"""The tree of another revision of this repository, beside this checkout."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """A folder with the files of a revision, removed at the end. Raises CalledProcessError if git knows no such revision."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", revision], stdout=subprocess.PIPE, check=True)
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder).resolve()
