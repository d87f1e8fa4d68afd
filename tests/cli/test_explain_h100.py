"""What ``fmha explain`` says to people with an H100: which library and kernel serve ten common shapes, and what refuses."""

from __future__ import annotations

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.mem_efficient import catalogue as mem_efficient
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported, Trace, Unsupported
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.report.documents.explain import explain_document, explain_view
from tests.cli.conftest import Fmha

HEADS = ("-H", "32", "--kv-heads", "8", "-d", "128", "--dtype", "bf16")
FIRST = (
    "backend: flash_attn, not flash_attn_3: it comes before flash_attn_3 in the default order, and gpu_check confirmed"
)
TAKES_2 = "rank 1: FlashAttention-2's host code takes it"
TAKES_3 = "FlashAttention-3's host code takes it: "
ALONE = f"rank 1: {TAKES_3}"
PACKED = "query heads of a key head packed"
FENCE = "KNOWN: missing-fence: Q (with pages that TMA cannot read, K and V too) arrives by cp.async"

SHAPES = {
    "prefill of 4k": (
        (*HEADS, "-s", "4k", "--causal"),
        (TAKES_2, FIRST, f"{TAKES_3}1 split (upstream's heuristic: 1024 tiles of 128 rows on 132 multiprocessors)"),
    ),
    "decode, pages of 16": (
        (*HEADS, "-b", "8", "-s", "1", "--causal", "--kv-cache", "paged:16", "--cache-seqlens", "8k"),
        (
            f"{ALONE}15 splits",
            PACKED,
            FENCE,
            "KNOWN: uninitialised-register: in the kernel that adds up the parts",
            "K682 pages of 16 keys are read by cp.async, row by row, the kernel reads them by TMA, in whole tiles",
            "K436 page size 16 is not a multiple of 256 (help: --kv-cache paged:256)",
            "K528 --kv-cache paged:16: the kernels read no block table",
        ),
    ),
    "decode, pages of 64": (
        (*HEADS, "-b", "8", "-s", "1", "--causal", "--kv-cache", "paged:64", "--cache-seqlens", "8k"),
        (f"{ALONE}15 splits", "K682 pages of 64 keys", "K436 page size 64 is not a multiple of 256"),
    ),
    "latent attention": (
        (
            *("-b", "8", "-H", "128", "--kv-heads", "1", "-s", "1", "-d", "576", "--mla-rope", "64"),
            *("--dtype", "bf16", "--kv-cache", "paged:64", "--cache-seqlens", "4k"),
        ),
        (
            f"{ALONE}55 splits",
            "scores of 64 columns of q * k and 512 of q_v * v",
            FENCE,
            "K423 hdim 576: FlashAttention-2 holds at most 256",
            "K528 --kv-cache paged:64: the kernels read no block table",
        ),
    ),
    "window": (
        (*HEADS, "-s", "8k", "--mask", "window:4095,0"),
        (TAKES_2, FIRST, "fwd mask=window overlap=yes tile=128x128 p_in_regs=yes"),
    ),
    "softcap": (
        ("-H", "16", "--kv-heads", "8", "-s", "4k", "-d", "256", "--dtype", "bf16", "--causal", "--softcap", "50"),
        (TAKES_2, FIRST, "fwd tile=128x80 overlap=yes p_in_regs=yes", "mem_efficient sm_90a"),
    ),
    "fp8": (
        (*HEADS[:-1], "fp8_e4m3:bf16", "--qscale", "head", "-s", "4k", "--causal"),
        (
            f"{ALONE}1 split",
            "rank 2: K678: FlashAttention-3's host code takes pack_gqa no",
            "K420 dtype fp8_e4m3: FlashAttention-2 is for fp16 and bf16",
        ),
    ),
    "backward of 2k": (
        (*HEADS, "-b", "4", "-s", "2k", "--causal", "--direction", "bwd"),
        (TAKES_2, FIRST, f"{TAKES_3}sums by atomics", "bwd_dq_dk_dv gqa=yes groups=2"),
    ),
    "packed": (
        (*HEADS, "--seqlens-q", "1k,700,2k,300", "--seqlens-k", "1k,700,2k,300", "--causal"),
        (TAKES_2, FIRST, f"{TAKES_3}1 split", PACKED, FENCE, "KNOWN: NaN or an infinity in V of a packed sequence"),
    ),
    "decode that appends": (
        (
            *(*HEADS, "-b", "2", "-s", "1", "--causal", "--kv-cache", "linear", "--cache-seqlens", "32k"),
            *("--append", "1", "--rotary", "128"),
        ),
        (TAKES_2, f"{TAKES_3}15 splits", PACKED, "mem_efficient sm_90a", "cudnn_oss sm_90a"),
    ),
}


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("name", SHAPES)
def test_library_kernel_and_refusals_are_named(fmha: Fmha, name: str) -> None:
    flags, texts = SHAPES[name]
    said = " ".join(fmha("explain", "--arch", "h100", *flags).out.split())
    for text in texts:
        assert text in said


def refused(said: str) -> list[str]:
    """The backends of the groups of refusals."""
    lines = said.splitlines()
    shown = lines[lines.index("refused, nearest first:") :]
    return [line.split()[0] for line in shown if line[:2] == "  " and line[2] not in " ."]


def test_backends_that_serve_nothing_say_why_and_those_of_other_machines_come_last(fmha: Fmha) -> None:
    said = {name: fmha("explain", "--arch", "h100", *SHAPES[name][0]).out for name in list(SHAPES)[:3]}
    assert list(map(refused, said.values())) == [
        ["flash_attn"] * 2,  # the others serve it
        *[["flash_attn_3", "flash_attn_3", "flash_attn", "mem_efficient", "cudnn_oss"]] * 2,
    ]
    lines = fmha("explain", "--arch", "h100", *SHAPES["latent attention"][0], "--all").out.splitlines()
    whole = [place for place, line in enumerate(lines) if line.endswith(" every kernel")]
    assert whole
    assert min(whole) > max(place for place, line in enumerate(lines) if " flash_attn_3 sm_90a " in f" {line}")


def test_of_a_backend_that_serves_nothing_the_nearest_refusal_is_enough() -> None:
    (served, *_), (other, *_) = (family_kernels("sm_90a", Family.FWD), mem_efficient.kernels(load_arch("sm_90a")))
    misses = [Unsupported("mem_efficient", "sm_90a", other, (Reason(f"K00{n}", "no"),)) for n in range(1, 5)]
    own = [Unsupported("flash_attn_3", "sm_90a", served, (Reason(f"K00{n}", "no"),)) for n in range(1, 4)]
    trace = Trace((Supported(served, (0,)), *own, *misses))
    table = explain_view(explain_document(Problem.from_cli("-s 64"), trace, served))
    assert refused("\n".join(table.details)) == ["flash_attn_3", "flash_attn_3", "mem_efficient"]
