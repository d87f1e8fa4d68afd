"""The problems whose CK-Tile kernels run on emulated devices: every family and every feature, small and ragged."""

from __future__ import annotations

from collections.abc import Iterator

from check_case import BWD, FWD, SPLITKV, Case

_SHAPE = "-b 1 -H 2 -s 100 --seqlen-k 130"
_ONE = f"{_SHAPE} --splits 1"
_GROUP = "--seqlens-q 70,1,130 --seqlens-k 100,65,33 -H 2 --splits 1"
_BACK = f"{_SHAPE} --direction bwd"
_BACK_GROUP = "--seqlens-q 70,1,130 --seqlens-k 100,65,33 -H 2 --direction bwd"
_LONG = "-b 1 -H 2 -s 300 --seqlen-k 400"

_MASKS = ("--causal", "--mask causal-tl", "--mask window:40,7", "--mask window-tl:33,20", "--mask generic:50,20")


def forward_cases() -> Iterator[Case]:
    """Forward: data types, head dims, masks, biases, and other compiled-in features."""
    for dtype in ("fp16", "bf16"):
        for hdim in (32, 64, 128, 256):
            yield Case(f"{dtype} d{hdim}", f"{_ONE} -d {hdim} --dtype {dtype}", FWD)
    yield Case("divisible", "-b 2 -H 2 -s 128 -d 128 --splits 1", FWD)
    yield Case("divisible, causal, LSE", "-b 1 -H 2 -s 256 -d 64 --causal --lse --splits 1", FWD)
    for hdim, hdim_v in ((72, 72), (96, 96), (80, 96), (192, 128), (160, 160)):
        yield Case(f"d{hdim}x{hdim_v}", f"{_ONE} -d {hdim} --hdim-v {hdim_v}", FWD)
    for mask in _MASKS:
        yield Case(mask.split()[-1].lstrip("-"), f"{_ONE} -d 64 {mask}", FWD)
        yield Case(f"{mask.split()[-1].lstrip('-')}, bf16, LSE", f"{_ONE} -d 128 --dtype bf16 --lse {mask}", FWD)
    for rank in ("11ss", "1hss", "bhss"):
        yield Case(f"bias {rank}", f"-b 2 -H 2 -s 100 --seqlen-k 136 -d 64 --bias elementwise:{rank} --splits 1", FWD)
    yield Case("bias, causal, bf16", f"{_ONE} -d 128 --dtype bf16 --bias elementwise:1hss --causal", FWD)
    yield Case("ALiBi", f"{_ONE} -d 64 --alibi", FWD)
    yield Case("ALiBi, causal, LSE", f"{_ONE} -d 128 --alibi --causal --lse", FWD)
    yield Case("ALiBi, slopes for each sequence", f"{_ONE} -d 64 --alibi-slopes filled:bh --causal", FWD)
    yield Case("softcap", f"{_ONE} -d 64 --softcap 30", FWD)
    yield Case("softcap, causal, bf16", f"{_ONE} -d 128 --dtype bf16 --softcap 20 --causal", FWD)
    yield Case("dropout", f"{_ONE} -d 64 --dropout 0.2 --seed 7 --offset 3", FWD)
    yield Case("dropout, causal, LSE, bf16", f"{_ONE} -d 128 --dtype bf16 --dropout 0.3 --causal --lse", FWD)
    yield Case("dropout, bias", f"{_ONE} -d 64 --dropout 0.2 --bias elementwise:11ss", FWD)
    yield Case("LSE", f"{_ONE} -d 64 --lse", FWD)
    yield Case("GQA, bshd", "-b 2 -H 4 --kv-heads 2 -s 70 --seqlen-k 90 -d 64 --layout bshd --splits 1", FWD)
    yield Case("MQA, causal, d128", "-b 1 -H 4 --kv-heads 1 -s 65 -d 128 --causal --splits 1", FWD)
    yield Case("one query", "-b 2 -H 2 -s 1 --seqlen-k 77 -d 64 --splits 1", FWD)
    yield Case("one key", "-b 1 -H 2 -s 33 --seqlen-k 1 -d 64 --splits 1", FWD)
    yield Case("window, key tiles left out", f"{_LONG} -d 64 --mask window:20,5 --lse --splits 1", FWD)
    yield Case(
        "window, key tiles left out, bf16 d128", f"{_LONG} -d 128 --dtype bf16 --mask window:20,5 --splits 1", FWD
    )
    yield Case("rows without keys", "-b 1 -H 2 -s 200 --seqlen-k 60 -d 64 --causal --lse --splits 1", FWD)
    yield Case("long keys", "-b 1 -H 1 -s 40 --seqlen-k 700 -d 64 --splits 1", FWD)
    for hdim in (64, 128):
        yield Case(f"packed d{hdim}", f"{_GROUP} -d {hdim}", FWD)
        yield Case(f"packed d{hdim}, causal, LSE", f"{_GROUP} -d {hdim} --causal --lse --dtype bf16", FWD)
    yield Case("packed, window", f"{_GROUP} -d 64 --mask window:20,5", FWD)
    yield Case("packed, ALiBi", f"{_GROUP} -d 64 --alibi --causal", FWD)
    yield Case("packed, dropout", f"{_GROUP} -d 64 --dropout 0.2", FWD)
    yield Case("packed, softcap", f"{_GROUP} -d 64 --softcap 15", FWD)
    yield Case("packed, GQA", f"{_GROUP.replace('-H 2', '-H 4 --kv-heads 2')} -d 64", FWD)
    for scale in ("tensor", "none"):
        yield Case(f"fp8, scale {scale}", f"{_ONE} -d 128 --dtype fp8_e4m3:bf16 --qscale {scale}", FWD)
        yield Case(f"fp8 d64, scale {scale}", f"{_ONE} -d 64 --dtype fp8_e4m3:bf16 --qscale {scale} --causal", FWD)
    yield Case("fp8 to fp8", f"{_ONE} -d 128 --dtype fp8_e4m3:fp8_e4m3 --qscale tensor", FWD)
    yield Case("fp8, bias", f"{_ONE} -d 128 --dtype fp8_e4m3:bf16 --qscale tensor --bias elementwise", FWD)
    yield Case("fp8, ALiBi", f"{_ONE} -d 64 --dtype fp8_e4m3:bf16 --qscale tensor --alibi", FWD)
    yield Case("fp8 to fp32", f"{_ONE} -d 128 --dtype fp8_e4m3:fp32 --qscale tensor --causal", FWD)


def cache_cases() -> Iterator[Case]:
    """Split keys and caches: kernels with a second stage, pages, appended keys, rotary embedding, batch prefill."""
    for hdim in (64, 128):
        yield Case(f"split d{hdim}", f"{_SHAPE} -d {hdim} --splits 3", SPLITKV)
        yield Case(f"split d{hdim}, causal, LSE", f"{_SHAPE} -d {hdim} --splits 2 --causal --lse --dtype bf16", SPLITKV)
    yield Case("split, window", f"{_SHAPE} -d 64 --splits 3 --mask window:60,9", SPLITKV)
    yield Case(
        "split, key tiles left out", "-b 1 -H 2 -s 100 --seqlen-k 700 -d 64 --splits 3 --mask window:60,9", SPLITKV
    )
    yield Case("split, ALiBi", f"{_SHAPE} -d 64 --splits 2 --alibi", SPLITKV)
    yield Case("split, bias", f"{_SHAPE} -d 64 --splits 2 --bias elementwise:1hss", SPLITKV)
    yield Case("split, softcap", f"{_SHAPE} -d 64 --splits 2 --softcap 25", SPLITKV)
    yield Case("split, packed", f"{_GROUP.replace('--splits 1', '--splits 2')} -d 64", SPLITKV)
    decode = "-b 2 -H 4 --kv-heads 2 -s 1 --cache-seqlens 300,170"
    for dtype in ("fp16", "bf16"):
        yield Case(f"decode {dtype}", f"{decode} --kv-cache linear -d 128 --dtype {dtype} --splits 3", SPLITKV)
        yield Case(
            f"decode, pages {dtype}", f"{decode} --kv-cache paged:128 -d 128 --dtype {dtype} --splits 3", SPLITKV
        )
    yield Case("decode, pages of 256, d64", f"{decode} --kv-cache paged:256 -d 64 --splits 2", SPLITKV)
    append = "-b 2 -H 2 -s 4 --cache-seqlens 100,37 --append 4"
    yield Case("append", f"{append} --kv-cache linear -d 64 --splits 2", ("fwd_appendkv", *SPLITKV))
    yield Case(
        "append, rotary",
        f"{append} --kv-cache linear --rotary 64 -d 128 --causal --splits 2",
        ("fwd_appendkv", *SPLITKV),
    )
    yield Case(
        "append, rotary interleaved",
        f"{append} --kv-cache linear --rotary 32:interleaved -d 64 --causal --splits 2",
        ("fwd_appendkv", *SPLITKV),
    )
    yield Case(
        "append, pages",
        f"{append} --kv-cache paged:128 --rotary 64 -d 64 --causal --splits 2",
        ("fwd_appendkv", *SPLITKV),
    )
    paged = "-b 2 -H 2 -s 90 --cache-seqlens 200,150 --kv-cache paged:128 --splits 1"
    yield Case("paged prefill", f"{paged} -d 128 --causal", ("fwd_pagedkv",))
    yield Case("paged prefill, bf16", f"{paged} -d 128 --dtype bf16", ("fwd_pagedkv",))
    yield Case("paged prefill, LSE", f"{paged} -d 64 --lse", SPLITKV)
    yield Case("paged prefill, softcap", f"{paged} -d 128 --softcap 30", ("fwd_pagedkv",))
    yield Case(
        "paged prefill, key tiles left out",
        f"{paged.replace('200,150', '700,450')} -d 128 --mask window:40,3",
        ("fwd_pagedkv",),
    )
    batch = "--seqlens-q 70,40 --cache-seqlens 150,90 -H 2 --splits 1"
    for dtype in ("fp16", "bf16"):
        yield Case(
            f"batch prefill {dtype}", f"{batch} --kv-cache paged:1 -d 128 --dtype {dtype} --causal", ("batch_prefill",)
        )
    yield Case("batch prefill, LSE", f"{batch} --kv-cache paged:1 -d 128 --lse", ("batch_prefill",))
    yield Case("batch prefill, window", f"{batch} --kv-cache paged:1 -d 128 --mask window:40,3", ("batch_prefill",))
    yield Case("batch prefill, softcap", f"{batch} --kv-cache paged:1 -d 128 --softcap 30", ("batch_prefill",))


def backward_cases() -> Iterator[Case]:
    """The three backward stages."""
    for dtype in ("fp16", "bf16"):
        for hdim in (32, 64, 128, 256):
            yield Case(f"backward {dtype} d{hdim}", f"{_BACK} -d {hdim} --dtype {dtype}", BWD)
    yield Case("backward, divisible", "-b 1 -H 2 -s 128 -d 64 --direction bwd", BWD)
    for mask in _MASKS[:4]:
        yield Case(f"backward, {mask.split()[-1].lstrip('-')}", f"{_BACK} -d 64 {mask}", BWD)
    yield Case("backward, tiles left out", f"{_LONG} -d 64 --mask window:20,5 --direction bwd", BWD)
    yield Case("backward, rows without keys", "-b 1 -H 2 -s 200 --seqlen-k 60 -d 64 --causal --direction bwd", BWD)
    yield Case("backward, causal, bf16 d128", f"{_BACK} -d 128 --dtype bf16 --causal", BWD)
    yield Case("backward, GQA", "-b 1 -H 4 --kv-heads 2 -s 70 -d 64 --dtype bf16 --causal --direction bwd", BWD)
    yield Case("backward, deterministic", f"{_BACK} -d 64 --deterministic", BWD)
    yield Case("backward, deterministic, bf16 d128", f"{_BACK} -d 128 --dtype bf16 --deterministic --causal", BWD)
    yield Case("backward, dropout", f"{_BACK} -d 64 --dropout 0.2 --seed 5", BWD)
    yield Case("backward, dropout, causal d128", f"{_BACK} -d 128 --dropout 0.2 --seed 5 --causal", BWD)
    yield Case("backward, bias", f"{_BACK} -d 64 --bias elementwise:1hss", BWD)
    yield Case("backward, dbias", f"{_BACK} -d 64 --bias elementwise:bhss --dbias", BWD)
    yield Case("backward, dropout, dbias", f"{_BACK} -d 128 --dropout 0.1 --bias elementwise:bhss --dbias", BWD)
    yield Case("backward, ALiBi", f"{_BACK} -d 64 --alibi --causal", BWD)
    yield Case("backward, packed", f"{_BACK_GROUP} -d 64", BWD)
    yield Case("backward, packed, causal, bf16", f"{_BACK_GROUP} -d 128 --dtype bf16 --causal", BWD)
    yield Case("backward, packed, dropout", f"{_BACK_GROUP} -d 64 --dropout 0.2", BWD)


def all_cases() -> tuple[Case, ...]:
    """Every case, in order."""
    return (*forward_cases(), *cache_cases(), *backward_cases())
