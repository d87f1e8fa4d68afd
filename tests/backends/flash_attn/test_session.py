"""``FaSession`` on the stand-in driver, through unmodified cuda-python; see ``tests.support.children.flash_attn.session``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu.building import build_recorder

from fmha_cli.domain.protocols import BuildContext
from tests.support.children.flash_attn import session

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="cuda-python is not installed"),
    pytest.mark.promise(
        "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
    ),
]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("case", session.CASES, ids=lambda c: c.__name__)
def test_session(case: Callable[[str, str], None], shared_cache: Path, tmp_path: Path) -> None:
    standin = build_recorder(BuildContext(cache_root=shared_cache, jobs=3))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(case, str(standin.path), str(tmp_path)).result(timeout=600)
