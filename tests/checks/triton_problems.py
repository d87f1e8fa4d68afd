"""The problems of ``triton_check.py``: every kind of kernel on at least two problems, one of them with lengths that fill no tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AMD = ("gfx942", "gfx950", "gfx90a", "gfx1100", "gfx1201")
NVIDIA = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")
ARCHS = (*AMD, *NVIDIA)
_OCP, _FNUZ = ("gfx950", "gfx1201", "sm_89", "sm_90a", "sm_120a"), ("gfx942",)


@dataclass(frozen=True)
class TritonProblem:
    """One problem.

    Attributes:
        kind: the kind of kernel that it is for.
        flags: the problem on a command line.
        archs: where it runs.
        ctas: CTAs of the kernel's cluster; None: as the plugin chooses.
    """

    kind: str
    flags: str
    archs: tuple[str, ...] = ARCHS
    ctas: int | None = None


_EVERYWHERE = (
    ("forward", "-H 2 -s 100 --seqlen-k 130 -d 64 --dtype fp16 --lse"),
    ("forward", "-H 2 -s 128 -d 128 --dtype bf16 --lse"),
    ("forward, causal", "-b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 90 -d 64 --dtype bf16 --causal --lse"),
    ("forward, causal", "-H 2 -s 128 -d 128 --dtype fp16 --causal"),
    ("forward, rows without keys", "-H 2 -s 80 --seqlen-k 50 -d 32 --dtype fp16 --causal --lse"),
    ("forward, rows without keys", "-H 1 -s 40 --seqlen-k 0 -d 64 --dtype bf16 --lse"),
    ("forward, head dim 256", "-H 1 -s 40 --seqlen-k 72 -d 256 --dtype bf16 --causal --lse"),
    ("forward, head dim 256", "-H 1 -s 32 -d 256 --dtype fp16"),
    ("forward, padded head dim", "-H 2 -s 33 --seqlen-k 65 -d 40 --hdim-v 24 --dtype fp16 --lse"),
    ("forward, padded head dim", "-H 2 -s 64 -d 96 --dtype bf16 --causal"),
    ("forward, padded head dim", "-H 2 -s 37 -d 16 --dtype fp16 --causal --lse"),
    ("forward, window", "-H 2 -s 90 --seqlen-k 110 -d 64 --dtype fp16 --mask window:20,5 --lse"),
    ("forward, window", "-H 2 -s 128 -d 64 --dtype bf16 --mask window-tl:40,0 --sink 4 --lse"),
    ("forward, window", "-H 1 -s 100 --seqlen-k 70 -d 32 --dtype fp16 --mask generic:30,10 --lse"),
    ("forward, softcap", "-H 2 -s 65 -d 64 --dtype fp16 --softcap 20 --lse"),
    ("forward, softcap", "-H 2 -s 64 -d 128 --dtype bf16 --softcap 30 --causal"),
    ("forward, ALiBi", "-H 4 -s 75 -d 64 --dtype bf16 --alibi --causal --lse"),
    ("forward, ALiBi", "-b 2 -H 2 -s 64 -d 32 --dtype fp16 --alibi-slopes filled:bh"),
    ("forward, bias", "-H 2 -s 50 --seqlen-k 77 -d 64 --dtype fp16 --bias elementwise:1hss --lse"),
    ("forward, bias", "-b 2 -H 2 -s 64 -d 64 --dtype bf16 --bias elementwise:bhss --causal"),
    ("forward, packed", "-H 2 --seqlens-q 30,1,70 --seqlens-k 50,0,70 -d 64 --dtype fp16 --causal --lse"),
    ("forward, packed", "-H 4 --kv-heads 1 --seqlens-q 64,32 --seqlens-k 64,64 -d 64 --dtype bf16 --layout bshd"),
    ("forward, learned sink", "-H 2 -s 50 --seqlen-k 60 -d 64 --dtype bf16 --sink-logits filled --causal --lse"),
    ("forward, learned sink", "-H 2 -s 64 -d 32 --dtype fp16 --sink-logits filled"),
    ("split and combine", "-H 8 --kv-heads 2 -s 1 --seqlen-k 203 -d 64 --dtype fp16 --splits 3 --lse"),
    ("split and combine", "-b 2 -H 2 -s 20 --seqlen-k 128 -d 128 --dtype bf16 --splits 2 --mask window:60,0 --lse"),
    (
        "decode, paged",
        "-b 2 -H 4 --kv-heads 1 -s 1 --kv-cache paged:16 --cache-seqlens 100,37 -d 128 --dtype bf16 --lse",
    ),
    (
        "decode, paged",
        "-b 2 -H 2 -s 4 --kv-cache paged:32 --cache-seqlens 96,64 -d 64 --dtype fp16 --causal --splits 2",
    ),
    ("decode, linear", "-b 2 -H 4 --kv-heads 2 -s 1 --kv-cache linear --cache-seqlens 90,20 -d 64 --dtype fp16 --lse"),
    ("decode, linear", "-b 2 -H 2 -s 2 --kv-cache linear --cache-seqlens 64,32 --cache-leftpad 3,0 -d 64 --dtype bf16"),
    ("backward", "-H 2 -s 64 -d 64 --dtype fp16 --direction bwd"),
    ("backward", "-H 4 --kv-heads 2 -s 50 --seqlen-k 70 -d 128 --dtype bf16 --causal --direction bwd"),
    ("backward, padded head dim", "-H 2 -s 40 --seqlen-k 50 -d 40 --dtype fp16 --causal --direction bwd"),
    ("backward, padded head dim", "-H 1 -s 32 -d 80 --hdim-v 48 --dtype bf16 --direction bwd"),
    ("backward, softcap", "-H 2 -s 45 -d 64 --dtype fp16 --softcap 20 --direction bwd"),
    ("backward, softcap", "-H 1 -s 64 -d 64 --dtype bf16 --softcap 30 --causal --direction bwd"),
    ("backward, window", "-H 2 -s 70 --seqlen-k 60 -d 64 --dtype bf16 --mask window:20,0 --sink 3 --direction bwd"),
    ("backward, window", "-H 1 -s 64 -d 32 --dtype fp16 --mask window-tl:16,8 --direction bwd"),
    ("backward, bias", "-H 2 -s 33 --seqlen-k 50 -d 64 --dtype fp16 --bias elementwise:1hss --direction bwd"),
    ("backward, bias", "-H 2 -s 64 -d 64 --dtype bf16 --alibi --causal --direction bwd"),
    ("backward, packed", "-H 2 --seqlens-q 30,1,40 --seqlens-k 50,5,40 -d 64 --dtype bf16 --causal --direction bwd"),
    ("both passes", "-H 2 -s 50 --seqlen-k 60 -d 64 --dtype fp16 --causal --direction fwd+bwd"),
    ("both passes", "-H 2 -s 64 -d 64 --dtype bf16 --direction fwd+bwd"),
)
_NARROW = (
    "-H 2 -s 50 --seqlen-k 70 -d 64 --dtype {t} --causal --lse",
    "-H 2 -s 64 -d 128 --dtype {t} --qscale tensor",
    "-b 2 -H 4 --kv-heads 2 -s 33 -d 64 --dtype {t} --qscale head --lse",
    "-H 4 --kv-heads 1 -s 1 --seqlen-k 150 -d 64 --dtype {t} --splits 2",
)


def all_problems() -> Iterator[TritonProblem]:
    """Every problem."""
    for kind, flags in _EVERYWHERE:
        yield TritonProblem(kind, flags)
    for flags in _NARROW:
        for dtype in ("fp8_e4m3", "fp8_e5m2"):
            yield TritonProblem("fp8", flags.format(t=dtype), _OCP)
            yield TritonProblem("fp8", f"{flags.format(t=dtype)} --fp8-encoding fnuz", _FNUZ)
