"""Rows on the CPU: the kernels that ran are observed, the requested number of threads is used, and a library's errors
show.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")

from fmha_cli import api, plugin  # noqa: E402

LINES = {
    "-s 40 --dtype fp32 --causal": "_scaled_dot_product_flash_attention_for_cpu",
    "-s 40 --seqlen-k 60 --causal --dtype bf16": "_scaled_dot_product_flash_attention_for_cpu",
    "-s 40 --hdim-v 64": "_scaled_dot_product_attention_math",
    "-s 40 --direction bwd": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "-s 40 --direction fwd+bwd --dtype fp32": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "-s 40 --softcap 3 --lse --layout bshd": "_safe_softmax",
    "--seqlens-q 9,0,30 --seqlens-k 30,5,9 --causal --lse": "_safe_softmax",
}


@pytest.mark.promise(
    "README: PyTorch, ONNX Runtime, OpenVINO",
    "PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.",
)
def test_what_ran_is_observed_and_right(shared_cache: Path) -> None:
    rows = api.run(*map(api.Problem.from_cli, LINES), backend="torch", cache_root=str(shared_cache), threads=1)
    assert [row.verdict for row in rows] == [api.Verdict.PASSED] * len(LINES)
    for row, name in zip(rows, LINES.values(), strict=True):
        assert any(f"ran aten::{name}" in note or f"aten::{name}" in note for note in row.notes), (row.repro, row.notes)
        assert not any("finding" in note for note in row.notes)


def test_another_kernel_than_the_one_asked_for_is_a_finding() -> None:
    """A session whose SDPA is not forced runs the math kernel where flash cannot: the remark says so."""
    from fmha_torch.kernels import TorchAlgorithm, Way, kernels_of
    from fmha_torch.session import TorchSession, observed

    flash = next(
        k for k in kernels_of("generic") if isinstance(k.algorithm, TorchAlgorithm) and k.algorithm.way is Way.FLASH
    )
    session = TorchSession("cpu")
    session.load(plugin.Plan(api.Problem.of(), (plugin.Stage(flash),)), ())
    q, v = torch.zeros(1, 1, 4, 8), torch.zeros(1, 1, 4, 16)
    ran = observed(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, v), True)
    assert session._remark(ran, 0.0, 0).startswith(
        "finding: aten::_scaled_dot_product_flash_attention_for_cpu was asked for"
    )
    ran = observed(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q), True)
    assert session._remark(ran, 0.0, 0).startswith("PyTorch ")


def test_a_kernel_that_sums_in_too_few_bits_runs_only_if_it_is_named(shared_cache: Path) -> None:
    from fmha_torch.kernels import TorchAlgorithm, Way, kernels_of

    line = "-H 8 --kv-heads 1 -s 300 -d 64 --dtype bf16 --direction bwd"
    problem, root = api.Problem.from_cli(line), str(shared_cache)
    (chosen,) = api.run(problem, backend="torch", cache_root=root)
    assert chosen.kernel is not None
    assert (chosen.verdict, chosen.kernel.algorithm["way"], chosen.reasons) == (api.Verdict.PASSED, "math", ())
    flash = next(
        k
        for k in kernels_of("generic")
        if k.family.backward and k.signature.dtype is problem.dtype
        and isinstance(k.algorithm, TorchAlgorithm) and k.algorithm.way is Way.FLASH
    )  # fmt: skip
    (named,) = api.run(problem, backend="torch", kernel=flash.name, cache_root=root)
    assert named.verdict is api.Verdict.WRONG
    assert [reason.id for reason in named.reasons] == ["K911"]


def test_passes_return_and_copy_nothing() -> None:
    """Who compares times without the copies takes what PyTorch returned; the arena stays as it was."""
    from fmha_torch.kernels import kernels_of
    from fmha_torch.session import TorchSession

    kernel = next(k for k in kernels_of("generic") if k.signature.dtype is plugin.DType.FP32 and not k.family.backward)
    session, arena = TorchSession("cpu"), bytearray(4 * 64)
    problem = api.Problem.of(batch=1, heads=1, seqlen=2, hdim=8, dtype="fp32")
    session.load(plugin.Plan(problem, (plugin.Stage(kernel),)), ())
    tensors = {n: plugin.BoundTensor(n, 64 * i, "fp32", (1, 1, 2, 8), (16, 16, 8, 1)) for i, n in enumerate("qkvo")}
    torch.frombuffer(arena, dtype=torch.float32)[:48] = torch.arange(48.0)
    before = bytes(arena)
    session.bind(memoryview(arena), tensors, 1)
    _, outputs = session.passes()
    assert outputs["o"].shape == (1, 1, 2, 8)
    assert bytes(arena) == before
    session.launch()
    assert bytes(arena) != before


def test_threads_are_those_that_were_asked_for_and_idle_ones_sleep() -> None:
    """After the import the variables are gone again. OpenMP's policy is read when PyTorch is loaded, and shown by itself."""
    code = (
        "import os, time, fmha_torch; fmha_torch.import_quietly(); import torch\n"
        "assert 'GOMP_SPINCOUNT' not in os.environ\n"
        "torch.set_num_threads(2)\n"
        "x = torch.randn(1, 8, 256, 64)\n"
        "for _ in range(3): torch.nn.functional.scaled_dot_product_attention(x, x, x)\n"
        "print(torch.get_num_threads())\n"
    )
    environ = {"OMP_DISPLAY_ENV": "verbose", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "2"
    assert "GOMP_SPINCOUNT = '2000'" in done.stderr


FINDINGS = {
    "the LSE of a row without keys is 0": (
        "q = torch.randn(1, 1, 2, 8); mask = torch.tensor([[0., 0.], [float('-inf')] * 2])\n"
        "lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q, attn_mask=mask)[1]\n"
        "assert lse[0, 0, 1] == 0\n"
    ),
    "flex_attention without keys raises": (
        "from torch.nn.attention.flex_attention import flex_attention\n"
        "try: flex_attention(torch.zeros(1, 1, 4, 8), *[torch.zeros(1, 1, 0, 8)] * 2)\n"
        "except IndexError: pass\n"
        "else: raise SystemExit('it works now')\n"
    ),
    "dK and dV of the flash kernel are rougher than those of the math kernel": (
        "from torch.nn.attention import SDPBackend as B, sdpa_kernel\n"
        "q, k = torch.randn(1, 8, 128, 64), torch.randn(1, 1, 128, 64)\n"
        "def dv(x, backend, dtype):\n"
        "    t = [a.bfloat16().to(dtype).requires_grad_() for a in (q, k, k)]\n"
        "    with sdpa_kernel([backend]): o = torch.nn.functional.scaled_dot_product_attention(*t, enable_gqa=True)\n"
        "    return torch.autograd.grad(o, t[2], q.bfloat16().to(dtype))[0].double()\n"
        "right = dv(q, B.MATH, torch.float64)\n"
        "flash, math = ((dv(q, b, torch.bfloat16) - right).norm() for b in (B.FLASH_ATTENTION, B.MATH))\n"
        "assert flash > 3 * math, (flash, math)\n"
    ),
}


def test_the_findings_about_pytorch_are_so() -> None:
    """If one fails, PyTorch has changed, and a rule may go. One process imports PyTorch for all of them."""
    caught = "except BaseException as fault:\n    print({!r}, repr(fault))\n"
    tried = [
        f"try:\n    torch.manual_seed(0)\n{indent(code, '    ')}{caught.format(name)}"
        for name, code in FINDINGS.items()
    ]
    words = [sys.executable, "-c", "import torch\n" + "".join(tried)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
