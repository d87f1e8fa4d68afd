"""How the threads of a prefill launch share its tiles."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import numpy as np
import pytest

from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.cpu.cases import (
    AttentionCase,
    Load,
    best_and_tiles,
    complaints,
    kernel_of,
    make_data,
    run,
)

Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
HELP = "__atomic_load_n(job.next_item + own, __ATOMIC_RELAXED) < job.first_item[own + 1]"
PROBE = """
static Job drawn;
extern "C" EXPORT void start(i64 groups, i64* first, i64* next, i64 apart) {
  drawn.g0 = 0, drawn.g1 = groups, drawn.next = 0, drawn.apart = apart, drawn.first_item = first, drawn.next_item = next;
}
extern "C" EXPORT i64 one(i64* own) { return draw(drawn, *own); }
"""


def draws(library: ctypes.CDLL, sizes: list[int], threads: int, apart: bool, seed: int) -> list[tuple[int, int]]:
    """(thread, item) of all draws, in order: threads draw in a random order, each until nothing is left."""
    first = np.cumsum([0, *sizes], dtype=np.int64)
    following, own = first[:-1].copy(), [ctypes.c_int64(len(sizes)) for _ in range(threads)]
    pointer = [a.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)) for a in (first, following)]
    library.start(ctypes.c_int64(len(sizes)), *pointer, ctypes.c_int64(apart))
    library.one.restype, chance, out, left = ctypes.c_int64, random.Random(seed), [], [*range(threads)]
    while left:
        thread = chance.choice(left)
        item = int(library.one(ctypes.byref(own[thread])))
        if item < first[-1]:
            out.append((thread, item))
        else:
            left.remove(thread)
            assert len(out) == first[-1] or not apart, "a thread ends before everything is drawn"
    return out


def keeps_to_groups(drawn: list[tuple[int, int]], sizes: list[int]) -> bool:
    """Whether each thread takes another group only when its own has nothing left, and a begun group only when all are begun."""
    group = np.repeat(range(len(sizes)), sizes)
    left, begun, last = list(sizes), set[int](), dict[int, int]()
    full = {g for g, size in enumerate(sizes) if size}
    for thread, item in drawn:
        g = int(group[item])
        if g != last.get(thread, g) and left[last[thread]]:
            return False
        if g in begun and last.get(thread) != g and full - begun:
            return False
        left[g] -= 1
        begun.add(g)
        last[thread] = g
    return True


@pytest.fixture(scope="module")
def probe(build_text: Build) -> ctypes.CDLL:
    return build_text(kernel_of(WHOLE[0], "fp32", "prefill"), lambda kernel: emit(kernel) + PROBE)


@pytest.mark.promise("A CPU launch computes every tile once, and restores the caller's floating-point state.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("seed", range(40))
def test_every_tile_is_drawn_once_by_threads_that_keep_to_a_head(probe: ctypes.CDLL, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice((0, 1, 2, 7)) for _ in range(chance.randint(1, 9))]
    for threads in (1, 2, 3, 8):
        drawn = draws(probe, sizes, threads, True, seed)
        assert sorted(item for _, item in drawn) == [*range(sum(sizes))]
        assert keeps_to_groups(drawn, sizes)
        assert [item for _, item in draws(probe, sizes, threads, False, seed)] == [*range(sum(sizes))]


@pytest.mark.promise("A CPU launch computes every tile once, and restores the caller's floating-point state.")
@pytest.mark.slow
@pytest.mark.ci
def test_planted_a_thread_that_helps_nobody(build_text: Build) -> None:
    """Its launch would be right, and take as long as its longest head."""

    def alone(kernel: KernelSpec) -> str:
        text = emit(kernel) + PROBE
        assert HELP in text
        return text.replace(HELP, "false")

    library = build_text(kernel_of(WHOLE[0], "fp32", "prefill"), alone)
    with pytest.raises(AssertionError, match="before everything is drawn"):
        draws(library, [5], 2, True, 1)


def test_planted_draws_in_order_do_not_keep_to_heads(probe: ctypes.CDLL) -> None:
    sizes = [4, 4, 4]
    assert not keeps_to_groups(draws(probe, sizes, 2, False, 1), sizes)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("arch", "dtype"), best_and_tiles())
@pytest.mark.parametrize("keys", [300, 3000], ids=["held by a core", "not held"])
def test_the_bits_do_not_depend_on_the_number_of_threads(keys: int, arch: str, dtype: str, load: Load) -> None:
    """Either way of sharing: K and V of a head below a megabyte, and above it (in fp32; two megabytes)."""
    shape = {"heads": 6, "kv_heads": 3, "hdim": 96, "hdim_v": 88, "q_len": (150, 0, 33), "packed": True, "right": 0}
    case, results = AttentionCase(dtype, **shape, k_len=(keys, 5, keys // 3), capacity=0), []
    make_data(case, np.random.default_rng(6))
    for threads in (1, 2, 3, 7):
        case.threads = threads
        case.data["o"][...] = case.data["lse"][...] = np.nan
        run(load(arch, dtype, "prefill"), case)
        results.append(case.data["o_buffer"].tobytes() + case.data["lse"].tobytes())
    assert complaints(case) == []
    assert len(set(results)) == 1
