"""Triton kernels of PyTorch, flash-linear-attention and Triton's tutorials against numpy: code that nobody here wrote.

The tutorials need ``FMHA_TRITON_HOME``, a checkout of triton-lang/triton at the pinned commit; flash-linear-attention needs its package.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from random import Random

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("triton", reason="Triton's compiler is not installed (pip install triton)")
pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")

from fmha_nvptx_emu_tests.support import attention_anchors, fla_anchors, pytorch_anchors, tutorial_anchors
from fmha_nvptx_emu_tests.support.triton_anchors import ARCHS, ROUNDING, WITH_MAPS, Maker, execute, jitted, worst

TUTORIALS = {**tutorial_anchors.CASES, **attention_anchors.CASES}
needs_tutorials = pytest.mark.skipif(
    not os.environ.get(tutorial_anchors.VARIABLE), reason=f"{tutorial_anchors.VARIABLE} names no checkout of Triton"
)
DRAWN = Random("anchors").sample(
    [(n, a, r) for n in TUTORIALS for a in (WITH_MAPS if "TMA" in n else ARCHS) for r in (False, True)], 8
)
"""A part of what the check ``nvptx_anchors`` executes."""


def assert_right(maker: Maker, arch: str, ragged: bool) -> None:
    case = maker(np.random.default_rng(0), ragged, arch)
    assert arch in case.archs
    ran = execute(arch, case, 0)
    assert ran.seen.fault is None, ran.seen.fault
    assert not ran.seen.findings, ran.seen.findings
    assert ran.error < case.budget


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@pytest.mark.parametrize("ragged", [False, True], ids=["even", "ragged"])
@pytest.mark.parametrize("name", pytorch_anchors.CASES)
def test_a_kernel_agrees_with_numpy(name: str, ragged: bool) -> None:
    assert_right(pytorch_anchors.CASES[name], "sm_80", ragged)


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@pytest.mark.skipif(importlib.util.find_spec("fla") is None, reason="pip install --no-deps fla-core==0.6.0")
@pytest.mark.parametrize("name", fla_anchors.CASES)
def test_packed_attention_agrees_with_numpy(name: str) -> None:
    assert_right(fla_anchors.CASES[name], "sm_80", ragged=True)


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
@needs_tutorials
@pytest.mark.parametrize(("name", "arch", "ragged"), DRAWN)
def test_a_tutorial_agrees_with_numpy(name: str, arch: str, ragged: bool) -> None:
    assert_right(TUTORIALS[name], arch, ragged)


@pytest.mark.promise("Kernels that NVRTC, clang and Triton compile agree with numpy on the PTX emulator.")
def test_a_wrong_sum_is_noticed() -> None:
    """A planted fault: a reciprocal in place of each power of two."""
    case = pytorch_anchors.CASES["sparse softmax"](np.random.default_rng(0), False, "sm_80")
    assert not execute("sm_80", case, 0, ("ex2.approx", "rcp.approx")).error < ROUNDING


@needs_tutorials
@pytest.mark.parametrize(
    ("name", "arch", "text", "kind"),
    [
        ("matmul", "sm_80", "cp.async.wait_group", "missing-wait"),
        ("matmul, TMA", "sm_90", "wgmma.wait_group", "missing-wait"),
    ],
)
def test_a_wait_that_is_left_out_is_found(name: str, arch: str, text: str, kind: str) -> None:
    case = TUTORIALS[name](np.random.default_rng(0), False, arch)
    assert kind in execute(arch, case, 0, (text, f"// {text}")).seen.kinds


def test_a_row_of_zeros_and_a_nan_count() -> None:
    assert worst(np.array([[0.0, 0.5]]), np.zeros((1, 2))) == 0.5
    assert worst(np.array([[np.nan, 1.0]]), np.ones((1, 2))) == np.inf


def test_only_jitted_functions_are_cut_out() -> None:
    text = "x = gpu()\nif gpu():\n    @triton.autotune(configs=[])\n    @triton.jit(debug=True)\n    def f(a):\n        return g(a)\n\ndef h():\n    pass\n\n@triton.jit\ndef g(a):\n    return a\n"
    cut = jitted(text)
    assert "gpu" not in cut
    assert "autotune" not in cut
    assert "def h" not in cut
    assert cut.count("@triton.jit\ndef ") == 2


def test_a_tutorial_of_another_revision_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tutorial_anchors.VARIABLE, raising=False)
    with pytest.raises(ValueError, match="does not name a checkout"):
        tutorial_anchors.tutorial("02-fused-softmax.py")
    monkeypatch.setenv(tutorial_anchors.VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match="is no checkout"):
        tutorial_anchors.tutorial("02-fused-softmax.py")
    folder = tmp_path / "python" / "tutorials"
    folder.mkdir(parents=True)
    (folder / "02-fused-softmax.py").write_text("edited")
    with pytest.raises(ValueError, match="is not the file of commit"):
        tutorial_anchors.tutorial("02-fused-softmax.py")
