"""Rules over kernels: listed kernels satisfy them, unlisted kernels are refused, and each rule can refuse alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels, kernels
from fmha_cli.backends.flash_attn.kernel_rules import ALL, KERNEL_RULES, refusals
from fmha_cli.backends.flash_attn.signatures import CONSTANTS, FAMILIES, MAIN, MASKS, NAME
from fmha_cli.backends.flash_attn.tiles import BACKWARD, FORWARD, HDIMS, split_traits
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, RotaryKey, Signature
from tests.support.generators.flash_attn.mutations import ARCHS, mutations

YES, NO = Need.YES, Need.NO


@cache
def listed(arch: str, family: Family) -> frozenset[KernelSpec]:
    return frozenset(family_kernels(load_arch(arch), family)) if arch in arch_names() else frozenset()


def ids(kernel: KernelSpec) -> list[str]:
    return [reason.id for reason in refusals(kernel)]


def test_ids_are_unique_and_in_their_range() -> None:
    assert [rule.id for rule in ALL] == [f"K{number}" for number in range(400, 420)]
    assert [rule.id for rule in KERNEL_RULES] == [rule.id for rule in ALL]
    assert all(rule.text and rule.help and rule.source for rule in KERNEL_RULES)


@pytest.mark.parametrize("arch", ARCHS)
def test_listed_kernels_meet_every_rule(arch: str) -> None:
    for kernel in kernels(load_arch(arch)):
        assert refusals(kernel) == (), kernel.name


def near(seed: int, archs: tuple[str, ...], count: int) -> int:
    rng, seen = Random(seed), 0
    for arch, family in product(archs, FAMILIES):
        group = family_kernels(load_arch(arch), family)
        for kernel in rng.sample(group, min(count, len(group))):
            for field, other in mutations(kernel):
                seen += 1
                exists = other.family in FAMILIES and other in listed(other.arch, other.family)
                against = refusals(other)
                assert exists == (not against), f"{field}: {other.name}: {against}"
                assert all(reason.text and reason.hint for reason in against)
    return seen


@pytest.mark.parametrize("count", [pytest.param(2, id="few"), pytest.param(6, id="many", marks=pytest.mark.slow)])
def test_a_kernel_with_one_field_changed_exists_or_is_refused(count: int) -> None:
    seen = near(7, ARCHS, count)
    print(f"{seen} kernels with one field changed")
    assert seen > 5_000 * count


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_near_kernels_exist_or_are_refused_at_length() -> None:
    assert near(8, ("sm_80", "sm_86", "sm_90", "sm_120"), 2000) > 500_000


def algorithms(family: Family) -> Iterator[FaAlgorithm]:
    """Every algorithm of a family that combines rows of its tables, intended or not."""
    flags = (False, True)
    if family is Family.FWD:
        for traits, mn, k in product(dict.fromkeys(row.traits for row in FORWARD), flags, flags):
            yield FaAlgorithm(tile=traits.tile, warps=traits.warps, even_mn=mn, even_k=k)
    elif family in (Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE):
        combine = family is Family.FWD_SPLITKV_COMBINE
        rows, logs = ((4, 8, 16), range(9)) if combine else ((0,), range(1))
        tiles = dict.fromkeys(split_traits(hdim) for hdim in HDIMS)
        for traits, mn, k, row, log in product(tiles, (False,) if combine else flags, flags, rows, logs):
            yield FaAlgorithm(
                tile=traits.tile, warps=traits.warps, even_mn=mn, even_k=k, combine_rows=row, log_max_splits=log
            )
    else:
        clears = flags if family is Family.BWD_DOT_DO_O else (False,)
        evens = flags if family in MAIN else (False,)
        for back, mn, k, clear in product(dict.fromkeys(r.traits for r in BACKWARD if r.traits), evens, evens, clears):
            yield replace(back, even_mn=mn, even_k=k, clear_dq_accum=clear)


def signatures(family: Family, dtypes: tuple[DType, ...]) -> Iterator[Signature]:
    """Every signature of a family that combines the values of its axes."""
    axes: dict[str, tuple[Any, ...]] = {"dtype": dtypes, "hdim": (*HDIMS, 80)}
    if family in MAIN:
        axes |= {
            "mode": (ModeKey.BATCH, ModeKey.ANY),
            "mask": MASKS,
            "bias": (BiasKey.NONE, BiasKey.ALIBI),
            "softcap": (NO, YES),
        }
        if family is Family.FWD_SPLITKV:
            axes |= {"split": (NO, YES), "append": (NO, YES), "rotary": (RotaryKey.NONE, RotaryKey.ANY)}
        else:
            axes["dropout"] = (NO, YES)
    for values in product(*axes.values()):
        given = dict(zip(axes, values, strict=True))
        yield Signature(dtype_out=given["dtype"], hdim_v=given["hdim"], **given, **CONSTANTS[family])


def product_matches(arch: str, family: Family, dtypes: tuple[DType, ...]) -> int:
    options, kept, count = list(algorithms(family)), set(), 0
    for signature in signatures(family, dtypes):
        for algorithm in options:
            kernel = KernelSpec(backend=NAME, family=family, arch=arch, signature=signature, algorithm=algorithm)
            count += 1
            if not refusals(kernel):
                kept.add(kernel)
    assert kept == {kernel for kernel in listed(arch, family) if kernel.signature.dtype in dtypes}
    return count


@pytest.mark.slow
@pytest.mark.ci
def test_the_tables_product_filtered_by_the_rules_is_what_is_listed() -> None:
    counts = {family.value: product_matches("sm_86", family, (DType.BF16,)) for family in FAMILIES}
    print(f"products {counts}")
    assert sum(counts.values()) > 30_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_product_filtered_by_the_rules_is_what_is_listed(arch: str) -> None:
    for family in FAMILIES:
        product_matches(arch, family, (DType.FP16, DType.BF16, DType.FP32))


def one(family: Family, arch: str = "sm_90", **wanted: Any) -> KernelSpec:
    """A listed kernel with the given fields."""

    def has(kernel: KernelSpec) -> bool:
        return all(getattr(kernel.signature, k, getattr(kernel.algorithm, k, None)) == v for k, v in wanted.items())

    return next(kernel for kernel in family_kernels(load_arch(arch), family) if has(kernel))


def changed(kernel: KernelSpec, **values: Any) -> KernelSpec:
    for name, value in values.items():
        part = next(part for part in ("signature", "algorithm") if hasattr(getattr(kernel, part), name))
        kernel = replace(kernel, **{part: replace(getattr(kernel, part), **{name: value})})
    return kernel


FWD, SPLIT, COMBINE, DOT, BWD, CONVERT = FAMILIES
PLANTED: dict[str, list[KernelSpec]] = {
    "K400": [replace(one(FWD), arch=arch) for arch in ("sm_75", "gfx942", "nonsense")],
    "K401": [replace(one(FWD), family=Family.FWD_PAGEDKV), replace(one(SPLIT), family=Family.FWD_APPENDKV)],
    "K402": [
        changed(one(FWD), tile=(128,)),
        changed(one(BWD), atoms=()),
        changed(one(FWD), warps=0),
        changed(one(FWD), v_in_regs=True),
        changed(one(CONVERT), clear_dq_accum=True),
        changed(one(DOT), even_k=True),
        changed(one(SPLIT), log_max_splits=3),
    ],
    "K403": [changed(one(FWD), dtype_out=DType.FP32), changed(one(COMBINE), dtype=DType.FP32, dtype_out=DType.FP32)],
    "K404": [changed(one(FWD), hdim_v=64), changed(one(SPLIT, hdim=128), hdim=80, hdim_v=80)],
    "K405": [
        changed(one(FWD), lse=NO),
        changed(one(SPLIT), cache=CacheKey.PAGED),
        changed(one(SPLIT), page=256),
        changed(one(COMBINE), mask=MaskKey.CAUSAL),
        changed(one(BWD), deterministic=YES),
        changed(one(SPLIT), dropout=YES),
    ],
    "K406": [changed(one(FWD, even_mn=False), mask=mask) for mask in (MaskKey.ANY, MaskKey.CAUSAL_TL)],
    "K407": [changed(one(BWD, even_k=False), bias=bias) for bias in (BiasKey.ANY, BiasKey.ELEMENTWISE)],
    "K408": [changed(one(SPLIT), split=Need.ANY), changed(one(FWD, hdim=32, dropout=NO), softcap=Need.ANY)],
    "K409": [
        changed(one(FWD, hdim=32, dropout=YES), softcap=YES),
        changed(one(BWD, softcap=YES, hdim=64), dropout=YES),
    ],
    "K410": [changed(one(SPLIT, append=YES), rotary=RotaryKey.HALF), changed(one(SPLIT), rotary=RotaryKey.ANY)],
    "K411": [changed(one(FWD, even_mn=True), mode=ModeKey.ANY), changed(one(BWD), mode=ModeKey.GROUP)],
    "K412": [changed(one(FWD, even_mn=True), even_k=False)],
    "K413": [
        changed(one(FWD, hdim=192), even_mn=True, even_k=True, mode=ModeKey.BATCH),
        changed(one(FWD, mask=MaskKey.WINDOW, even_k=True), even_mn=True, mode=ModeKey.BATCH),
        changed(one(SPLIT, append=YES, even_k=True), even_mn=True, mode=ModeKey.BATCH),
    ],
    "K414": [changed(one(BWD, bias=BiasKey.ALIBI), even_k=True)],
    "K415": [
        changed(one(FWD, hdim=64, dropout=NO), tile=(128, 64)),
        replace(one(FWD, "sm_80", hdim=256), arch="sm_90"),
        replace(one(FWD, "sm_86", hdim=128, mask=MaskKey.CAUSAL, dropout=NO), arch="sm_120"),
    ],
    "K416": [changed(one(SPLIT, hdim=96), tile=(64, 256)), changed(one(COMBINE), warps=8)],
    "K417": [
        replace(one(BWD, "sm_86", hdim=64), arch="sm_80"),
        changed(one(DOT, hdim=96), single_buffer=True),
        changed(one(CONVERT, hdim=128), atoms=(4, 2, 2)),
    ],
    "K418": [changed(one(COMBINE), log_max_splits=8), changed(one(COMBINE, hdim=64), combine_rows=4)],
    "K419": [
        changed(one(BWD, arch, hdim=256, dropout=NO, softcap=NO), dropout=YES) for arch in ("sm_86", "sm_89", "sm_120a")
    ],
}


@pytest.mark.parametrize("rule", [rule.id for rule in ALL])
def test_each_rule_refuses_alone(rule: str) -> None:
    """Each planted fault is refused by this rule alone; the other rules would let it pass."""
    for kernel in PLANTED[rule]:
        assert ids(kernel) == [rule], kernel.name


def test_a_rule_of_the_one_table_says_the_same() -> None:
    problem, device = Problem.from_cli(""), DeviceFacts.of_arch("sm_90")
    by_id = {rule.id: rule for rule in KERNEL_RULES}
    for rule, planted in PLANTED.items():
        found = by_id[rule].against(problem, planted[0], device)
        assert found is not None
        assert found == refusals(planted[0])[0]
        assert by_id[rule].against(problem, one(FWD), device) is None


def test_a_kernel_of_another_backend_is_a_mistake_of_the_caller() -> None:
    from fmha_cli.backends.ck_tile.catalogue import family_kernels as ck

    with pytest.raises(InternalError, match="not a FlashAttention kernel"):
        refusals(ck(load_arch("gfx942"), Family.FWD)[0])
