"""Rules over kernels: listed kernels meet them, and every other is refused with the nearest one's fields."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.flash_attn.catalogue import family_kernels, kernels
from fmha_cli.backends.flash_attn.kernel_rules import KERNEL_RULES, refusals
from fmha_cli.backends.flash_attn.signatures import FAMILIES
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need, RotaryKey
from tests.support.generators.flash_attn.mutations import ARCHS, mutations

YES, NO = Need.YES, Need.NO


@cache
def listed(arch: str, family: Family) -> frozenset[KernelSpec]:
    return frozenset(family_kernels(load_arch(arch), family)) if arch in arch_names() else frozenset()


def test_ids_are_unique_and_in_their_range() -> None:
    assert [rule.id for rule in KERNEL_RULES] == ["K400", "K401"]
    assert all(rule.text and rule.help and rule.source for rule in KERNEL_RULES)


@pytest.mark.parametrize("arch", ARCHS)
def test_listed_kernels_meet_every_rule(arch: str) -> None:
    for kernel in kernels(load_arch(arch)):
        assert refusals(kernel) == (), kernel.name


def test_a_kernel_with_one_field_changed_exists_or_is_refused() -> None:
    rng, refused = Random(7), 0
    for arch, family in product(ARCHS, FAMILIES):
        for field, other in rng.sample(list(mutations(rng.choice(family_kernels(load_arch(arch), family)))), 12):
            exists = other.family in FAMILIES and other in listed(other.arch, other.family)
            against = refusals(other)
            assert exists == (not against), f"{field}: {other.name}: {against}"
            assert all(reason.text and reason.hint for reason in against)
            refused += bool(against)
    assert refused > 300


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


FWD, SPLIT, COMBINE, _, BWD, _ = FAMILIES
PLANTED: list[tuple[KernelSpec, str, str]] = [
    (changed(one(FWD, hdim=128), hdim_v=64), "hdim_v 64", "hdim_v 128"),
    (changed(one(FWD), dtype_out=DType.FP32), "dtype_out fp32", "dtype_out fp16"),
    (changed(one(FWD, hdim=64, dropout=NO), tile=(64, 16)), "tile 64x16", "tile 128x128"),
    (changed(one(SPLIT, append=NO), rotary=RotaryKey.ANY), "rotary any", "rotary none"),
    (changed(one(COMBINE), log_max_splits=8), "log_max_splits 8", "log_max_splits 1"),
    (changed(one(BWD, "sm_86", hdim=256, dropout=NO, softcap=NO), dropout=YES), "dropout yes", "dropout no"),
]


@pytest.mark.parametrize(("kernel", "have", "want"), PLANTED)
def test_the_nearest_kernel_is_named(kernel: KernelSpec, have: str, want: str) -> None:
    (reason,) = refusals(kernel)
    assert (reason.id, reason.text, reason.hint) == ("K401", f"{have}: there is no such kernel", want)


@pytest.mark.parametrize("arch", ["sm_75", "gfx942", "nonsense"])
def test_an_architecture_without_kernels_is_refused(arch: str) -> None:
    (reason,) = refusals(replace(one(FWD), arch=arch))
    assert reason.id == "K400"
    assert arch in reason.text


def test_a_rule_of_the_one_table_says_the_same() -> None:
    problem, device = Problem.from_cli(""), DeviceFacts.of_arch("sm_90")
    for rule, planted in zip(KERNEL_RULES, (replace(one(FWD), arch="sm_75"), PLANTED[0][0]), strict=True):
        assert rule.against(problem, planted, device) == refusals(planted)[0]
        assert rule.against(problem, one(FWD), device) is None
