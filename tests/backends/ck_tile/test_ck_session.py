"""``CkSession`` on the stand-in runtime, with libraries that have the real ABI; see ``session_cases``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import session_cases

from fmha_cli.backends.ck_tile.standin.building import build_standin
from fmha_cli.domain.protocols import BuildContext

pytestmark = pytest.mark.skipif(importlib.util.find_spec("hip") is None, reason="hip-python is not installed")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", session_cases.CASES, ids=lambda c: c.__name__)
def test_session(case: Callable[[str, str], None], shared_cache: Path) -> None:
    standin = build_standin(BuildContext(cache_root=shared_cache))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(case, str(standin.path), str(shared_cache)).result(timeout=600)
