"""Triton's interpreter as a third opinion about the sources: slow, in a worker of its own. See ``interpreted.py``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from fmha_triton.building import triton_version

from fmha_cli import api, conformance
from fmha_triton_tests.support import interpreted

if str(triton_version()).startswith("3.6."):
    pytest.skip("the interpreter of Triton 3.6 stops at loops with NumPy 2.4", allow_module_level=True)

pytestmark = pytest.mark.slow
CASES = (
    "-b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 90 -d 64 --dtype fp16 --causal --lse",
    "-H 2 -s 33 --seqlen-k 65 -d 40 --hdim-v 24 --dtype fp16 --mask window:20,5 --lse",
    "-H 2 -s 65 -d 64 --dtype fp16 --softcap 20 --alibi --lse",
    "-H 2 -s 50 --seqlen-k 77 -d 64 --dtype fp16 --bias elementwise:1hss --sink-logits filled --lse",
    "-H 8 --kv-heads 2 -s 1 --seqlen-k 203 -d 64 --dtype fp16 --splits 3 --lse",
    "-b 2 -H 2 -s 4 --kv-cache paged:32 --cache-seqlens 96,64 -d 64 --dtype fp16 --causal --splits 2",
    "-H 4 --kv-heads 2 -s 50 --seqlen-k 70 -d 64 --dtype fp16 --causal --direction bwd",
)


def record(flags: str, root: Path) -> api.Record:
    subject = conformance.Subject(interpreted.backend, entry=interpreted.__name__, cache_root=root)
    (found,) = api.run(
        api.Problem.from_cli(flags),
        backend="triton",
        device=interpreted.DEVICE,
        registry=subject.registry,
        cache_root=str(root),
    )
    return found


@pytest.mark.promise("Triton's interpreter agrees with the kernels in fp16.")
@pytest.mark.parametrize("flags", CASES)
def test_the_interpreter_agrees(flags: str, tmp_path: Path) -> None:
    found = record(flags, tmp_path / "cache")
    assert found.verdict is api.Verdict.PASSED, found.notes


def test_the_interpreter_s_bf16_products_are_wrong(tmp_path: Path) -> None:
    """The reason why it is only a third opinion. When this fails, Triton mended it: ``features.json`` says so."""
    found = record(CASES[0].replace("fp16", "bf16"), tmp_path / "cache")
    assert found.verdict is api.Verdict.WRONG
