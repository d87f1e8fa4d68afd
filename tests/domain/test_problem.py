from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import ImpossibleProblem, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element, shapes_of
from tests.support.generators.strategies import problems


@given(problems())
def test_repro_reads_back(problem: Problem) -> None:
    assert Problem.from_cli(problem.repro()) == problem
    assert Problem.from_cli(problem.repro().split()).repro() == problem.repro()


@given(problems())
def test_to_dict_is_canonical_json(problem: Problem) -> None:
    data = problem.to_dict()
    assert json.loads(canonical_json(data)) == data
    assert list(data) == sorted(data)


@given(problems())
def test_flops_count_every_visible_pair(problem: Problem) -> None:
    brute = 0
    for rows, keys in zip(problem.query_lengths(), problem.key_lengths(), strict=True):
        rows, keys = min(rows, 40), min(keys, 40)
        seen = [
            (i, j) for i in range(rows) for j in range(keys) if problem.mask.visible(i, j, rows, keys, problem.sink)
        ]
        assert problem.mask.pairs(rows, keys, problem.sink) == len(seen)
    lengths = zip(problem.query_lengths(), problem.key_lengths(), strict=True)
    brute = sum(problem.mask.pairs(rows, keys, problem.sink) for rows, keys in lengths)
    assert problem.flops() == problem.heads * 2 * brute * (problem.hdim + problem.hdim_v)
    assert problem.flops(dense=True) >= problem.flops()


def test_flops_and_bytes_by_hand() -> None:
    p = Problem.of(batch=2, heads=4, kv_heads=2, seqlen=3, seqlen_k=5, hdim=8, hdim_v=16, dtype="fp32", causal=True)
    assert p.visible_pairs() == 2 * (3 + 4 + 5)
    assert p.flops() == 4 * 2 * 24 * (8 + 16)
    q, k, v, o = 2 * 4 * 3 * 8, 2 * 2 * 5 * 8, 2 * 2 * 5 * 16, 2 * 4 * 3 * 16
    assert p.bytes() == 4 * (q + k + v + o)
    b = Problem.from_cli([*p.repro().split(), "--direction", "bwd"])
    assert b.flops() == 4 * 24 * (6 * 8 + 4 * 16)
    assert b.bytes() == p.bytes() + 4 * (2 * 4 * 3) + 4 * (o + q + k + v)


def test_a_bias_beside_e4m3_is_fp32() -> None:
    plain = Problem.from_cli("-H 2 -s 4 --seqlen-k 6 -d 8 --dtype fp8_e4m3")
    biased = Problem.from_cli("-H 2 -s 4 --seqlen-k 6 -d 8 --dtype fp8_e4m3 --bias elementwise:1hss")
    assert shapes_of(biased)["bias"].dtype is Element.FP32
    assert biased.bytes() == plain.bytes() + 4 * 2 * 4 * 6
    halves = Problem.from_cli("-H 2 -s 4 --seqlen-k 6 -d 8 --bias elementwise --direction bwd --dbias")
    assert {shapes_of(halves)[name].dtype for name in ("bias", "dbias")} == {Element.FP16}


def test_defaults_of_the_contract() -> None:
    p = Problem.of()
    assert p.to_dict() == {
        "batch": 1, "heads": 8, "kv_heads": 8, "seqlen_q": 1024, "seqlen_k": 1024, "hdim": 128, "hdim_v": 128,
        "dtype": "fp16", "mask": "none", "mode": "batch", "layout": "bhsd", "direction": "fwd",
        "scale": 0.08838834764831845, "lse": False,
    }  # fmt: skip
    assert p.repro() == ""
    assert Problem.of(heads=16).kv_heads == 16
    assert Problem.of(seqlen="4k", hdim=64) == Problem.from_cli("-s 4096 -d64")


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("--heads 6 --kv-heads 4", "P006", "6"),
        ("--heads 0", "P005", "at least 1"),
        ("--seqlen x", "P003", "not an integer"),
        ("--dropout 1", "P012", "1.0"),
        ("--dropout -0.1", "P012", "-0.1"),
        ("--dtype fp4", "P001", "fp4"),
        ("--mask diag", "P002", "diag"),
        ("--causal --mask window:1,1", "P007", "causal"),
        ("--sink 2 --mask b:1,1,3", "P007", "--sink"),
        ("--seqlens-q 1,2 --seqlen 3", "P007", "--seqlen"),
        ("--seqlens-q 1,2 --batch 3", "P007", "--batch"),
        ("--seqlens-q 1,2 --seqlens-k 1", "P007", "--seqlens-k"),
        ("--seqlens-k 1", "P007", "--seqlens-q"),
        ("--seqlens-q 1,-2", "P005", "-2"),
        ("--append 3", "P007", "--kv-cache"),
        ("--kv-cache linear --rotary 8", "P007", "--append"),
        ("--kv-cache linear --append 1 --rotary 7", "P009", "even"),
        ("--kv-cache paged", "P008", "paged"),
        ("--kv-cache paged:0", "P005", "paged"),
        ("--kv-cache linear --cache-seqlens 3,4", "P007", "--batch"),
        ("--kv-cache linear --cache-seqlens 3 --append 2 --seqlen-k 9", "P007", "--seqlen-k"),
        ("--cache-leftpad 3", "P007", "--kv-cache"),
        ("--kv-cache paged:16 --cache-leftpad 3", "P007", "linear"),
        ("-b 3 --kv-cache linear --cache-leftpad 3,4", "P007", "--batch"),
        ("--kv-cache linear --cache-leftpad -1", "P005", "-1"),
        ("--bias alibi --bias-file x.npy", "P007", "--bias-file"),
        ("--alibi --bias elementwise", "P007", "one bias"),
        ("--bias elementwise:hhss", "P010", "hhss"),
        ("--softcap -1", "P011", "-1"),
        ("--seed -1 --dropout 0.1", "P013", "-1"),
        ("--layout sbhd", "P014", "sbhd"),
        ("--kv-dtype int8", "P007", "--kv-cache"),
        ("--kv-cache linear --kv-dtype int4", "P014", "fp8_e4m3"),
        ("--fp8-encoding ocpp", "P014", "ocp"),
        ("--qscale mx", "P007", "mx"),
        ("--dtype mxfp8 --qscale none", "P007", "mxfp8"),
        ("--dtype mxfp4 --q-descale x.npy", "P007", "q_scale"),
        ("--kv-cache linear --kv-dtype int8 --qscale head --q-descale x.npy", "P007", "--q-descale"),
        ("--splits 0", "P005", "0"),
        ("--dbias", "P007", "backward"),
        ("--direction bwd --dbias", "P007", "--bias"),
        ("--direction bwd --kv-cache linear", "P007", "inference"),
        ("--scale nan", "P003", "nan"),
        ("--q-descale x.npy", "P007", "granularity"),
        ("-d 64 --mla-rope 64", "P018", "--mla-rope 63 or less"),
        ("-d 1 --mla-rope 1", "P018", "1"),
        ("--mla-rope -1", "P005", "-1"),
        ("-d 64 --mla-rope 16 --hdim-v 64", "P007", "first 48 columns"),
        ("--mla-rope 16 --qscale tensor --v-descale x.npy", "P007", "K's scales"),
        ("--heads 3000000000", "P017", "--heads 2147483647 or less"),
        ("--kv-cache paged:0", "P005", "--kv-cache paged:1 or more"),
        ("--kv-cache linear --append 1 --rotary 7", "P009", "--rotary 6"),
        ("--kv-cache linear --append 1 --rotary 8:whole", "P009", "--rotary 8:half"),
        ("--append 3", "P007", "add --kv-cache linear"),
        ("--softcap 1e39", "P020", "at most 3.4e38"),
    ],
)
def test_the_impossible_names_rule_and_values(line: str, code: str, says: str) -> None:
    with pytest.raises(ImpossibleProblem) as caught:
        Problem.from_cli(line)
    assert caught.value.code == code
    assert says in caught.value.render()
    assert caught.value.help


def test_unknown_words_are_usage_errors() -> None:
    for line in ("--bogus 1", "word", "--seqlen"):
        with pytest.raises(UsageError):
            Problem.from_cli(line)


def test_sink_without_a_left_bound_changes_nothing() -> None:
    assert Problem.from_cli("--causal --sink 4") == Problem.from_cli("--causal")
    assert Problem.from_cli("--mask b:3,4,2") == Problem.from_cli("--mask window:3,4 --sink 2")


def test_cache_lengths() -> None:
    p = Problem.from_cli("-b 2 -s 1 --kv-cache paged:16 --cache-seqlens 5,9 --append 2")
    assert p.key_lengths() == (7, 11)
    assert p.seqlen_k == 11
    assert Problem.from_cli("-s 4 --kv-cache linear --seqlen-k 100 --append 4").cache_seqlens == (96,)


def test_left_padding_is_storage_and_no_length() -> None:
    line = "-b 2 -s 1 --kv-cache linear --cache-seqlens 5,9 --append 2"
    plain, padded = Problem.from_cli(line), Problem.from_cli(f"{line} --cache-leftpad 3,0")
    assert padded.cache_leftpad == padded.leftpads() == (3, 0)
    assert padded.key_lengths() == plain.key_lengths()
    assert (padded.cache_rows, plain.cache_rows) == (11, 11), "3 + 7 and 0 + 11 rows"
    assert Problem.from_cli(f"{line} --cache-leftpad 0,3").cache_rows == 14
    assert (padded.flops(), padded.bytes()) == (plain.flops(), plain.bytes())
    assert shapes_of(padded)["k"].shape == (2, 8, 11, 128)
    assert shapes_of(padded)["k_new"].shape == (2, 8, 2, 128)


def test_no_left_padding_has_one_form() -> None:
    line = "-b 2 -s 1 --kv-cache linear --cache-seqlens 5,9"
    plain = Problem.from_cli(line)
    for zeros in ("0", "0,0"):
        assert Problem.from_cli(f"{line} --cache-leftpad {zeros}") == plain
    assert plain.leftpads() == (0, 0)
    assert "cache_leftpad" not in plain.to_dict()
    assert Problem.from_cli(f"{line} --cache-leftpad 4").to_dict()["cache_leftpad"] == [4, 4]
    assert Problem.from_cli("-b 2 --cache-leftpad 0") == Problem.from_cli("-b 2")
    assert Problem.from_cli("-b 2 --kv-cache paged:16 --cache-leftpad 0") == Problem.from_cli(
        "-b 2 --kv-cache paged:16"
    )


def test_v_in_the_columns_of_k() -> None:
    plain = Problem.from_cli("-b 2 -H 16 --kv-heads 1 -s 3 -d 576 --hdim-v 512 --direction fwd+bwd --lse")
    inside = Problem.from_cli("-b 2 -H 16 --kv-heads 1 -s 3 -d 576 --mla-rope 64 --direction fwd+bwd --lse")
    assert (inside.hdim_v, inside.v_in_k, plain.v_in_k) == (512, True, False)
    assert replace(inside, mla_rope=0) == plain
    assert "mla_rope" not in plain.to_dict()
    assert inside.to_dict()["mla_rope"] == 64
    assert inside.repro() == plain.repro().replace("--hdim-v 512", "--mla-rope 64")
    assert Problem.from_cli(inside.repro()) == inside == Problem.from_cli(f"{inside.repro()} --hdim-v 512")
    assert Problem.from_cli("--mla-rope 0") == Problem.from_cli("")
    assert inside.flops() == plain.flops()
    v_and_dv = 2 * 2 * 3 * 512 * 2
    assert plain.bytes() - inside.bytes() == v_and_dv
    assert {*shapes_of(plain)} - {*shapes_of(inside)} == {"v", "dv"}
    appended = Problem.from_cli("-s 1 -d 64 --mla-rope 16 --kv-cache linear --cache-seqlens 9 --append 1 --qscale head")
    assert not {"v", "v_new", "v_descale"} & {*shapes_of(appended)}
    assert {"k", "k_new", "k_descale"} < {*shapes_of(appended)}
