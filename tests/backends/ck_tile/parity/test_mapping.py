"""The mapping of a case to both sides: every setting reaches both, or the case is not comparable, with a reason."""

from __future__ import annotations

from collections import Counter

import pytest

from fmha_cli.backends.ck_tile.parity.case import DEFAULTS
from fmha_cli.backends.ck_tile.parity.counterpart import CkCounterpart
from fmha_cli.backends.ck_tile.parity.mapping import map_case
from fmha_cli.domain.counterpart import Program, UpstreamCase
from fmha_cli.domain.problem import Problem
from fmha_cli.parity.suite import load_suite
from tests.support.generators.ck_tile.cases import ck_case


def forward(**settings: str) -> UpstreamCase:
    return ck_case("x", Program.FWD, settings)


def backward(**settings: str) -> UpstreamCase:
    return ck_case("x", Program.BWD, settings)


def problem(case: UpstreamCase) -> Problem:
    found = map_case(case)
    assert found.reasons == ()
    assert found.problem is not None
    return found.problem


SAME: dict[str, tuple[UpstreamCase, str]] = {
    "sizes": (
        forward(b="3", h="8", h_k="2", s="55", s_k="256", d="16", d_v="32"),
        "-b 3 -H 8 --kv-heads 2 -s 55 --seqlen-k 256 -d 16 --hdim-v 32 --splits 1",
    ),
    "the program's defaults": (forward(), "-b 2 -H 8 -s 3328 -d 128 --splits 1"),
    "types": (forward(prec="fp8bf16"), "-b 2 -s 3328 --dtype fp8_e4m3:bf16 --splits 1"),
    "static quantisation": (forward(prec="fp8fp32", squant="1"), "-b 2 -s 3328 --dtype fp8_e4m3:fp32 --qscale tensor --splits 1"),
    "fp8 quantises by itself": (forward(prec="fp8"), "-b 2 -s 3328 --dtype fp8_e4m3:fp8_e4m3 --qscale tensor --splits 1"),
    "causal, top left": (forward(mask="1"), "-b 2 -s 3328 --mask causal-tl --splits 1"),
    "causal, bottom right": (forward(mask="b"), "-b 2 -s 3328 --causal --splits 1"),
    "windows": (forward(mask="t:128,30"), "-b 2 -s 3328 --mask window-tl:128,30 --splits 1"),
    "xFormers windows": (forward(mask="xb:7"), "-b 2 -s 3328 --mask window:3,3 --splits 1"),
    "bias": (forward(bias="e"), "-b 2 -s 3328 --bias elementwise --splits 1"),
    "alibi": (forward(bias="a"), "-b 2 -s 3328 --alibi --splits 1"),
    "alibi for each sequence": (forward(bias="a:1"), "-b 2 -s 3328 --alibi-slopes filled:bh --splits 1"),
    "dropout": (
        forward(p_drop="0.2", drop_seed="5", drop_offset="7"),
        "-b 2 -s 3328 --dropout 0.2 --seed 5 --offset 7 --splits 1",
    ),
    "dropout's own defaults": (forward(p_drop="0.2"), "-b 2 -s 3328 --dropout 0.2 --seed 1 --splits 1"),
    "layouts": (forward(iperm="1", operm="0"), "-b 2 -s 3328 --layout bhsd:bshd --splits 1"),
    "both layouts": (forward(iperm="0", operm="0"), "-b 2 -s 3328 --layout bshd --splits 1"),
    "scale and cap": (forward(scale_s="0.5", logits_soft_cap="30"), "-b 2 -s 3328 --scale 0.5 --softcap 30 --splits 1"),
    "lse": (forward(lse="1"), "-b 2 -s 3328 --lse --splits 1"),
    "splits": (forward(num_splits="3"), "-b 2 -s 3328 --splits 3"),
    "splits chosen by the side": (forward(num_splits="0"), "-b 2 -s 3328 --splits auto"),
    "packed sequences": (
        forward(mode="1", b="2", s="55", s_k="256"),
        "--seqlens-q 55,55 --seqlens-k 256,256 --splits 1",
    ),
    "pages": (
        forward(page_block_size="128", s="100", s_k="256"),
        "-b 2 -s 100 --kv-cache paged:128 --cache-seqlens 256 --splits 1",
    ),
    "pages of packed sequences": (
        forward(mode="1", b="2", s="55,5", s_k="256,99", page_block_size="128"),
        "--seqlens-q 55,5 --kv-cache paged:128 --cache-seqlens 256,99 --splits 1",
    ),
    "appending": (
        forward(b="1", s="64", s_k="129", s_knew="64"),
        "-b 1 -s 64 --kv-cache linear --cache-seqlens 65 --append 64 --splits 1",
    ),
    "rotary": (
        forward(b="1", s="64", s_k="129", s_knew="64", rotary_dim="32", mask="2"),
        "-b 1 -s 64 --kv-cache linear --cache-seqlens 65 --append 64 --rotary 32:interleaved --causal --splits 1",
    ),
    "rotary by halves, one query": (
        forward(b="1", s="1", s_k="9", s_knew="1", rotary_dim="16", rotary_interleaved="0"),
        "-b 1 -s 1 --kv-cache linear --cache-seqlens 8 --append 1 --rotary 16:half --splits 1",
    ),
    "no keys": (forward(s="33", s_k="0"), "-b 2 -s 33 --seqlen-k 0 --splits 1"),
    "backward": (
        backward(s="259", scale="0.5", deterministic="1", bias="e", dbias="1", prec="bf16"),
        "-b 2 -s 259 --scale 0.5 --direction bwd --deterministic --bias elementwise --dbias --dtype bf16",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_what_a_case_means_to_this_tool(name: str) -> None:
    case, flags = SAME[name]
    assert problem(case) == Problem.from_cli(flags)
    assert map_case(case).argv == case.argv()


INCOMPARABLE: dict[str, tuple[UpstreamCase, str]] = {
    "padding in group mode": (forward(mode="1", s_kpad="4000"), "physical padding"),
    "padding in batch mode": (forward(s_qpad="4000"), "drops it in batch mode"),
    "padding, backward": (backward(mode="1", s_qpad="4000"), "physical padding"),
    "effective lengths": (forward(q_eff_lens="1,2"), "effective lengths"),
    "column-major V": (forward(vlayout="c"), "row-major"),
    "generic masks": (forward(mask="g:5,9"), "checks it as a window"),
    "bias of a higher rank": (forward(bias="e:2"), "broadcasts one"),
    "device pointers": (forward(p_drop="0.2", drop_prefs="1"), "device pointers"),
    "indexed caches": (forward(cache_batch_idx="1"), "index into the cache"),
    "lists in batch mode": (forward(s="5,6"), "the first one only"),
    "too many lengths": (forward(mode="1", b="2", s="5,6,7"), "drops the rest"),
    "unknown lengths": (forward(mode="1", b="3", s_k="5", seed="0"), "cannot be known"),
    "appending in group mode": (forward(mode="1", s_knew="3"), "switches to batch mode"),
    "rotary alone": (forward(rotary_dim="16"), "part of appending"),
    "rotary at other positions": (forward(b="1", s="3", s_knew="3", rotary_dim="16"), "every query by position cache,"),
    "fewer new keys than queries": (
        forward(b="1", s="3", s_k="9", s_knew="2", rotary_dim="16", mask="2"),
        "query i by position cache + i,",
    ),
    "unknown types": (forward(prec="int8"), "no such data type"),
    "options of newer programs": (ck_case("x", Program.FWD, {"qscale": "pt"}), "no option -qscale"),
    "a bias that nobody knows": (forward(bias="q"), "refuses it"),
    "data that nobody knows": (forward(init="zeros"), "runs on zeros"),
    "an impossible problem": (forward(h="3", h_k="2"), "not a multiple"),
    "a mask that nobody knows": (forward(mask="q"), "not a mask"),
    "certain dropout": (forward(p_drop="1"), "--dropout 1.0"),
}


@pytest.mark.promise("`parity` compares with upstream's programs, and says why a case cannot be compared.")
@pytest.mark.parametrize("name", INCOMPARABLE)
def test_what_cannot_be_compared_says_why(name: str) -> None:
    case, why = INCOMPARABLE[name]
    found = map_case(case)
    assert found.problem is None
    assert any(why in reason for reason in found.reasons), found.reasons


def test_lengths_that_would_be_drawn_are_spelled_out() -> None:
    found = map_case(forward(mode="1", b="3", s="200", s_k="520", seed="11939"))
    keys = found.flags["seqlens_k"]
    assert f"-s_k={keys}" in found.argv
    assert "-s=200,200,200" in found.argv
    assert found.notes


SILENT = {
    "v", "kname", "warmup", "repeat", "json", "jsonfile", "timer",  # these affect how it runs, not what
    "init", "seed",  # each side makes its own data, of the same kind
}  # fmt: skip


@pytest.mark.parametrize("program", Program)
def test_no_option_is_dropped(program: Program) -> None:
    """Changing any option changes the problem or makes the case not comparable."""
    base = {
        "s": "64", "s_k": "64", "b": "2", "h": "4", "h_k": "4", "bias": "e", "p_drop": "0.1", "prec": "fp16",
    } | ({"s_knew": "8", "mask": "2", "bias": "n", "p_drop": "0.1"} if program is Program.FWD else {})  # fmt: skip
    other = {
        "mode": "1", "b": "3", "h": "8", "h_k": "2", "s": "65", "s_k": "66", "s_qpad": "99", "s_kpad": "99", "d": "64",
        "d_v": "64", "iperm": "0", "operm": "0", "bias": "a", "prec": "bf16", "mask": "1", "p_drop": "0.5",
        "drop_seed": "9", "drop_offset": "9", "drop_prefs": "1", "s_knew": "9", "scale_s": "0.5", "scale": "0.5",
        "logits_soft_cap": "9", "squant": "1", "vlayout": "c", "lse": "1", "rotary_dim": "16", "num_splits": "2",
        "page_block_size": "128", "cache_batch_idx": "1", "q_eff_lens": "9", "kv_eff_lens": "9", "dbias": "1",
        "deterministic": "1", "rotary_interleaved": "0",
    }  # fmt: skip
    before = problem(ck_case("x", program, base))
    for option in DEFAULTS[program]:
        if option in SILENT:
            continue
        extra = {"rotary_dim": "16", "s": "8", "s_knew": "8"} if option == "rotary_interleaved" else {}
        start = problem(ck_case("x", program, {**base, **extra})) if extra else before
        found = map_case(ck_case("x", program, {**base, **extra, option: other[option]}))
        assert found.reasons or found.problem != start, option


def test_fills_are_of_the_same_kind() -> None:
    assert map_case(forward(init="0")).fill == map_case(forward(init="ui")).fill == "sparse_int"
    assert map_case(forward()).fill == "normal"


@pytest.mark.promise("`parity` compares with upstream's programs, and says why a case cannot be compared.")
@pytest.mark.parametrize(
    ("name", "compared", "not_compared"),
    [
        ("basic", 14, 0),
        pytest.param("smoke_fwd", 3156, 420, marks=pytest.mark.slow),
        ("smoke_bwd", 840, 0),
        ("smoke_fwd_appendkv", 288, 2016),
    ],
)
def test_how_much_of_the_suites_can_be_compared(name: str, compared: int, not_compared: int) -> None:
    """Every case is mapped or has a reason."""
    found = Counter(bool(map_case(case).reasons) for case in load_suite(name, CkCounterpart()).cases())
    assert (found[False], found[True]) == (compared, not_compared)
