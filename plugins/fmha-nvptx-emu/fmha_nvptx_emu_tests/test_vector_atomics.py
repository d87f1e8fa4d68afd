"""Vectors of floats that one atomic operation adds in global memory: each element is added, and what was there is returned."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module

FILL = "cvt.rn.f32.u32 %f1, %r0; mov.f32 %f2, 0f40000000; mov.f32 %f3, 0fBF800000; mov.f32 %f4, 0f3F000000;"
"""Thread t has (t, 2, -1, 0.5)."""
ADD = "atom.global.add.v4.f32 {%f5, %f6, %f7, %f8}, [%rd0+16], {%f1, %f2, %f3, %f4};"


def run(text: str, out: Array, threads: int = 64, seed: int = 0) -> Seen:
    return launch(module(FILL + text), out, block=(threads, 1, 1), seed=seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", [ADD, "red.global.add.v4.f32 [%rd0+16], {%f1, %f2, %f3, %f4};"])
def test_every_element_of_every_thread_is_added(text: str, seed: int) -> None:
    out = np.ones(12, np.float32)
    seen = run(text, out, seed=seed)
    assert (seen.fault, seen.findings) == (None, [])
    assert out.tolist() == [1] * 4 + [1 + 63 * 32, 129, -63, 33] + [1] * 4


def test_what_was_there_is_returned_even_into_a_source() -> None:
    out = np.array([0, 0, 0, 0, 3, 4, 0, 0], np.float32)
    text = "atom.global.add.v2.f32 {%f2, %f1}, [%rd0+16], {%f1, %f2}; st.global.v2.f32 [%rd0], {%f2, %f1};"
    assert run(text, out, threads=1).fault is None
    assert out.tolist() == [3, 4, 0, 0, 3, 6, 0, 0]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (ADD.replace("+16", "+8"), "misaligned", "not a multiple of 16"),
        (ADD.replace("+16", "+48"), "out-of-bounds", "array 0"),
        (ADD.replace("%f4}", "%f9}"), "uninitialised-register", "stored"),
    ],
)
def test_its_faults_are_named(text: str, kind: str, words: str) -> None:
    seen = run(text, np.zeros(12, np.float32), threads=1)
    assert seen.named(kind, words), seen


@pytest.mark.parametrize(
    "text",
    [
        ADD.replace("add", "min"),
        ADD.replace(".global", ".shared"),
        ADD.replace(", %f4}", "}"),
        ADD.replace("{%f5, %f6, %f7, %f8}", "%f5"),
    ],
)
def test_other_vectors_do_not_load(text: str) -> None:
    assert run(text, np.zeros(12, np.float32), threads=1).fault is not None
