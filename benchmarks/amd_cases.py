"""CK-Tile's cases, which cover every family."""

from __future__ import annotations

from check_case import BWD, FWD, SPLITKV, CheckCase

AMD_CASES = (
    CheckCase("forward", "-b 2 -H 16 -s 2k -d 128 --splits 1", FWD),
    CheckCase("causal, GQA, bf16, bshd", "-b 2 -H 16 --kv-heads 4 -s 2k -d 128 --dtype bf16 --causal --layout bshd --splits 1", FWD),
    CheckCase("packed, LSE", "--seqlens-q 1000,1,700 -H 8 -d 64 --lse --splits 1", FWD),
    CheckCase("window, bias", "-b 1 -H 8 -s 1k -d 64 --mask window:128,0 --bias elementwise:1hss --splits 1", FWD),
    CheckCase("ALiBi, LSE", "-b 1 -H 8 -s 1k -d 64 --alibi --causal --lse --splits 1", FWD),
    CheckCase("softcap", "-b 1 -H 8 -s 1k -d 128 --softcap 30 --splits 1", FWD),
    CheckCase("dropout", "-b 1 -H 8 -s 1k -d 128 --dropout 0.2 --seed 7 --offset 3 --splits 1", FWD),
    CheckCase("fp8", "-b 1 -H 8 -s 1k -d 128 --dtype fp8_e4m3:bf16 --qscale tensor --splits 1", FWD),
    CheckCase("decode", "-b 4 -H 32 --kv-heads 8 -s 1 --kv-cache linear --cache-seqlens 8k -d 128 --splits 8", SPLITKV),
    CheckCase("decode, pages", "-b 4 -H 32 --kv-heads 8 -s 1 --kv-cache paged:128 --cache-seqlens 8k -d 128 --splits 8", SPLITKV),
    CheckCase("append, rotary", "-b 4 -H 8 -s 4 --kv-cache linear --cache-seqlens 1000 --append 4 --rotary 64 -d 128 --causal --splits 4", ("fwd_appendkv", *SPLITKV)),
    CheckCase("paged prefill", "-b 2 -H 8 -s 512 --kv-cache paged:128 --cache-seqlens 2k -d 128 --causal --splits 1", ("fwd_pagedkv",)),
    CheckCase("batch prefill", "--seqlens-q 500,300 --kv-cache paged:1 --cache-seqlens 1k,600 -H 8 -d 128 --causal --splits 1", ("batch_prefill",)),
    CheckCase("backward", "-b 2 -H 8 -s 1k -d 128 --direction bwd", BWD),
    CheckCase("backward, causal, GQA", "-b 1 -H 8 --kv-heads 2 -s 1k -d 64 --dtype bf16 --causal --direction bwd", BWD),
    CheckCase("backward, deterministic", "-b 1 -H 4 -s 512 -d 64 --deterministic --direction bwd", BWD),
    CheckCase("backward, dropout, dbias", "-b 1 -H 4 -s 512 -d 64 --dropout 0.1 --bias elementwise:bhss --dbias --direction bwd", BWD),
)  # fmt: skip
