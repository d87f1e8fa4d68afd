"""The releases of PyTorch that were tried compute the kernels of the CPU alike (slow)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.builds.library_releases import passed, pip_install

plugin = pytest.importorskip("fmha_torch", reason="pip install -e plugins/fmha-torch")

LINES = (
    "way=flash,masking=causal -H 2 -s 33 -d 64 --dtype fp32 --lse",
    "way=flash,masking=causal -H 4 --kv-heads 2 -s 33 -d 64 --dtype bf16 --mask causal-tl --seqlen-k 40",
    "way=flash,masking=tensor -H 4 --kv-heads 2 -s 33 --seqlen-k 40 -d 64 --dtype fp16 --causal",
    "way=flash,masking=tensor -b 2 -H 2 -s 33 -d 40 --dtype fp32 --bias elementwise:b1ss --scale 0.3",
    "way=flash,masking=causal -H 2 -s 33 -d 64 --dtype fp32 --causal --direction bwd",
    "way=flash,masking=tensor -H 4 --kv-heads 2 -s 33 --seqlen-k 40 -d 64 --dtype fp32 --mask window:9,3 --direction bwd",
    "way=math,masking=causal -H 2 -s 33 -d 64 --hdim-v 32 --dtype bf16 --mask causal-tl",
    "way=math,masking=tensor -H 4 --kv-heads 2 -s 33 --seqlen-k 20 -d 64 --dtype fp16 --causal",
    "way=math,masking=tensor -H 2 -s 33 -d 64 --dtype fp32 --bias elementwise --dbias --direction bwd",
    "way=flex,masking=score_mod -H 4 --kv-heads 2 -s 33 --seqlen-k 40 -d 64 --dtype fp32 --mask window:9,3 --softcap 5 --lse",
    "way=flex,masking=score_mod -H 2 --seqlens-q 9,33 -d 64 --dtype bf16 --causal --alibi",
    "way=flex_compiled,masking=score_mod -H 4 --kv-heads 2 -s 128 -d 64 --dtype fp32 --causal",
)
"""Words of a kernel's name, and a problem."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("release", plugin.TorchBackend.tried)
def test_each_tried_release_computes_them(release: str, tmp_path: Path) -> None:
    library = pip_install(tmp_path / "library", f"torch=={release}", needs=True)
    assert passed("fmha_torch", library, tmp_path, LINES) == [True for _ in LINES]
