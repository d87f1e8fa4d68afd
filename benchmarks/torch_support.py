"""PyTorch's own answers about a problem, next to the rules of ``plugins/fmha-torch``.

    python benchmarks/torch_support.py [--count 400] [--seed 0] [--device cpu|cuda:0|hip:0] [-o support.json]

A kernel that PyTorch accepts and a rule refuses, or the reverse, is a difference. On a CPU every backend of SDPA is forced, and
the error is the answer, because ``torch.backends.cuda.can_use_*`` says False there without a word. On a GPU ``can_use_*`` is
asked with its debug texts, and the CUTLASS kernel that ran is compared with the choice of the backend ``mem_efficient``. Compiled
flex_attention is asked about a few problems, because every answer is a compile.

Exit codes: 0 no difference, 1 differences, 4 no such device (NOT_RUN).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import fmha_torch
from fmha_torch.kernels import Masking, Way, kernels_of
from fmha_torch.rules import OURS, OWN_RULES, RULES, flag_of

from fmha_cli import api, plugin
from fmha_cli.domain.features import Direction

KINDS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
COMPILES = 2
"""Problems about which a compiled kernel is asked."""


@dataclass(frozen=True)
class Difference:
    """A kernel about which PyTorch and the rules do not agree; None is an acceptance."""

    kernel: str
    problem: str
    torch: str | None
    rules: str | None


def problems(seed: int, count: int) -> Iterator[api.Problem]:
    """Small problems at the edges of the kernels' domain."""
    draw = random.Random(f"torch support {seed}")
    for _ in range(count):
        kv_heads, hdim = draw.choice([1, 2]), draw.choice([1, 3, 8, 64, 72, 200, 264])
        words = ["-b", draw.choice("12"), "-H", str(kv_heads * draw.choice([1, 3])), "--kv-heads", str(kv_heads)]
        words += ["-d", str(hdim), "--hdim-v", str(draw.choice([hdim, hdim, hdim, 8, 40]))]
        words += ["-s", str(draw.choice([1, 7, 33, 33])), "--seqlen-k", str(draw.choice([0, 1, 33, 33, 50]))]
        words += ["--dtype", draw.choice(list(KINDS)), "--layout", draw.choice(["bhsd", "bshd"])]
        words += draw.choice([[], [], ["--causal"], ["--mask", "causal-tl"], ["--mask", "window:9,3"]])
        words += draw.choice([[], [], ["--bias", "elementwise:bhss"], ["--alibi"], ["--softcap", "5"]])
        words += draw.choice([[], [], ["--lse"], ["--direction", "bwd"]])
        yield api.Problem.from_cli(words)


def sdpa_answer(p: api.Problem, kernel: api.KernelSpec, device: str) -> str | None:
    """The refusal of SDPA, forced to a kernel; None if it takes it."""
    import torch
    from fmha_torch.attend import FORCED, mask_tensor
    from torch.nn.attention import sdpa_kernel

    backend, (q, k, v), mask = FORCED[kernel.algorithm.way], tensors(p, device), None
    inputs = {"q": q, "bias": torch.zeros(p.batch, p.heads, p.seqlen_q, p.seqlen_k, dtype=q.dtype, device=device)}
    if kernel.algorithm.masking is Masking.TENSOR:
        slopes = {"alibi_slopes": torch.ones(p.heads, device=device)} if p.alibi is not plugin.Alibi.NONE else {}
        wanted = inputs if p.bias is not plugin.Bias.NONE else {"q": q}
        mask = mask_tensor(p, {**wanted, **slopes})
    flag, gqa = mask is None and flag_of(p), p.heads != p.kv_heads
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": flag, "scale": p.scale, "enable_gqa": gqa}
    with warnings.catch_warnings(record=True) as told, sdpa_kernel([backend]):
        warnings.simplefilter("always")
        try:
            if device != "cpu":
                return gpu_answer(kernel, q, k, v, mask, flag, gqa, told)
            if torch._fused_sdp_choice(q, k, v, **options) != backend.value and kernel.algorithm.way is not Way.MATH:
                return "another kernel is taken"
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
            if p.direction.backward:
                torch.autograd.grad(o, (q, k, v), torch.ones_like(o))
        except RuntimeError as fault:
            return "; ".join([str(fault), *(str(one.message).partition(" (Triggered")[0] for one in told)])
    return None


def gpu_answer(
    kernel: api.KernelSpec, q: Any, k: Any, v: Any, mask: Any, flag: bool, gqa: bool, told: Any
) -> str | None:
    """What ``can_use_*`` says, with its debug texts."""
    import torch

    asked = {Way.FLASH: "flash", Way.MEM_EFFICIENT: "efficient", Way.CUDNN: "cudnn"}.get(kernel.algorithm.way)
    if asked is None:
        return None
    parameters = torch.backends.cuda.SDPAParams(q, k, v, mask, 0.0, flag, gqa)
    if getattr(torch.backends.cuda, f"can_use_{asked}_attention")(parameters, True):
        return None
    return "; ".join(str(one.message).partition(" (Triggered")[0] for one in told) or "no reason was given"


def flex_answer(p: api.Problem, kernel: api.KernelSpec, device: str) -> str | None:
    """The error of flex_attention; None if it runs. The compiled form is not asked about shapes that it does not survive (docs/explanation/backends/torch.md)."""
    import torch
    from fmha_torch.attend import attend_of

    q, k, v = tensors(p, device)
    extra: dict[str, Any] = {}
    if p.bias is not plugin.Bias.NONE:
        extra["bias"] = torch.zeros(p.batch, p.heads, p.seqlen_q, p.seqlen_k, dtype=q.dtype, device=device)
    if p.alibi is not plugin.Alibi.NONE:
        extra["alibi_slopes"] = torch.ones(p.heads, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            o, _ = attend_of(replace(p, direction=Direction.FWD), kernel, {"q": q, "k": k, **extra})(q, k, v)
            if p.direction.backward:
                torch.autograd.grad(o, (q, k, v), torch.ones_like(o))
        except (RuntimeError, IndexError, NotImplementedError) as fault:
            return f"{type(fault).__name__}: {str(fault).splitlines()[0]}"
    return None


def tensors(p: api.Problem, device: str) -> tuple[Any, Any, Any]:
    import torch

    shapes = ((p.heads, p.seqlen_q, p.hdim), (p.kv_heads, p.seqlen_k, p.hdim), (p.kv_heads, p.seqlen_k, p.hdim_v))
    out = []
    for heads, rows, dim in shapes:
        sizes = (p.batch, heads, rows, dim) if p.layout is plugin.Layout.BHSD else (p.batch, rows, heads, dim)
        x = torch.randn(sizes, device=device).to(getattr(torch, KINDS[p.dtype.value]))
        x = x if p.layout is plugin.Layout.BHSD else x.transpose(1, 2)
        out.append(x.detach().requires_grad_(p.direction.backward))
    return out[0], out[1], out[2]


def compare(
    seed: int, count: int, device: str, arch: str, rules: tuple[plugin.Rule, ...] = RULES, compiles: int = COMPILES
) -> tuple[list[Difference], Counter[str]]:
    """The differences, and how often each way was asked and refused.

    Args:
        rules: a test leaves one out, to see that its absence is found.
    """
    facts, found, asked = plugin.DeviceFacts(id=device, archs=(arch,)), list[Difference](), Counter[str]()
    place = device.replace("hip", "cuda")  # PyTorch's name of both
    theirs = {rule.id for rule in OWN_RULES} - {*OURS}
    for problem in problems(seed, count):
        for kernel in kernels_of(arch):
            way = kernel.algorithm.way
            reasons = plugin.reasons_against(rules, problem, kernel, facts)
            direction = {"K025"} if way in (Way.FLEX, Way.FLEX_COMPILED) else set()  # asked about, to hold K908
            if any(reason.id not in theirs | direction for reason in reasons) or way is Way.VARLEN:
                continue
            if way is Way.FLEX_COMPILED and (asked[way.value] >= compiles or not problem.seqlen_q * problem.seqlen_k):
                continue
            answer = flex_answer if way in (Way.FLEX, Way.FLEX_COMPILED) else sdpa_answer
            said, ours = answer(problem, kernel, place), "; ".join(r.text for r in reasons if r.id in theirs) or None
            asked[way.value] += 1
            asked[f"{way.value} refused"] += said is not None
            if (said is None) != (ours is None):
                found.append(Difference(kernel.name, problem.repro(), said, ours))
    return found, asked


def cutlass(problem: api.Problem, device: str, arch: str) -> Difference | None:
    """The CUTLASS kernel that PyTorch ran, where it is not the one that the backend ``mem_efficient`` chooses."""
    registry = api.build_registry()
    ours = api.explain(problem, registry=registry, backend="mem_efficient", arch=arch).chosen
    kernel = next(
        k for k in kernels_of(arch) if k.algorithm.way is Way.MEM_EFFICIENT and k.signature.dtype is problem.dtype
    )
    (record,) = api.run(problem, registry=registry, backend="torch", device=device, kernel=kernel.digest)
    want = None if ours is None else registry.backend("mem_efficient").upstream_name(ours.kernel)
    ran = " ".join(record.notes)
    return None if want is not None and want in ran else Difference(kernel.name, problem.repro(), ran, want)


def cutlass_problems() -> Iterator[api.Problem]:
    for hdim in (64, 128, 256):
        for dtype in ("fp16", "bf16", "fp32"):
            yield api.Problem.of(batch=1, heads=4, seqlen=256, hdim=hdim, dtype=dtype, causal=True)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output")
    options = parser.parse_args(words)
    devices = {device.id: device for device in fmha_torch.TorchBackend().probe().devices}
    document: dict[str, Any] = {"schema": "fmha.torch-support/1", "device": options.device, "verdict": "NOT_RUN"}
    code = 4
    if options.device in devices:
        arch = devices[options.device].archs[0]
        found, asked = compare(options.seed, options.count, options.device, arch)
        if options.device.startswith("cuda"):
            found += [one for p in cutlass_problems() if (one := cutlass(p, options.device, arch)) is not None]
        document |= {
            "verdict": "WRONG" if found else "PASSED",
            "asked": dict(asked),
            "found": [asdict(d) for d in found],
        }
        code = int(bool(found))
    text = json.dumps(document, indent=1)
    if options.output:
        Path(options.output).write_text(text + "\n", "utf-8")
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
