"""Paged caches on the kernels alone: pages of every size, shared pages, entries that must not be read, faults of the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import detect
from tests.support.generators.cpu.cases import AttentionCase, Load, complaints, make_data, run
from tests.support.models.faults import CacheFault

BASE = AttentionCase(
    "fp32", heads=4, kv_heads=2, q_len=(9, 9), k_len=(150, 33), capacity=150, hdim=32, hdim_v=24, page=16
)
KINDS = ("prefill", "decode")


def results(load: Load, kind: str, case: AttentionCase, fault: CacheFault | None = None) -> list[str]:
    make_data(case, np.random.default_rng(11))
    run(load(detect().archs[0], case.dtype, kind, fault), case)
    return complaints(case)


@pytest.mark.sampled(4, ci="all")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("page", [1, 5, 16, 64, 256, 1000])
def test_pages_of_every_size(load: Load, kind: str, dtype: str, page: int) -> None:
    assert results(load, kind, replace(BASE, dtype=dtype, page=page, hdim=33, data={})) == []


@pytest.mark.parametrize("kind", KINDS)
def test_many_blocks_of_keys_behind_a_sink_and_a_window(load: Load, kind: str) -> None:
    case = replace(BASE, q_len=(3, 3), k_len=(3000, 2000), capacity=3000, left=700, right=10, sink=300, data={})
    assert results(load, kind, case) == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("kind", KINDS)
def test_sequences_share_pages(load: Load, kind: str) -> None:
    """Both sequences begin with the same two pages, as with a common prompt."""
    case, rng = replace(BASE, data={}), np.random.default_rng(3)
    make_data(case, rng)
    d, shared = case.data, 2 * case.page
    for name in ("k", "v"):
        d[name][1, :, :shared] = d[name][0, :, :shared]
        d[f"{name}_pages"][d["block_table"][1, :2]] = np.nan
    d["block_table"][1, :2] = d["block_table"][0, :2]
    run(load(detect().archs[0], case.dtype, kind), case)
    assert complaints(case) == []


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [CacheFault.STALE_PAGE, CacheFault.PAGE_TABLE_END])
def test_a_wrong_page_shows(load: Load, kind: str, fault: CacheFault) -> None:
    assert results(load, kind, replace(BASE, data={})) == []
    assert results(load, kind, replace(BASE, data={}), fault) != []


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_pages_and_a_linear_cache_give_the_same_bits(load: Load, kind: str) -> None:
    library, seen = load(detect().archs[0], "bf16", kind), set()
    for page in (0, 16, 150):
        case = replace(BASE, dtype="bf16", page=page, hdim=32, data={})
        make_data(case, np.random.default_rng(4))
        run(library, case)
        seen.add(case.data["o"].tobytes())
    assert len(seen) == 1
