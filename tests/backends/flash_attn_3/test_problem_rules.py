"""Each rule refuses what it names, and passes its nearest neighbour."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import FAMILIES, family_kernels
from fmha_cli.backends.flash_attn_3.decide import decide
from fmha_cli.backends.flash_attn_3.kernel_rules import refusals
from fmha_cli.backends.flash_attn_3.problem_rules import NO_KERNELS, ORDER
from fmha_cli.codegen.flash_attn_3.instance import WRITTEN, algorithm_of
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem

H100 = DeviceFacts.of_arch("sm_90a")
BASE = "-b 2 -H 4 --kv-heads 4 -s 300 -d 128 --dtype bf16 --splits 1"
CACHE = "--kv-cache linear --cache-seqlens"
LATENT = "-H 4 --kv-heads 1"
CASES = (
    ("K653", "--dtype fp32", "--dtype fp16"),
    ("K654", "--dtype bf16:fp32", "--dtype bf16"),
    ("K655", "-d 60", "-d 64"),
    ("K655", "-d 64 --hdim-v 100", "-d 64 --hdim-v 104"),
    ("K656", "-d 264", "-d 256"),
    ("K657", "-d 128 --hdim-v 64", "-d 64 --hdim-v 128"),
    ("K657", "-d 192 --hdim-v 96", "-d 192 --hdim-v 104"),
    ("K657", "-d 64 --hdim-v 520", "-d 64 --hdim-v 512"),
    ("K657", "-d 64 --hdim-v 128 --dtype fp8_e4m3:bf16", ""),
    ("K658", "--alibi", ""),
    ("K659", "--bias elementwise", ""),
    ("K660", "--mask window:100,0 --sink 4", "--mask window:100,0"),
    ("K661", "--sink-logits filled", ""),
    ("K662", "--dropout 0.1", ""),
    ("K663", "--qscale head", ""),
    ("K664", "--mask window-tl:10,5 --seqlen-k 100", "--mask window-tl:10,5"),
    ("K665", "--scale -1", "--scale 1"),
    ("K666", "--dtype fp8_e4m3:bf16 --direction bwd", ""),
    ("K667", "-d 256 --direction bwd --deterministic", "-d 256 --direction bwd"),
    (
        "K667",
        "-d 64 --hdim-v 200 --direction bwd --deterministic",
        "-d 64 --hdim-v 192 --direction bwd --deterministic",
    ),
    ("K657", "-d 128 --hdim-v 264 --direction bwd", "-d 128 --hdim-v 64 --direction bwd"),
    (
        "K691",
        "-H 128 --kv-heads 128 -s 70k -d 256 --direction bwd",
        "-b 1 -H 128 --kv-heads 128 -s 70k -d 256 --direction bwd",
    ),
    (
        "K691",
        "-H 128 --kv-heads 64 -s 64 --seqlen-k 140k -d 256 --direction bwd",
        "-H 64 --kv-heads 64 -s 64 --seqlen-k 140k -d 256 --direction bwd",
    ),
    (
        "K692",
        "-b 1 -H 65536 --kv-heads 65536 -s 1 -d 8 --direction bwd",
        "-b 1 -H 65535 --kv-heads 65535 -s 1 -d 8 --direction bwd",
    ),
    (
        "K693",
        "-b 1 -H 1 --kv-heads 1 -s 1 --seqlen-k 1m -d 8 --causal --direction bwd",
        "-b 1 -H 1 --kv-heads 1 -s 1 --seqlen-k 500k -d 8 --causal --direction bwd",
    ),
    ("K668", "--seqlen-k 5m", "--seqlen-k 1m"),
    (
        "K671",
        "-H 1 --kv-heads 1 -b 1 -d 8 -s 1 --seqlen-k 1073741824",
        "-H 1 --kv-heads 1 -b 1 -d 8 -s 1 --seqlen-k 1000000",
    ),
    ("K684", f"-s 20 {CACHE} 10,10 --append 3", ""),
    ("K685", f"-s 1 --mask window:1,0 {CACHE} 100,100 --append 200", ""),
    ("K686", f"-s 3 --causal {CACHE} 100,100 --append 3 --rotary 24", ""),
    ("K696", f"-s 3 --causal {CACHE} 100,100 --append 3 --rotary 32 --dtype fp8_e4m3:bf16", ""),
    ("K655", f"{LATENT} -d 572 --mla-rope 60", f"{LATENT} -d 576 --mla-rope 64"),
    ("K688", f"{LATENT} -d 584 --mla-rope 72", f"{LATENT} -d 576 --mla-rope 64"),
    ("K688", f"{LATENT} -d 312 --mla-rope 64", f"{LATENT} -d 320 --mla-rope 64"),
    ("K688", f"{LATENT} -d 584 --mla-rope 64", f"{LATENT} -d 520 --mla-rope 8"),
    ("K689", f"{LATENT} -d 576 --mla-rope 64 --dtype fp8_e4m3:bf16", f"{LATENT} -d 576 --mla-rope 64 --dtype fp16"),
    ("K694", "-d 128 --mla-rope 64 --direction bwd", "-d 128 --hdim-v 64 --direction bwd"),
    (
        "K695",
        f"-s 3 --causal {LATENT} -d 576 --mla-rope 64 {CACHE} 100,100 --append 3 --rotary 32",
        f"-s 3 --causal {LATENT} -d 576 --mla-rope 64 {CACHE} 100,100 --append 3",
    ),
    ("K687", f"-s 2 --causal {CACHE} 100,100 --append 3 --rotary 32", ""),
    ("K687", f"-s 3 {CACHE} 100,100 --append 3 --rotary 32", ""),
    ("K680", "--kv-cache linear --splits 256", "--kv-cache linear --splits 255"),
    ("K683", "-H 65536 --kv-heads 65536 -s 1 --kv-cache linear", "-H 65535 --kv-heads 65535 -s 1 --kv-cache linear"),
    (
        "K669",
        "-H 65536 --kv-heads 65536 -b 1 -s 32768 --seqlen-k 1 -d 8",
        "-H 65536 --kv-heads 65536 -b 1 -s 32767 --seqlen-k 1 -d 8",
    ),
    ("K670", "-H 65536 --kv-heads 65536 -b 32768 -s 1 -d 8", "-H 65535 --kv-heads 65535 -b 32766 -s 1 -d 8"),
    ("K680", "--splits 257", "--splits 256"),
    ("K681", "-H 1024 --kv-heads 1024 --splits 64", "-H 1023 --kv-heads 1023 --splits 64"),
)


def reasons(line: str) -> list[set[str]]:
    """The ids against each kernel that is refused."""
    problem = Problem.from_cli(f"{BASE} {line}")
    return [{reason.id for reason in d.reasons} for d in decide(problem, H100) if isinstance(d, Unsupported)]


def supported(line: str) -> list[Supported]:
    found = [d for d in decide(Problem.from_cli(f"{BASE} {line}"), H100) if isinstance(d, Supported)]
    return sorted(found, key=lambda d: d.rank)


@pytest.mark.parametrize(("id", "refused", "passed"), CASES)
def test_a_rule_refuses_and_its_neighbour_passes(id: str, refused: str, passed: str) -> None:
    assert not supported(refused)
    assert any(id in ids for ids in reasons(refused))
    if id != "K666":
        assert not all(id in ids for ids in reasons(passed))
    if passed:
        assert supported(passed)


def test_the_refused_is_refused_for_that_reason_alone_by_the_nearest_kernel() -> None:
    assert {"K662"} in [ids - {"K009"} for ids in reasons("--dropout 0.1")]
    assert {"K658"} in [ids - {"K007"} for ids in reasons("--alibi")]


def test_sink_logits_are_refused_and_the_reason_names_who_has_them() -> None:
    problem = Problem.of(batch=2, heads=4, seqlen=64, hdim=64, dtype="bf16", sink_logits="filled")
    found = [r for d in decide(problem, H100) if isinstance(d, Unsupported) for r in d.reasons if r.id == "K661"]
    assert found
    assert "vLLM" in found[0].text


@pytest.mark.parametrize(("page", "way", "id"), [(128, False, True), (100, True, True)])
def test_pages_are_read_as_upstream_reads_them(page: int, way: bool, id: bool) -> None:
    """Whole tiles of keys by TMA, other pages by cp.async; the other kernel is refused by K682."""
    line = f"--causal --kv-cache paged:{page} --cache-seqlens 300,300"
    assert {algorithm_of(d.kernel).paged for d in supported(line)} == {way}
    assert any("K682" in ids for ids in reasons(line)) == id


def test_a_kernel_that_does_not_fit_says_why() -> None:
    said = set().union(*reasons("-H 8 --kv-heads 8 --causal"))
    assert {"K672", "K673", "K674", "K675", "K676"} <= said
    assert supported("-H 8 --kv-heads 8 --causal")


@pytest.mark.parametrize(
    ("change", "id"), [({"arch": "sm_90"}, "K650"), ({"algorithm": {"tile": (64, 64)}}, "K651"), ({}, "")]
)
def test_a_kernel_that_upstream_lacks_is_refused(change: dict[str, Any], id: str) -> None:
    kernel = family_kernels("sm_90a", Family.FWD)[0]
    algorithm = replace(kernel.algorithm, **change.get("algorithm", {}))
    refused = refusals(replace(kernel, arch=change.get("arch", kernel.arch), algorithm=algorithm))
    assert [reason.id for reason in refused] == [id][: bool(id)]


def test_every_family_has_a_text() -> None:
    assert set(FAMILIES) == set(WRITTEN)


@pytest.mark.parametrize(("line", "grouped"), [("--direction bwd", False), ("--kv-heads 2 --direction bwd", True)])
def test_a_backward_kernel_is_for_grouped_heads_or_not(line: str, grouped: bool) -> None:
    assert {algorithm_of(d.kernel).gqa for d in supported(line)} == {grouped}
    assert {"K690"} in reasons(line)


@pytest.mark.parametrize(("line", "ordered"), [("--direction bwd", False), ("--direction bwd --deterministic", True)])
def test_a_backward_pass_adds_in_a_fixed_order_if_asked(line: str, ordered: bool) -> None:
    first = supported(line)[0]
    assert algorithm_of(first.kernel).fixed_order is ordered
    assert ("by atomics" in (first.note or "")) is not ordered


@pytest.mark.parametrize(("line", "second"), [("-d 64 --hdim-v 512", False), (f"{LATENT} -d 576 --mla-rope 64", True)])
def test_v_inside_k_takes_the_kernels_with_a_second_product(line: str, second: bool) -> None:
    assert {algorithm_of(d.kernel).qv for d in supported(line)} == {second}
    assert {"K677"} in reasons(line)


def test_both_products_are_named() -> None:
    first = supported(f"{LATENT} -d 576 --mla-rope 64 --causal")[0]
    assert "scores of 64 columns of q * k and 512 of q_v * v" in (first.note or "")


def test_upstreams_choice_has_the_first_rank() -> None:
    first, *others = supported("--causal")
    assert first.rank == (0, 0, 0)
    assert all(d.rank[0] == 1 for d in others)
    assert "host code takes it" in (first.note or "")


def test_a_kernel_that_fits_beside_it_says_why_it_is_not_first() -> None:
    found = supported("-H 8 --kv-heads 4 --causal")
    assert len(found) == 2
    assert ORDER in (found[1].note or "")


def test_another_device_has_no_kernels() -> None:
    (only,) = decide(Problem.from_cli(BASE), DeviceFacts.of_arch("sm_90"))
    assert isinstance(only, Unsupported)
    assert [reason.id for reason in only.reasons] == [NO_KERNELS]
