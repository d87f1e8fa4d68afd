"""Every template argument in our translation units equals the one in upstream's generated file for the kernel."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.tree import CkTree
from fmha_cli.codegen.ck_tile.element_types import backward_types, forward_types
from fmha_cli.codegen.ck_tile.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import Signature
from tests.support.referees.ck_tile.generated import APIS, baseline, generated, type_configs
from tests.support.referees.ck_tile.upstream_arguments import (
    Instance,
    Node,
    Unreadable,
    differences,
    instance,
    parse,
    read,
)

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1201")
QUICK = {"gfx942": 20, "gfx950": 10, "gfx1201": 5}
"""The number of kernels of each family that CI compares; ``-m slow`` compares all of them."""


@pytest.fixture(scope="module")
def tree(shared_cache: Path) -> CkTree:
    return baseline(shared_cache)


def mismatches(tree: CkTree, kernels: list[KernelSpec]) -> list[str]:
    assert tree.example is not None
    known = type_configs(tree.example)
    out = []
    for kernel, theirs in generated(tree, kernels).items():
        out += [f"{kernel.name}: {d}" for d in differences(instance(read(emit(kernel))), instance(read(theirs), known))]
    return out


def buildable(arch: str, family: Family) -> list[KernelSpec]:
    """The kernels of a family; skips the test if the architecture lacks the family."""
    found = list(family_kernels(load_arch(arch), family))
    if not found:
        pytest.skip(f"no {family.value} kernel can be built for {arch}")
    return found


@pytest.mark.sampled(1, ci=8)
@pytest.mark.parametrize("arch", QUICK)
@pytest.mark.parametrize("api", sorted(set(APIS.values())))
def test_sampled_kernels_have_upstreams_arguments(tree: CkTree, api: str, arch: str) -> None:
    """All families of an API at once, because upstream's generator takes seconds for an API and writes all of them."""
    sampled = []
    for family in (family for family in Family if APIS.get(family) == api):
        kernels = list(family_kernels(load_arch(arch), family))
        sampled += random.Random(7).sample(kernels, min(len(kernels), QUICK[arch]))
    if not sampled:
        pytest.skip(f"no {api} kernel can be built for {arch}")
    assert mismatches(tree, sampled) == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("family", Family)
def test_all_kernels_have_upstreams_arguments(tree: CkTree, family: Family, arch: str) -> None:
    assert mismatches(tree, buildable(arch, family)) == []


@pytest.fixture(scope="module")
def async_kernel(tree: CkTree) -> tuple[str, Instance]:
    """Our text for a forward kernel, and upstream's instance of it."""
    assert tree.example is not None
    kernel = next(
        k
        for k in family_kernels(load_arch("gfx942"), Family.FWD)
        if k.signature.dtype is DType.FP16 and "QRKSVSAsync<" in emit(k) and "AttentionMask<false>" in emit(k)
    )
    return emit(kernel), instance(read(generated(tree, [kernel])[kernel]), type_configs(tree.example))


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("sequence<4, 1, 1>", "sequence<1, 4, 1>"),
        ("gfx9_t", "gfx950_t"),
        ("ck_tile::half_t", "ck_tile::bf16_t"),
        ("SimplifiedGenericAttentionMask<false>", "SimplifiedGenericAttentionMask<true>"),
        ("BlockFmhaPipelineQRKSVSAsync", "BlockFmhaPipelineQRKSVS"),
        (
            "Types::OaccDataType,\n    Types::ODataType,\n    true",
            "Types::OaccDataType,\n    Types::ODataType,\n    false",
        ),
    ],
)
def test_a_wrong_argument_is_seen(async_kernel: tuple[str, Instance], right: str, wrong: str) -> None:
    text, theirs = async_kernel
    assert right in text
    assert differences(instance(read(text)), theirs) == []
    assert len(differences(instance(read(text.replace(right, wrong))), theirs)) >= 1


FORWARD_TYPES = {
    "FmhaFwdFp32": (DType.FP32, DType.FP32),
    "FmhaFwdFp16": (DType.FP16, DType.FP16),
    "FmhaFwdBf16": (DType.BF16, DType.BF16),
    "FmhaFwdFp8": (DType.FP8_E4M3, DType.FP8_E4M3),
    "FmhaFwdBf8": (DType.FP8_E5M2, DType.FP8_E5M2),
    "FmhaFwdFp8Bf16": (DType.FP8_E4M3, DType.BF16),
    "FmhaFwdFp8Fp32": (DType.FP8_E4M3, DType.FP32),
}
BACKWARD_TYPES = {f"FmhaBwd{name}": (DType(name.lower()),) * 2 for name in ("Fp32", "Fp16", "Bf16")}


@pytest.mark.parametrize("name", [*FORWARD_TYPES, *BACKWARD_TYPES])
def test_element_types_are_upstreams(tree: CkTree, name: str) -> None:
    assert tree.example is not None
    forward = name in FORWARD_TYPES
    dtype, out = (FORWARD_TYPES if forward else BACKWARD_TYPES)[name]
    signature = Signature(dtype=dtype, dtype_out=out, hdim=64, hdim_v=64)
    ours = forward_types(signature) if forward else backward_types(signature)
    theirs = type_configs(tree.example)[f"{'FmhaFwd' if forward else 'FmhaBwd'}TypeConfig<{name}>"]
    assert {alias: parse(text) for alias, text in ours.items()} == dict(theirs)


def test_upstreams_headers_hold_no_other_types(tree: CkTree) -> None:
    assert tree.example is not None
    assert len(type_configs(tree.example)) == len(FORWARD_TYPES) + len(BACKWARD_TYPES)


def test_aliases_and_arithmetic_are_followed() -> None:
    text = read(
        "using A = ck_tile::sequence<1, ck_tile::min(32, 16), (8 > 0)>;\n"
        "struct T { using X = float; };\nusing Kernel = ck_tile::K<A, T::X, typename C<B>::Y>;\n"
        "constexpr int N = Kernel::kBlockPerCu;\n make_kernel<N, ck_tile::gfx9_t>(Kernel{});"
    )
    found = instance(text, {"C<B>": {"Y": Node("int")}})
    assert str(found.kernel) == "K<sequence<1, 16, true>, float, int>"
    assert (str(found.occupancy), str(found.arch)) == ("kBlockPerCu", "gfx9_t")


@pytest.mark.parametrize("text", ["a + b", "f<", "", "[3]"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)
