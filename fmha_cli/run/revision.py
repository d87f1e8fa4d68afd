"""The revision of the user's own repository at the current folder, queried from git while kernels are built."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

LONGEST_S = 2.0
"""How long the rows wait for git. A repository that takes longer has no revision in its records."""

_COMMAND = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
_SAFE = ("--no-optional-locks", "-c", "core.fsmonitor=false")
"""The repository is only read, and a program that its configuration names is not started."""


class GitRevision:
    """One query to git, started in the background when the object is made. Nothing here ever fails.

    Attributes:
        commit: the commit that is checked out; None without a repository, without git, or if git was too slow.
        dirty: whether a tracked file differs from it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.commit: str | None = None
        self.dirty: bool | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            here = Path.cwd() if folder is None else folder
            git = shutil.which("git")
            if git is not None and any((above / ".git").exists() for above in (here, *here.parents)):
                self._process = subprocess.Popen(
                    [git, *_SAFE, *_COMMAND],
                    cwd=here,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "LC_ALL": "C"},
                )
        except OSError:
            return

    def wait(self) -> None:
        """Take the answer; called before the first kernel is timed, so git does not disturb a measurement."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            answer, _ = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return
        lines = answer.decode("ascii", "replace").splitlines()
        commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "")
        if process.returncode == 0 and commit and commit.isalnum():
            self.commit, self.dirty = commit, any(not line.startswith("#") for line in lines)

    def __enter__(self) -> GitRevision:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
