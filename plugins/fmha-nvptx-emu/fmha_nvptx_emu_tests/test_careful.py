"""Random accesses to shared and tensor memory, and of registers that may hold nothing: a careful run finds the same (``launch`` compares)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch, module
from fmha_nvptx_emu_tests.test_tensor_memory import run, vector

TILE = 2048
"""Bytes of shared memory; four warps of 16 bytes a lane fill it."""

VECTORS = {1: "b8", 2: "b16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}
"""The type of an access by its bytes."""


def place(rng: random.Random, size: int) -> str:
    """%r31: where each lane accesses ``size`` bytes: a place of its own, or one that the lanes of other warps have too."""
    lane, offset = rng.choice(("%r0", "%r0", "%r30")), size * rng.randrange(8)
    return f"mad.lo.u32 %r31, {lane}, {size}, {offset}; and.b32 %r31, %r31, {TILE - size}; add.u32 %r31, %r31, %r29;"


def operands(rng: random.Random, size: int, names: tuple[str, ...]) -> str:
    """The registers of an access: of bytes and half words a 16-bit one."""
    if size < 4:
        return "%h1"
    chosen = [rng.choice(names) for _ in range(size // 4)]
    return chosen[0] if size == 4 else f"{{{', '.join(chosen)}}}"


def statements(rng: random.Random) -> Iterator[str]:
    """Stores, loads, also of matrices, atomics, copies, barriers and waits, some of them for some lanes alone."""
    for number in range(rng.randrange(4, 24)):
        size, guard = rng.choice(tuple(VECTORS)), rng.choice(("", "", "", "@%p1 ", "@!%p1 "))
        match rng.randrange(12):
            case 0 | 1 | 2:
                yield place(rng, size)
                yield f"{guard}st.shared.{VECTORS[size]} [%r31], {operands(rng, size, ('%r0', '%r1', '%r28', '%r41', '%r42'))};"
            case 3 | 4:
                yield place(rng, size)
                loaded = operands(rng, size, ("%r41", "%r42", "%r43"))
                if len(set(loaded.split(", "))) == max(1, size // 4):
                    yield f"{guard}ld.shared.{VECTORS[size]} {loaded}, [%r31];"
            case 5:
                size = max(4, size)
                yield place(rng, size)
                yield f"mad.wide.u32 %rd3, %r30, {size}, %rd0; {guard}cp.async.ca.shared.global [%r31], [%rd3], {size}; cp.async.commit_group;"
            case 6:
                yield f"cp.async.wait_group {rng.randrange(2)};"
            case 7:
                yield "bar.sync 0;"
            case 8:
                yield place(rng, 4)
                yield f"{guard}atom.shared.add.u32 %r{rng.randrange(41, 44)}, [%r31], 1;"
            case 9 | 10:
                yield place(rng, rng.choice((16, 16, 32)))
                changed, at = rng.choice(("", "", "", "", "8", str(TILE), "%r43")), rng.choice(("%r31", "%r31", "%rd5"))
                yield f"{changed and f'add.u32 %r31, %r31, {changed};'} cvt.u64.u32 %rd5, %r31;"
                to = rng.sample(("%r41", "%r42", "%r43", "%r44"), rng.choice((2, 4, 4)))
                turned = rng.choice(("", ".trans"))
                yield f"ldmatrix.sync.aligned.m8n8.x{len(to)}{turned}.shared.b16 {{{', '.join(to)}}}, [{at}];"
            case _:
                yield f"{guard}add.u32 %r{rng.randrange(41, 44)}, %r{rng.randrange(41, 44)}, {number};"


def program(seed: int) -> str:
    """A kernel. The registers %r41 to %r44 hold nothing at first."""
    rng = random.Random(seed)
    return module(
        "mov.u32 %r28, 7; mov.u32 %r29, tile; and.b32 %r30, %r0, 31; mov.u32 %r1, %r30; cvt.u16.u32 %h1, %r0;"
        f"setp.lt.u32 %p1, %r30, {rng.randrange(33)};\n"
        + "\n".join(statements(rng))
        + "\nmad.wide.u32 %rd3, %r0, 4, %rd0;"
        "add.u32 %r41, %r41, %r42; st.global.u32 [%rd3], %r41;",
        head=f".shared .align 16 .b8 tile[{TILE}];",
    )


def tensor_statements(rng: random.Random) -> Iterator[str]:
    """Loads and stores of some columns by each warp, waits and barriers."""
    for _ in range(rng.randrange(4, 16)):
        times = 1 << rng.randrange(6)
        column = rng.randrange(65 - times)
        match rng.randrange(6):
            case 0 | 1:
                yield f"tcgen05.st.sync.aligned.32x32b.x{times}.b32 [%r12+{column}], {vector(times)};"
            case 2 | 3:
                yield f"tcgen05.ld.sync.aligned.32x32b.x{times}.b32 {vector(times)}, [%r12+{column}];"
            case 4:
                yield f"tcgen05.wait::{rng.choice(('ld', 'st'))}.sync.aligned;"
            case _:
                yield f"mov.b32 %a{rng.randrange(32)}, %r0;"


def counted(seen: Seen, kinds: Counter[str]) -> None:
    assert seen.fault is None, seen.fault
    kinds.update(set(seen.kinds))


@pytest.mark.promise("A careful run of an emulator leaves the results, counts and findings of a fast one.")
def test_random_programs_end_the_same() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(400):
        counted(launch(program(seed), np.arange(128, dtype=np.uint32), block=(128, 1, 1), seed=seed), kinds)
    accesses = {"shared-race", "missing-wait", "misaligned", "out-of-bounds"}
    assert kinds.keys() == accesses | {"uninitialised-register", "uninitialised-shared"}
    assert min(kinds.values()) >= 50, kinds


def test_random_uses_of_tensor_memory_end_the_same() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(100):
        body = "\n".join(
            [*tensor_statements(random.Random(seed)), "mad.wide.u32 %rd4, %r0, 4, %rd0; st.global.b32 [%rd4], %a0;"]
        )
        counted(run(body, np.zeros(128, np.uint32), seed=seed), kinds)
    assert min(kinds["missing-wait"], kinds["uninitialised-register"]) >= 20, kinds
