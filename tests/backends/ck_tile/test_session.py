"""``CkSession`` on the stand-in runtime, with libraries that have the real ABI; see ``tests.support.children.ck_tile.session``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")

from fmha_cli.domain.protocols import BuildContext
from tests.support.children.ck_tile import session
from tests.support.fakes.hip_recorder import build_standin

pytestmark = pytest.mark.skipif(importlib.util.find_spec("hip") is None, reason="hip-python is not installed")


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("case", session.CASES, ids=lambda c: c.__name__)
def test_session(case: Callable[[str, str], None], shared_cache: Path) -> None:
    standin = build_standin(BuildContext(cache_root=shared_cache))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(case, str(standin.path), str(shared_cache)).result(timeout=600)
