"""The kernels execute on emulated AMD devices, and faults planted in their text are found. All of it is slow.

CI runs a drawn part of it: one problem on each architecture and two faults. ``benchmarks/triton_check.py`` executes every kind of
kernel on every architecture.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")
if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from fmha_triton import building
from fmha_triton.emit import emit
from run_cache import run_cache

from fmha_cli import api

pytestmark = pytest.mark.slow
ARCHS = ("gfx942", "gfx1201")
FORWARD = "-H 2 -s 40 --seqlen-k 50 -d 64 --dtype fp16 --causal --lse"
PADDED = "-H 1 -s 33 --seqlen-k 40 -d 40 --dtype fp16 --lse"
DECODE = "-b 2 -H 4 --kv-heads 2 -s 1 --kv-cache paged:16 --cache-seqlens 50,21 -d 64 --dtype bf16 --splits 2 --lse"
BACKWARD = "-H 2 -s 33 --seqlen-k 40 -d 64 --dtype bf16 --causal --direction bwd"


def drawn(cases: Sequence[tuple[str, ...]], count: int, seed: str) -> list[Any]:
    """The cases as parameters; ``count`` of them, the same for the same seed, are marked for CI."""
    chosen = Random(seed).sample(range(len(cases)), count)
    return [pytest.param(*case, marks=[pytest.mark.ci] if n in chosen else []) for n, case in enumerate(cases)]


def rows() -> list[Any]:
    """Every problem on every architecture, one of each architecture for CI."""
    problems = (FORWARD, PADDED, DECODE, BACKWARD)
    return [row for arch in ARCHS for row in drawn([(arch, flags) for flags in problems], 1, arch)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the run, or the one that CI names: compiling the emulator takes more than all of these tests."""
    return os.environ.get("FMHA_CACHE_DIR") or str(run_cache(tmp_path_factory))


def record(flags: str, arch: str, cache: str) -> api.Record:
    problem = api.Problem.from_cli(flags)
    (found,) = api.run(problem, backend="triton", device=f"emu:{arch}", cache_root=cache)
    return found


@pytest.mark.parametrize(("arch", "flags"), rows())
def test_a_kernel_passes(arch: str, flags: str, cache: str) -> None:
    found = record(flags, arch, cache)
    assert found.verdict is api.Verdict.PASSED, found.notes
    assert not found.findings


FAULTS = {
    "keys behind the end are loaded": (PADDED, "keep = first + tl.arange(0, R)[None, :] < length", "keep = first + tl.arange(0, R)[None, :] < length + 64"),
    "padding of the head dim is loaded": (PADDED, "keep = keep & (tl.arange(0, D)[:, None] < width)", "keep = keep"),
    "the mask is off by one": (FORWARD, "(j <= shifted + right)", "(j <= shifted + right + 1)"),
    "the maximum is not kept": (FORWARD, "alpha = tl.exp2(top - safe)", "alpha = tl.exp2(top - top)"),
    "the LSE is in bits": (FORWARD, "* LN2, float(\"-inf\"))", ", float(\"-inf\"))"),
    "a part of the keys is lost": (DECODE, "for part in range(splits):", "for part in range(1, splits):"),
    "the page is not looked up": (DECODE, "j // page, mask=j < keys", "j // page * 0, mask=j < keys"),
    "dK lacks the scale": (BACKWARD, "(dk * scale)", "(dk)"),
    "the sums are not subtracted": (BACKWARD, "- sums[:, None])", "- 0.0 * sums[:, None])"),
}  # fmt: skip


@pytest.mark.parametrize("name", drawn([(name,) for name in FAULTS], 2, "faults"))
def test_a_planted_fault_is_found(name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flags, text, other = FAULTS[name]
    planted = []

    def faulty(kernel: api.KernelSpec) -> str:
        source = emit(kernel)
        planted.append(text in source)
        return source.replace(text, other)

    monkeypatch.setattr(building, "emit", faulty)
    found = record(flags, "gfx942", cache)
    assert any(planted)
    assert found.verdict not in (api.Verdict.PASSED, api.Verdict.BUILD_FAILED) or found.findings
