"""The backend's choice and launch beside upstream's host code, for random problems."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from fmha_cli.backends.aiter_asm.launching import COPY
from fmha_cli.backends.aiter_asm.upstream import UPSTREAM
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.aiter_asm.facts import algorithm_of, facts_of, kernels
from fmha_cli.codegen.aiter_asm.params import AiterForward
from fmha_cli.codegen.struct import host_layout, pack
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.run.layout import layout_of
from tests.support.referees.aiter_asm.host_code import (
    BOTTOM_RIGHT,
    GENERIC,
    NO_MASK,
    ROUNDINGS,
    TOP_LEFT,
    AiterLaunch,
    AskedForward,
    launch_of_aiter,
)

BASE = 1 << 44
STRICTER = frozenset({"K754", "K756", "K757"})
"""Rules that refuse what upstream would launch, to a wrong end."""
MASKS = (
    "none",
    "none",
    "causal",
    "causal",
    "causal-tl",
    "window:-1,0",
    "window:64,0",
    "window:9999,0",
    "window:9999,9999",
)
LENGTHS = (1, 2, 31, 64, 128, 129, 200, 255, 256, 257, 300, 512, 513, 700, 1024)


def random_forward(rng: Random) -> Problem:
    """A random forward problem, whose element type, features and sizes are mostly those of the kernels."""
    while True:
        kv_heads = rng.choice([1, 2, 3, 4, 8])
        flags: dict[str, Any] = {
            "heads": kv_heads * rng.choice([1, 1, 2, 5, 8]),
            "kv_heads": kv_heads,
            "dtype": "fp16" if rng.random() < 0.05 else "bf16",
            "hdim": rng.choice([128, 128, 128, 128, 192, 192, 64, 120]),
            "hdim_v": rng.choice([128, 128, 128, 128, 192, 64]),
            "mask": rng.choice(MASKS),
            "layout": rng.choice(["bhsd", "bshd", "bshd:bhsd"]),
            "lse": rng.random() < 0.5,
        }
        if rng.random() < 0.4:
            count = rng.randrange(1, 5)
            flags["seqlens_q"], flags["seqlens_k"] = ([rng.choice((0, *LENGTHS)) for _ in range(count)] for _ in "qk")
        else:
            rows = rng.choice((*LENGTHS, 16384, 16385))
            flags |= {"batch": rng.randrange(1, 4), "seqlen": rows}
            flags["seqlen_k"] = rows if rng.random() < 0.4 else rng.choice((0, *LENGTHS))
        if rng.random() < 0.2:
            flags["scale"] = rng.choice([0.1, 1.0, -1.0, 0.0])
        if rng.random() < 0.1:
            flags |= rng.choice([{"alibi": True}, {"bias": "elementwise:1hss"}, {"softcap": 20.0}, {"dropout": 0.1}])
        try:
            return Problem.of(**flags)
        except ImpossibleProblem:
            continue


def compare_choices(library: Any, arch: str, units: int, rng: Random, count: int) -> Counter[str]:
    """How many problems of each outcome; raises where the two differ."""
    device = DeviceFacts(id="hip:0", archs=(arch,), units=units)
    return Counter(_compare(library, arch, device, random_forward(rng), rng) for _ in range(count))


def _compare(library: Any, arch: str, device: DeviceFacts, problem: Problem, rng: Random) -> str:
    """Compare the launch of the preferred kernel, or of one with another rounding."""
    decisions = list(UPSTREAM.decide(problem, device))
    fitting = sorted((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank)
    if not fitting:
        nearest = min((d for d in decisions if isinstance(d, Unsupported)), key=lambda d: d.distance)
        if STRICTER & {reason.id for reason in nearest.reasons}:
            return "refused for a fault of upstream"
        assert not _takes(library, arch, device, problem), (problem, nearest.reasons)
        return "both refuse"
    kernel = fitting[0].kernel if rng.random() < 0.6 else rng.choice(fitting).kernel
    plan = UPSTREAM.plan_of(problem, kernel, device)
    situation = UPSTREAM.situation_of(problem, device)
    if not UPSTREAM.launches(situation):
        return "nothing to launch"
    places = {name: BASE + (1 << 43) + (index << 20) for index, name in enumerate(UPSTREAM.auxiliaries_of(situation))}
    tensors = layout_of(problem, plan.workspaces, gaps=rng.random() < 0.5).tensors
    call: Call[Any] = Call(plan, situation, tensors, BASE, places)
    theirs = launch_of_aiter(library, arch, asked(call, kernel, device.units))
    assert theirs is not None, (problem, kernel.name)
    (stage,) = plan.stages
    launch = UPSTREAM.launch_of(stage, call)
    ours = AiterLaunch(
        file=facts_of(kernel).path.partition(f"{arch}/")[2],
        symbol=facts_of(kernel).symbol,
        grid=launch.grid,
        block=launch.block,
        shared=launch.shared,
        arguments=bytes(pack(UPSTREAM.params_of(stage, call))),
    )
    assert _filled(ours) == _filled(theirs), (problem, kernel.name)
    return f"equal: {kernel.signature.mask}, {kernel.signature.mode}, hdim {kernel.signature.hdim}"


def _filled(launch: AiterLaunch) -> AiterLaunch:
    """A launch with zeros between the members of its arguments, where upstream's host code writes nothing."""
    members = bytearray(len(launch.arguments))
    for _, start, size in host_layout(AiterForward):
        members[start : start + size] = launch.arguments[start : start + size]
    return replace(launch, arguments=bytes(members))


def _takes(library: Any, arch: str, device: DeviceFacts, p: Problem) -> bool:
    """Whether upstream launches an assembly kernel for a problem that no kernel here serves.

    ``can_impl_fmha_v3_fwd`` and the C++ functions behind it look at the type and the features before ``fmha_fwd_v3`` is asked.
    """
    plain = p.dtype is DType.BF16 and not (p.dropout or p.softcap or p.alibi.value != "none" or p.bias.value != "none")
    if not plain:
        return False
    plan = UPSTREAM.plan_of(p, kernels(arch)[0], device)
    call: Call[Any] = Call(plan, UPSTREAM.situation_of(p, device), layout_of(p, plan.workspaces).tensors, BASE, {})
    return launch_of_aiter(library, arch, asked(call, None, device.units)) is not None


def asked(call: Call[Any], kernel: KernelSpec | None, units: int) -> AskedForward:
    """A problem as the arguments of ``fmha_fwd_v3``, as ``fmha_v3_fwd`` and ``fmha_v3_varlen_fwd`` make them."""
    p = call.problem
    rows, keys = max(p.query_lengths(), default=0), max(p.key_lengths(), default=0)
    left, right = (-1 if bound is None or bound >= keys else bound for bound in (p.mask.left, p.mask.right))
    corner = BOTTOM_RIGHT if p.mask.align is Align.BOTTOM_RIGHT else TOP_LEFT
    if left == -1 and right == 0 and rows == 1 and corner == BOTTOM_RIGHT:
        right = -1
    mask = NO_MASK if left == right == -1 else corner if right == 0 and left == -1 else GENERIC
    found = [call.rows(name) for name in "qkvo"]
    group, copied = p.mode is Mode.GROUP, COPY in call.tensors
    lse = (0, 0) if not p.lse else (rows, p.heads * rows) if copied else (call.tensor("lse").strides[-2], 1 << 30)
    return AskedForward(
        **{name: call.address(name) for name in ("q", "k", "v", "o", "seqstart_q", "seqstart_k")},
        lse=call.address(COPY if copied else "lse"),
        units=units,
        rows=rows,
        keys=keys,
        batch=p.batch,
        hdim=p.hdim,
        hdim_v=p.hdim_v,
        heads=p.heads,
        kv_heads=p.kv_heads,
        left=left,
        right=right,
        mask=mask,
        cvt=ROUNDINGS["rtna" if kernel is None else algorithm_of(kernel).cvt.value],
        group=group,
        has_lse=p.lse,
        row=tuple(s.row for s in found),
        head=(*(s.head for s in found), lse[0]),
        sequence=(*(s.batch for s in found), lse[1]),
        scale=p.scale,
    )
