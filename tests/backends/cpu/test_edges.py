"""Tensors at the very end or the very start of a mapping, so the next element is on an unreadable page."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.backends.cpu.meanings import meanings
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.signature import KvKey
from fmha_cli.domain.tensors import Element
from tests.support.generators.cpu.cases import BEST, AttentionCase, Load, complaints, make_data, run

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
FENCED = ("q", "k", "v", "o", "bias", "lse", "alibi_slopes", "sink_logits")


def fenced(array: np.ndarray, at_end: bool, keep: list[mmap.mmap]) -> np.ndarray:
    """A copy of a dense array that ends where a mapping ends, or starts where it starts."""
    inside = -(-max(array.nbytes, 1) // PAGE) * PAGE
    region = mmap.mmap(-1, inside + 2 * PAGE)
    keep.append(region)
    base = np.frombuffer(region, np.uint8).ctypes.data
    for fence in (base, base + PAGE + inside):
        assert LIBC.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(PAGE), 0) == 0
    start = PAGE + (inside - array.nbytes if at_end else 0)
    copy = np.frombuffer(region, np.uint8, array.nbytes, start).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_outside_is_touched(load: Load, arch: str, dtype: str, kind: str) -> None:
    library = load(arch, dtype, kind)
    rng = np.random.default_rng(8)
    for hdim, hdim_v, keys in ((1, 1, 1), (3, 5, 13), (33, 17, 29), (64, 100, 50), (127, 31, 7)):
        for at_end in (True, False):
            rows = 7 if kind == "decode" else 37
            case = AttentionCase(
                dtype, heads=2, kv_heads=2, hdim=hdim, hdim_v=hdim_v, q_len=(rows,) * 2, k_len=(keys,) * 2,
                capacity=keys, bias=(2, 2), sink_logits=True, softcap=9.0, right=3, threads=1,
            )  # fmt: skip
            make_data(case, rng)
            keep: list[mmap.mmap] = []
            for name in FENCED:
                if name in case.data:
                    case.data[name] = fenced(np.ascontiguousarray(case.data[name]), at_end, keep)
            case.data["o_buffer"] = case.data["o"].reshape(-1)
            run(library, case)
            assert complaints(case) == [], case


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_outside_8_bit_keys_and_values_is_read(build_text: Callable[..., ctypes.CDLL], arch: str) -> None:
    """Columns that fill no vector and no tile, with one head, whose rows are read in one run, and with two."""
    kernel = next(
        k for k in cpu_kernels(load_arch(arch))
        if algorithm_of(k).kind is LoopKind.DECODE and (k.signature.dtype, k.signature.kv_dtype) == (DType.BF16, KvKey.BYTE)
    )  # fmt: skip
    library, rng, table = (
        build_text(kernel, emit),
        np.random.default_rng(8),
        np.array(meanings(Element.FP8_E4M3), np.float32),
    )
    for number, (hdim, hdim_v, keys) in enumerate(((1, 8, 1), (24, 5, 13), (72, 17, 29), (64, 100, 50), (128, 33, 7))):
        for rows in (1, 7):
            heads = 1 + (number + rows) % 2
            case = AttentionCase(
                "bf16", heads=heads, kv_heads=heads, hdim=hdim, hdim_v=hdim_v, q_len=(rows,) * 2, k_len=(keys,) * 2,
                capacity=keys, threads=1, bshd=True,
            )  # fmt: skip
            make_data(case, rng)
            keep: list[mmap.mmap] = []
            for name in ("k", "v"):
                rows_of_heads = np.ascontiguousarray(case.data[name].transpose(0, 2, 1, 3))
                whole = fenced(rows_of_heads.astype(ml_dtypes.float8_e4m3fn), True, keep)
                case.data[name] = whole.transpose(0, 2, 1, 3)
            run(library, case, k_table=table.ctypes.data)
            assert complaints(case) == [], case


def test_two_launches_at_once(load: Load) -> None:
    """The second launch runs without the pool."""
    library = load(BEST, "fp32", "prefill")
    cases = [AttentionCase("fp32", heads=4, q_len=(200,), k_len=(300,), capacity=300, data={}) for _ in range(4)]
    for seed, case in enumerate(cases):
        make_data(case, np.random.default_rng(seed))

    def many(case: AttentionCase) -> None:
        for _ in range(30):
            run(library, case)

    threads = [threading.Thread(target=many, args=(case,)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [complaints(case) for case in cases] == [[]] * 4


def test_release_and_again(load: Load) -> None:
    library = load(BEST, "fp32", "prefill")
    for threads in (2, 6, 1, 3):
        case = AttentionCase("fp32", heads=8, q_len=(200,), k_len=(300,), capacity=300, threads=threads, data={})
        make_data(case, np.random.default_rng(threads))
        run(library, case)
        assert complaints(case) == []
        library.fmha_cpu_release()


@pytest.mark.slow
@pytest.mark.ci
def test_out_of_memory_is_a_status(load: Load) -> None:
    """Scratch for 2^40 rows of copies cannot be allocated; the kernel reads nothing before it asks for it."""
    from fmha_cli.codegen.abi import ENTRY, EntryStatus, FmhaCpuArgs
    from fmha_cli.codegen.struct import pack

    library = load(BEST, "fp16", "prefill")
    word = np.zeros(4, np.float16).ctypes.data
    block = FmhaCpuArgs(
        q=word, k=word, v=word, o=word, batch=1, heads=1, kv_heads=1, seqlen_q=1, seqlen_k=1 << 40, hdim=256,
        hdim_v=256, scale=1.0,
    )  # fmt: skip
    assert library[ENTRY](ctypes.byref(pack(block))) == EntryStatus.OUT_OF_MEMORY
    bad = FmhaCpuArgs(
        q=word,
        k=word,
        v=word,
        o=word,
        batch=1,
        heads=3,
        kv_heads=2,
        seqlen_q=1,
        seqlen_k=1,
        hdim=8,
        hdim_v=8,
        scale=1.0,
    )
    assert library[ENTRY](ctypes.byref(pack(bad))) == EntryStatus.BAD_ARGUMENT
