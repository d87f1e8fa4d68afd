"""Plans of FlashAttention's families, for tests of sessions and dry runs."""

from __future__ import annotations

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem

L2 = 1 << 20
"""Bytes of the device's second-level cache."""

FAMILIES = (
    ("-b 2 -H 4 -s 300 -d 128 --causal --lse --splits 1", "sm_90", (Family.FWD,)),
    ("-b 1 -H 2 --kv-heads 1 -s 65 -d 64 --mask window:7,3 --dropout 0.2 --dtype bf16", "sm_80", (Family.FWD,)),
    ("--seqlens-q 5,0,70 --seqlens-k 9,4,80 -H 2 -d 96 --softcap 30 --lse", "sm_86", (Family.FWD,)),
    ("-b 1 -H 2 -s 16 --seqlen-k 4k -d 256 --splits 3", "sm_120", (Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE)),
    (
        "-b 2 -H 8 --kv-heads 2 -s 1 --kv-cache paged:256 --cache-seqlens 600,90 -d 128 --splits 2 --lse",
        "sm_100",
        (Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE),
    ),
    ("-b 2 -H 2 -s 2 --kv-cache linear --cache-seqlens 3,1 --append 2 --rotary 32 -d 64 --causal", "sm_90", (Family.FWD_SPLITKV,)),
    (
        "-b 1 -H 4 --kv-heads 2 -s 200 -d 64 --causal --direction bwd",
        "sm_89",
        (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ),
    ),
    (
        "--seqlens-q 30,100 --seqlens-k 50,0 -H 2 -d 128 --deterministic --alibi --direction bwd --dtype bf16",
        "sm_80",
        (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ),
    ),
    (
        "--seqlens-q 30,100 --seqlens-k 50,40 -H 4 --kv-heads 2 -d 64 --deterministic --causal --direction fwd+bwd",
        "sm_90",
        (Family.FWD, Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ),
    ),
)  # fmt: skip


def device_for(arch: str) -> DeviceFacts:
    return DeviceFacts(id="cuda:0", archs=(arch,), units=132, llc_bytes=L2)


def plan_for(line: str, arch: str) -> Plan:
    backend, problem, device = CubinBackend(UPSTREAM, driven=False), Problem.from_cli(line), device_for(arch)
    fit = [d for d in backend.decide(problem, device) if isinstance(d, Supported)]
    return backend.plan(problem, min(fit, key=lambda d: d.rank).kernel, device)
