"""Libraries with several instances: the instances and the choice among them match upstream's generated files."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.tree import CkTree
from fmha_cli.codegen.ck_tile.emit import emit
from fmha_cli.codegen.ck_tile.splitkv import merges_heads
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.referees.ck_tile.generated import baseline, generated

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1201")
QUICK = 60


@dataclass(frozen=True)
class Choice:
    """The criteria of a split-KV file: the length of the splits if ``keys`` is not 0, and merged heads."""

    keys: int
    merges: bool


@pytest.fixture(scope="module")
def tree(shared_cache: Path) -> CkTree:
    return baseline(shared_cache)


def upstreams_choice(text: str) -> Choice:
    """The conditions of ``fmha_fwd_splitkv_oneshot_`` and ``run_instance``, evaluated."""
    keys = re.search(r"a\.seqlen_k % \(a\.num_splits \* (\d+)\) == 0\)", text)
    group = re.search(r"if constexpr\((true|false) == false\) \{ // batch mode", text)
    plain = re.search(
        r"if constexpr \((\d+) == 128 && ck_tile::BlockAttentionBiasEnum::(\w+) == ck_tile::BlockAttentionBiasEnum::NO_BIAS"
        r"\s+&& \(std::is_same_v<ck_tile::SimplifiedGenericAttentionMask<(true|false)>,"
        r" ck_tile::SimplifiedGenericAttentionMask<false>>",
        text,
    )
    assert keys is not None
    assert group is not None
    assert plain is not None
    assert "if (a.max_seqlen_q == 1 && a.nhead_k < a.nhead_q) {" in text
    assert "if (a.seqlen_k_ptr != nullptr) {" in text
    return Choice(
        keys=0 if group[1] == "true" else int(keys[1]),
        merges=(plain[1], plain[2], plain[3]) == ("128", "NO_BIAS", "false"),
    )


def our_choice(text: str) -> Choice:
    body = text[text.index("int choose(const Args& a") : text.index("// Names of the members")]
    found = re.search(r"a\.seqlen_k_ptr == nullptr && a\.seqlen_k % \(a\.num_splits \* (\d+)\) == 0;", body)
    merged = body.count("a.max_seqlen_q == 1 && a.nhead_k < a.nhead_q")
    instances = set(re.findall(r"Instance<(true|false), (true|false)>", body))
    uneven = {"true", "false"} if found else {"true"}
    assert instances == {(u, m) for u in uneven for m in (("true", "false") if merged else ("false",))}
    assert merged in (0, len(uneven))
    return Choice(keys=int(found[1]) if found else 0, merges=merged > 0)


def thresholds(text: str) -> list[tuple[int, int]]:
    """(maximum splits, log2 of the instance's capacity) in test order."""
    return [(int(most), int(log)) for most, log in re.findall(r"a\.num_splits <= (\d+)\)[^<]*?instance<(\d+)>", text)]


def our_thresholds(text: str) -> list[tuple[int, int]]:
    body = text[text.index("int choose(const Args& a") : text.index("// Names of the members")]
    tested = re.findall(r"a\.num_splits <= (\d+)\)[^<]*?<typename Instance<(\d+)>", body)
    (most,) = re.findall(r"REQUIRE\(num_splits, a\.num_splits <= (\d+)\)", text)
    last = re.findall(r"<typename Instance<(\d+)>", body)[-1]
    return [(int(m), int(log)) for m, log in [*tested, (most, last)]]


def compared(tree: CkTree, kernels: list[KernelSpec]) -> list[str]:
    out = []
    for kernel, theirs in generated(tree, kernels).items():
        ours, wanted = our_choice(emit(kernel)), upstreams_choice(theirs)
        out += [] if ours == wanted else [f"{kernel.name}: {ours}, upstream {wanted}"]
        assert merges_heads(kernel) is wanted.merges
    return out


def test_sampled_splitkv_kernels_choose_as_upstream(tree: CkTree) -> None:
    kernels = list(family_kernels(load_arch("gfx942"), Family.FWD_SPLITKV))
    assert any(map(merges_heads, kernels))
    assert compared(tree, random.Random(11).sample(kernels, QUICK)) == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_all_splitkv_kernels_choose_as_upstream(tree: CkTree, arch: str) -> None:
    assert compared(tree, list(family_kernels(load_arch(arch), Family.FWD_SPLITKV))) == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", ARCHS)
def test_combine_kernels_choose_as_upstream(tree: CkTree, arch: str) -> None:
    kernels = list(family_kernels(load_arch(arch), Family.FWD_SPLITKV_COMBINE))
    for kernel, theirs in generated(tree, kernels).items():
        wanted = thresholds(theirs)
        assert wanted == [(8, 3), (16, 4), (32, 5), (64, 6), (128, 7)]
        assert our_thresholds(emit(kernel)) == wanted, kernel.name


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("(a.num_splits * 128) == 0", "(a.num_splits * 64) == 0"), ("a.max_seqlen_q == 1 &&", "a.max_seqlen_q <= 1 &&")],
)
def test_a_wrong_choice_is_seen(tree: CkTree, right: str, wrong: str) -> None:
    kernels = family_kernels(load_arch("gfx942"), Family.FWD_SPLITKV)
    kernel = next(k for k in kernels if merges_heads(k) and k.signature.mode.value == "batch")
    text = emit(kernel)
    assert right in text
    wanted = upstreams_choice(generated(tree, [kernel])[kernel])
    assert agrees(text, wanted)
    assert not agrees(text.replace(right, wrong), wanted)


def agrees(text: str, wanted: Choice) -> bool:
    """Whether the choices agree; false also if the text is inconsistent."""
    try:
        return our_choice(text) == wanted
    except AssertionError:
        return False
