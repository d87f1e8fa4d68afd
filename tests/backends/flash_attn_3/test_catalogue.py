"""The kernels are those that upstream's generator and launch templates instantiate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fmha_cli.backends.flash_attn_3 import backend
from fmha_cli.backends.flash_attn_3.catalogue import FAMILIES, family_kernels, kernels
from fmha_cli.backends.flash_attn_3.names import COMBINE, PREPARE, upstream_name
from fmha_cli.codegen.flash_attn_3.algorithm import Fa3Algorithm
from fmha_cli.codegen.flash_attn_3.instance import FORWARD, forward_instance
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, parse_kernel
from tests.support.referees.flash_attn_3.program import sources_or_skip
from tests.support.referees.flash_attn_3.tables import generator

COUNTS = {
    Family.FWD_PREPARE: 12,
    Family.FWD: 1444,
    Family.FWD_SPLITKV: 936,
    Family.FWD_SPLITKV_COMBINE: 54,
    Family.BWD_DOT_DO_O: 28,
    Family.BWD_DQ_DK_DV: 432,
    Family.BWD_CONVERT_DQ: 28,
}
"""2,380 forward kernels: 240 of each dense mask and so on; 54 combine and 432 backward kernels."""


def test_the_kernels_are_counted() -> None:
    assert {family: len(family_kernels("sm_90a", family)) for family in FAMILIES} == COUNTS


def test_only_sm_90a_has_kernels() -> None:
    assert backend.archs() == ("sm_90a",)
    assert not list(kernels(load_arch("sm_90")))


def test_names_digests_and_templates_are_unique() -> None:
    every = list(kernels(load_arch("sm_90a")))
    assert len({kernel.digest for kernel in every}) == len(every) == sum(COUNTS.values())
    forward = [kernel for kernel in every if kernel.family in FORWARD]
    assert len({forward_instance(kernel).template_id for kernel in forward}) == len(forward)


def test_every_name_reads_back() -> None:
    for kernel in kernels(load_arch("sm_90a")):
        assert parse_kernel(kernel.name, {"flash_attn_3": Fa3Algorithm}) == kernel


def test_a_cluster_has_a_twin_without_one() -> None:
    twins = [kernel for kernel in family_kernels("sm_90a", Family.FWD) if kernel.algorithm.cluster == 2]  # type: ignore[attr-defined]
    assert len(twins) == 40
    assert {kernel.signature.mask.value for kernel in twins} == {"none"}


@pytest.mark.slow
@pytest.mark.ci
def test_the_files_are_those_of_upstreams_generator(shared_cache: Path) -> None:
    made = generator(sources_or_skip(shared_cache)).get_all_kernels()
    theirs = {Path(kernel.filename).stem for kernel in made if kernel.sm == 90}
    ours = Counter(upstream_name(kernel) for kernel in kernels(load_arch("sm_90a")))
    assert ours.keys() - {COMBINE, PREPARE} == theirs
    assert len(theirs) == 240


def test_pytorch_reaches_a_part_of_the_kernels() -> None:
    arch = load_arch("sm_90a")
    assert len(list(backend.profile_kernels(arch, "hopper"))) == sum(COUNTS.values())
    reached = list(backend.profile_kernels(arch, "pytorch"))
    assert len(reached) == 1018
    assert {k.signature.append.value for k in reached if k.family in FORWARD} == {"no"}
