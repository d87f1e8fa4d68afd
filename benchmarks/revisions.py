"""The tree of another revision of this repository, beside this checkout."""

from __future__ import annotations

import io
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
