"""The problems whose CK-Tile kernels run on emulated devices: every family and every feature, small and ragged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FWD, SPLITKV = ("fwd",), ("fwd_splitkv", "fwd_splitkv_combine")
BWD = ("bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq")


@dataclass(frozen=True)
class CkProblem:
    """A problem, and the kernel families of its stages, in order."""

    name: str
    flags: str
    families: tuple[str, ...]


_SHAPE = "-b 1 -H 2 -s 100 --seqlen-k 130"
_ONE = f"{_SHAPE} --splits 1"
_GROUP = "--seqlens-q 70,1,130 --seqlens-k 100,65,33 -H 2 --splits 1"
_BACK = f"{_SHAPE} --direction bwd"
_BACK_GROUP = "--seqlens-q 70,1,130 --seqlens-k 100,65,33 -H 2 --direction bwd"
_LONG = "-b 1 -H 2 -s 300 --seqlen-k 400"

_MASKS = ("--causal", "--mask causal-tl", "--mask window:40,7", "--mask window-tl:33,20", "--mask generic:50,20")


def forward_problems() -> Iterator[CkProblem]:
    """Forward: data types, head dims, masks, biases, and other compiled-in features."""
    for dtype in ("fp16", "bf16"):
        for hdim in (32, 64, 128, 256):
            yield CkProblem(f"{dtype} d{hdim}", f"{_ONE} -d {hdim} --dtype {dtype}", FWD)
    yield CkProblem("divisible", "-b 2 -H 2 -s 128 -d 128 --splits 1", FWD)
    yield CkProblem("divisible, causal, LSE", "-b 1 -H 2 -s 256 -d 64 --causal --lse --splits 1", FWD)
    for hdim, hdim_v in ((72, 72), (96, 96), (80, 96), (192, 128), (160, 160)):
        yield CkProblem(f"d{hdim}x{hdim_v}", f"{_ONE} -d {hdim} --hdim-v {hdim_v}", FWD)
    for mask in _MASKS:
        yield CkProblem(mask.split()[-1].lstrip("-"), f"{_ONE} -d 64 {mask}", FWD)
        yield CkProblem(f"{mask.split()[-1].lstrip('-')}, bf16, LSE", f"{_ONE} -d 128 --dtype bf16 --lse {mask}", FWD)
    for rank in ("11ss", "1hss", "bhss"):
        yield CkProblem(
            f"bias {rank}", f"-b 2 -H 2 -s 100 --seqlen-k 136 -d 64 --bias elementwise:{rank} --splits 1", FWD
        )
    yield CkProblem("bias, causal, bf16", f"{_ONE} -d 128 --dtype bf16 --bias elementwise:1hss --causal", FWD)
    yield CkProblem("ALiBi", f"{_ONE} -d 64 --alibi", FWD)
    yield CkProblem("ALiBi, causal, LSE", f"{_ONE} -d 128 --alibi --causal --lse", FWD)
    yield CkProblem("ALiBi, slopes for each sequence", f"{_ONE} -d 64 --alibi-slopes filled:bh --causal", FWD)
    yield CkProblem("softcap", f"{_ONE} -d 64 --softcap 30", FWD)
    yield CkProblem("softcap, causal, bf16", f"{_ONE} -d 128 --dtype bf16 --softcap 20 --causal", FWD)
    yield CkProblem("dropout", f"{_ONE} -d 64 --dropout 0.2 --seed 7 --offset 3", FWD)
    yield CkProblem("dropout, causal, LSE, bf16", f"{_ONE} -d 128 --dtype bf16 --dropout 0.3 --causal --lse", FWD)
    yield CkProblem("dropout, bias", f"{_ONE} -d 64 --dropout 0.2 --bias elementwise:11ss", FWD)
    yield CkProblem("LSE", f"{_ONE} -d 64 --lse", FWD)
    yield CkProblem("GQA, bshd", "-b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 90 -d 64 --layout bshd --splits 1", FWD)
    yield CkProblem("MQA, causal, d128", "-b 1 -H 4 --kv-heads 1 -s 65 -d 128 --causal --splits 1", FWD)
    yield CkProblem("one query", "-b 2 -H 2 -s 1 --seqlen-k 77 -d 64 --splits 1", FWD)
    yield CkProblem("one key", "-b 1 -H 2 -s 33 --seqlen-k 1 -d 64 --splits 1", FWD)
    yield CkProblem("window, key tiles left out", f"{_LONG} -d 64 --mask window:20,5 --lse --splits 1", FWD)
    yield CkProblem(
        "window, key tiles left out, bf16 d128", f"{_LONG} -d 128 --dtype bf16 --mask window:20,5 --splits 1", FWD
    )
    yield CkProblem("rows without keys", "-b 1 -H 2 -s 200 --seqlen-k 60 -d 64 --causal --lse --splits 1", FWD)
    yield CkProblem("long keys", "-b 1 -H 1 -s 40 --seqlen-k 700 -d 64 --splits 1", FWD)
    for hdim in (64, 128):
        yield CkProblem(f"packed d{hdim}", f"{_GROUP} -d {hdim}", FWD)
        yield CkProblem(f"packed d{hdim}, causal, LSE", f"{_GROUP} -d {hdim} --causal --lse --dtype bf16", FWD)
    yield CkProblem("packed, window", f"{_GROUP} -d 64 --mask window:20,5", FWD)
    yield CkProblem("packed, ALiBi", f"{_GROUP} -d 64 --alibi --causal", FWD)
    yield CkProblem("packed, dropout", f"{_GROUP} -d 64 --dropout 0.2", FWD)
    yield CkProblem("packed, softcap", f"{_GROUP} -d 64 --softcap 15", FWD)
    yield CkProblem("packed, GQA", f"{_GROUP.replace('-H 2', '-H 4 --kv-heads 2')} -d 64", FWD)
    for scale in ("tensor", "none"):
        yield CkProblem(f"fp8, scale {scale}", f"{_ONE} -d 128 --dtype fp8_e4m3:bf16 --qscale {scale}", FWD)
        yield CkProblem(f"fp8 d64, scale {scale}", f"{_ONE} -d 64 --dtype fp8_e4m3:bf16 --qscale {scale} --causal", FWD)
    yield CkProblem("fp8 to fp8", f"{_ONE} -d 128 --dtype fp8_e4m3:fp8_e4m3 --qscale tensor", FWD)
    yield CkProblem("fp8, bias", f"{_ONE} -d 128 --dtype fp8_e4m3:bf16 --qscale tensor --bias elementwise", FWD)
    yield CkProblem("fp8, ALiBi", f"{_ONE} -d 64 --dtype fp8_e4m3:bf16 --qscale tensor --alibi", FWD)
    yield CkProblem("fp8 to fp32", f"{_ONE} -d 128 --dtype fp8_e4m3:fp32 --qscale tensor --causal", FWD)


def cache_problems() -> Iterator[CkProblem]:
    """Split keys and caches: kernels with a second stage, pages, appended keys, rotary embedding, batch prefill."""
    for hdim in (64, 128):
        yield CkProblem(f"split d{hdim}", f"{_SHAPE} -d {hdim} --splits 3", SPLITKV)
        yield CkProblem(
            f"split d{hdim}, causal, LSE", f"{_SHAPE} -d {hdim} --splits 2 --causal --lse --dtype bf16", SPLITKV
        )
    yield CkProblem("split, window", f"{_SHAPE} -d 64 --splits 3 --mask window:60,9", SPLITKV)
    yield CkProblem(
        "split, key tiles left out", "-b 1 -H 2 -s 100 --seqlen-k 700 -d 64 --splits 3 --mask window:60,9", SPLITKV
    )
    yield CkProblem("split, ALiBi", f"{_SHAPE} -d 64 --splits 2 --alibi", SPLITKV)
    yield CkProblem("split, bias", f"{_SHAPE} -d 64 --splits 2 --bias elementwise:1hss", SPLITKV)
    yield CkProblem("split, softcap", f"{_SHAPE} -d 64 --splits 2 --softcap 25", SPLITKV)
    yield CkProblem("split, packed", f"{_GROUP.replace('--splits 1', '--splits 2')} -d 64", SPLITKV)
    decode = "-b 2 -H 4 --kv-heads 2 -s 1 --cache-seqlens 300,170"
    for dtype in ("fp16", "bf16"):
        yield CkProblem(f"decode {dtype}", f"{decode} --kv-cache linear -d 128 --dtype {dtype} --splits 3", SPLITKV)
        yield CkProblem(
            f"decode, pages {dtype}", f"{decode} --kv-cache paged:128 -d 128 --dtype {dtype} --splits 3", SPLITKV
        )
    yield CkProblem("decode, pages of 256, d64", f"{decode} --kv-cache paged:256 -d 64 --splits 2", SPLITKV)
    append = "-b 2 -H 2 -s 4 --cache-seqlens 100,37 --append 4"
    yield CkProblem("append", f"{append} --kv-cache linear -d 64 --splits 2", ("fwd_appendkv", *SPLITKV))
    yield CkProblem(
        "append, rotary",
        f"{append} --kv-cache linear --rotary 64 -d 128 --causal --splits 2",
        ("fwd_appendkv", *SPLITKV),
    )
    yield CkProblem(
        "append, rotary interleaved",
        f"{append} --kv-cache linear --rotary 32:interleaved -d 64 --causal --splits 2",
        ("fwd_appendkv", *SPLITKV),
    )
    yield CkProblem(
        "append, pages",
        f"{append} --kv-cache paged:128 --rotary 64 -d 64 --causal --splits 2",
        ("fwd_appendkv", *SPLITKV),
    )
    paged = "-b 2 -H 2 -s 90 --cache-seqlens 200,150 --kv-cache paged:128 --splits 1"
    yield CkProblem("paged prefill", f"{paged} -d 128 --causal", ("fwd_pagedkv",))
    yield CkProblem("paged prefill, bf16", f"{paged} -d 128 --dtype bf16", ("fwd_pagedkv",))
    yield CkProblem("paged prefill, LSE", f"{paged} -d 64 --lse", SPLITKV)
    yield CkProblem("paged prefill, softcap", f"{paged} -d 128 --softcap 30", ("fwd_pagedkv",))
    yield CkProblem(
        "paged prefill, key tiles left out",
        f"{paged.replace('200,150', '700,450')} -d 128 --mask window:40,3",
        ("fwd_pagedkv",),
    )
    batch = "--seqlens-q 70,40 --cache-seqlens 150,90 -H 2 --splits 1"
    for dtype in ("fp16", "bf16"):
        yield CkProblem(
            f"batch prefill {dtype}", f"{batch} --kv-cache paged:1 -d 128 --dtype {dtype} --causal", ("batch_prefill",)
        )
    yield CkProblem("batch prefill, LSE", f"{batch} --kv-cache paged:1 -d 128 --lse", ("batch_prefill",))
    yield CkProblem(
        "batch prefill, window", f"{batch} --kv-cache paged:1 -d 128 --mask window:40,3", ("batch_prefill",)
    )
    yield CkProblem("batch prefill, softcap", f"{batch} --kv-cache paged:1 -d 128 --softcap 30", ("batch_prefill",))


def backward_problems() -> Iterator[CkProblem]:
    """The three backward stages."""
    for dtype in ("fp16", "bf16"):
        for hdim in (32, 64, 128, 256):
            yield CkProblem(f"backward {dtype} d{hdim}", f"{_BACK} -d {hdim} --dtype {dtype}", BWD)
    yield CkProblem("backward, divisible", "-b 1 -H 2 -s 128 -d 64 --direction bwd", BWD)
    for mask in _MASKS[:4]:
        yield CkProblem(f"backward, {mask.split()[-1].lstrip('-')}", f"{_BACK} -d 64 {mask}", BWD)
    yield CkProblem("backward, tiles left out", f"{_LONG} -d 64 --mask window:20,5 --direction bwd", BWD)
    yield CkProblem("backward, rows without keys", "-b 1 -H 2 -s 200 --seqlen-k 60 -d 64 --causal --direction bwd", BWD)
    yield CkProblem("backward, causal, bf16 d128", f"{_BACK} -d 128 --dtype bf16 --causal", BWD)
    yield CkProblem("backward, GQA", "-b 1 -H 4 --kv-heads 2 -s 70 -d 64 --dtype bf16 --causal --direction bwd", BWD)
    yield CkProblem("backward, deterministic", f"{_BACK} -d 64 --deterministic", BWD)
    yield CkProblem("backward, deterministic, bf16 d128", f"{_BACK} -d 128 --dtype bf16 --deterministic --causal", BWD)
    yield CkProblem("backward, dropout", f"{_BACK} -d 64 --dropout 0.2 --seed 5", BWD)
    yield CkProblem("backward, dropout, causal d128", f"{_BACK} -d 128 --dropout 0.2 --seed 5 --causal", BWD)
    yield CkProblem("backward, bias", f"{_BACK} -d 64 --bias elementwise:1hss", BWD)
    yield CkProblem("backward, dbias", f"{_BACK} -d 64 --bias elementwise:bhss --dbias", BWD)
    yield CkProblem("backward, dropout, dbias", f"{_BACK} -d 128 --dropout 0.1 --bias elementwise:bhss --dbias", BWD)
    yield CkProblem("backward, ALiBi", f"{_BACK} -d 64 --alibi --causal", BWD)
    yield CkProblem("backward, packed", f"{_BACK_GROUP} -d 64", BWD)
    yield CkProblem("backward, packed, causal, bf16", f"{_BACK_GROUP} -d 128 --dtype bf16 --causal", BWD)
    yield CkProblem("backward, packed, dropout", f"{_BACK_GROUP} -d 64 --dropout 0.2", BWD)


def all_problems() -> tuple[CkProblem, ...]:
    """Every problem, in order."""
    return (*forward_problems(), *cache_problems(), *backward_problems())
