"""The first lines of ``explain`` for CK-Tile: the nearest miss, its rule, and the smallest change that would work."""

from __future__ import annotations

import pytest

from fmha_cli.backends.ck_tile.decide import decide
from fmha_cli.domain.decision import Supported, Trace, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem


def trace(arch: str, line: str) -> Trace:
    decisions = tuple(decide(Problem.from_cli(line), DeviceFacts.of_arch(arch)))
    supported = sorted((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank)
    return Trace((*supported, *(d for d in decisions if isinstance(d, Unsupported))))


MISSES = {
    "hdim 72, fp8": ("gfx942", "-d 72 --dtype fp8_e4m3:fp8_e4m3 --splits 1", "K303", "pad it: --hdim 128"),
    "hdim 72, paged prefill": (
        "gfx942",
        "-d 72 --dtype fp8_e4m3:fp8_e4m3 --qscale tensor --splits 4",
        "K303",
        "--hdim 128",
    ),
    "hdim 512": ("gfx942", "-d 512", "K012", "--hdim 256 or less"),
    "hdim 512, backward": ("gfx942", "-d 512 --direction bwd", "K012", "--hdim 256 or less"),
    "fp32 on split-KV": ("gfx942", "--dtype fp32 --splits 4", "K017", "--splits 1"),
    "fp32 with a paged cache": (
        "gfx942",
        "--dtype fp32 --kv-cache paged:128 --cache-seqlens 500",
        "K001",
        "--dtype bf16",
    ),
    "soft cap with bias": ("gfx942", "--softcap 30 --bias elementwise --splits 1", "K008", "--softcap 0"),
    "sink": ("gfx942", "--mask b:8,0 --sink 4 --splits 1", "K005", "--sink 0"),
    "sink logits": ("gfx950", "--sink-logits filled --splits 1", "K006", "drop --sink-logits"),
    "fp8 with LSE": ("gfx942", "--dtype fp8_e4m3 --lse --splits 1", "K010", "drop --lse"),
    "fp8 split-KV with LSE": (
        "gfx942",
        "--dtype fp8_e4m3:fp8_e4m3 --qscale tensor --lse --splits 4",
        "K310",
        "drop --lse",
    ),
    "dropout with a paged cache": (
        "gfx942",
        "--dropout 0.1 --kv-cache paged:128 --cache-seqlens 500",
        "K009",
        "--dropout 0",
    ),
    "gfx1201 fp32": ("gfx1201", "--dtype fp32", "K001", "--dtype bf16"),
    "a mask below the diagonal": ("gfx942", "--mask generic:0,5 --splits 1", "K327", "--mask window-tl:0,4"),
    "no rows at all": ("gfx942", "--seqlens-q 0,0 --splits 1", "K333", "--backend cpu"),
    "page size 64": ("gfx942", "--kv-cache paged:64 --cache-seqlens 500", "K320", "--kv-cache paged:128"),
    "rotary 24": (
        "gfx942",
        "-s 4 --kv-cache paged:128 --cache-seqlens 300 --append 4 --rotary 24",
        "K323",
        "--rotary 32",
    ),
    "129 splits": ("gfx942", "--splits 129 --seqlen-k 64k", "K326", "--splits 128"),
    "packed queries, linear cache": (
        "gfx942",
        "--seqlens-q 3,4 --kv-cache linear --splits 4",
        "K321",
        "--kv-cache paged",
    ),
    "no kernels": ("gfx1100", "-s 64", "K390", "--backend cpu"),
}


@pytest.mark.sampled(6, ci="all")
@pytest.mark.parametrize("name", MISSES)
def test_the_nearest_miss(name: str) -> None:
    arch, line, rule, hint = MISSES[name]
    found = trace(arch, line)
    assert found.chosen is None, found.chosen
    nearest = found.unsupported[0].reasons
    assert [r.id for r in nearest] == [rule], nearest
    assert hint in (nearest[0].hint or ""), nearest


CHANGES = {
    "hdim 72 padded": (
        "gfx942",
        "-d 72 --dtype fp8_e4m3:fp8_e4m3 --splits 1",
        "-d 128 --dtype fp8_e4m3:fp8_e4m3 --splits 1",
    ),
    "hdim 256": ("gfx942", "-d 512", "-d 256"),
    "no splits": ("gfx942", "--dtype fp32 --splits 4", "--dtype fp32 --splits 1"),
    "no soft cap": ("gfx942", "--softcap 30 --bias elementwise --splits 1", "--bias elementwise --splits 1"),
    "no bias": ("gfx942", "--softcap 30 --bias elementwise --splits 1", "--softcap 30 --splits 1"),
    "no sink": ("gfx942", "--mask b:8,0 --sink 4 --splits 1", "--mask b:8,0 --splits 1"),
    "no LSE": ("gfx942", "--dtype fp8_e4m3 --lse --splits 1", "--dtype fp8_e4m3 --splits 1"),
    "no dropout": (
        "gfx942",
        "--dropout 0.1 --kv-cache paged:128 --cache-seqlens 500",
        "--kv-cache paged:128 --cache-seqlens 500",
    ),
    "bf16": ("gfx1201", "--dtype fp32", "--dtype bf16"),
    "page 128": ("gfx942", "--kv-cache paged:64 --cache-seqlens 500", "--kv-cache paged:128 --cache-seqlens 500"),
    "rotary 32": (
        "gfx942",
        "-s 4 --kv-cache paged:128 --cache-seqlens 300 --append 4 --rotary 24",
        "-s 4 --kv-cache paged:128 --cache-seqlens 300 --append 4 --rotary 32",
    ),
}


@pytest.mark.sampled(4, ci="all")
@pytest.mark.parametrize("name", CHANGES)
def test_the_change_works(name: str) -> None:
    arch, before, after = CHANGES[name]
    assert trace(arch, before).chosen is None
    assert trace(arch, after).chosen is not None


@pytest.mark.parametrize(
    "line",
    [
        "-d 72 --splits 1",  # supported by the 96 kernel, padded
        "--mask window:16,0 --splits 1",
        "--mask window-tl:16,4 --splits 1",
        "--mask xt:40 --splits 1",
        "--seqlens-q 0,5,0 --splits 1",
        "--seqlens-q 4,5 --seqlens-k 0,3 --splits 1",
        "-H 8 --kv-heads 2 --direction bwd",
    ],
)
def test_served(line: str) -> None:
    chosen = trace("gfx942", line).chosen
    assert chosen is not None
    assert chosen.rank[0] == 0
    assert "upstream's order" in chosen.note


def test_other_kernels_come_later_and_say_why() -> None:
    found = trace("gfx950", "-s 16 -d 64 --splits 1").supported
    assert found[0].kernel.algorithm.tile[0] == 16  # type: ignore[attr-defined]
    assert {d.rank[0] for d in found} == {0, 1}
    notes = " ".join(d.note for d in found)
    assert "K353" in notes
    assert "K354" in notes
    assert all(d.note.startswith(("upstream's order", "not what upstream takes: K35")) for d in found)


def test_a_product_is_assumed_where_there_is_no_device() -> None:
    found = trace("gfx942", "--kv-cache paged:1 --cache-seqlens 4096 -b 64 -s 2048").supported
    assert found[0].kernel.algorithm.tile[0] == 128  # type: ignore[attr-defined]
    assert any("K351" in d.note and "304 multiprocessors assumed" in d.note for d in found)
