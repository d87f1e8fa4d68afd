"""What the tests of outputs share: a small sweep, a disk that is full, a place for journals."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from tests.cli.test_commands import SMALL

PROGRAM = (sys.executable, "-m", "fmha_cli")
SWEEP = ("run", *SMALL, "--softcap", "1:4:+1")
FORMATS = (None, "json", "jsonl", "csv", "md")
WRONG = null_kernel(DType.FP16, Family.FWD, Behaviour.NAN).digest[:16]


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Every file in the folder meets a full disk when it is made durable."""
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        yield


def journals_of_this_test(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """The folder of journals in a cache that no other test uses."""
    monkeypatch.setenv("FMHA_CACHE_DIR", str(folder / "cache"))
    return folder / "cache" / "journals"
