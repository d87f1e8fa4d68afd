"""Our launches equal upstream's for kernels of every family, more than CI compares."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from fmha_cli.backends.flash_attn_3.backward_arguments import backward_instance
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.flash_attn_3.instance import CombineInstance, ForwardInstance, forward_instance, instance_of
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.backends.flash_attn_3 import test_gradients
from tests.backends.flash_attn_3.test_blocks import compared
from tests.support.referees.flash_attn_3.blocks import call_line, dense_calls, prepare_faults
from tests.support.referees.flash_attn_3.choice import ask
from tests.support.referees.flash_attn_3.program import block_programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

COUNT, PASSES = 400, 200
"""Random problems of a forward and of a backward kernel."""


def family_of(i: ForwardInstance) -> tuple[bool, ...]:
    """What tells apart kernels whose launches differ most."""
    a = i.a
    return i.element_bytes == 1, i.split, a.varlen, a.paged, i.append, a.pack_gqa, a.cluster > 1, a.qv


def spread() -> list[KernelSpec]:
    """Of each combination two kernels of 16-bit floats and one of e4m3, drawn: head dims, masks and softcap differ.

    Pages always come with lengths.
    """
    families: dict[tuple[bool, ...], list[KernelSpec]] = defaultdict(list)
    for family in (Family.FWD, Family.FWD_SPLITKV):
        for kernel in family_kernels("sm_90a", family):
            i = forward_instance(kernel)
            if i.a.varlen or not i.a.paged:
                families[family_of(i)].append(kernel)
    rng = Random(0)
    return [kernel for words, some in families.items() for kernel in rng.sample(some, 1 if words[0] else 2)]


def gradients() -> list[KernelSpec]:
    """For each head dim four main kernels of backward passes, drawn: with packed sequences and grouped heads, and without."""
    families: dict[tuple[int, bool, bool], list[KernelSpec]] = defaultdict(list)
    for kernel in family_kernels("sm_90a", Family.BWD_DQ_DK_DV):
        i = backward_instance(kernel)
        families[i.hdim, i.a.varlen, i.a.gqa].append(kernel)
    rng = Random(0)
    return list(map(rng.choice, families.values()))


EVERY, BACKWARD = spread(), gradients()


def last_stage(kernel: KernelSpec) -> CombineInstance:
    """A kernel that adds up a split one's parts. A program has all of one type and width."""
    ((call, _),) = dense_calls(Random(3), kernel, 1)
    wanted = instance_of(call.plan.stages[-1].kernel)
    assert isinstance(wanted, CombineInstance)
    combine = map(instance_of, family_kernels("sm_90a", Family.FWD_SPLITKV_COMBINE))
    alike = (i for i in combine if isinstance(i, CombineInstance))
    return next(i for i in alike if (i.out, i.a.tile[1]) == (wanted.out, wanted.a.tile[1]))


SPLIT = [kernel for kernel in EVERY if forward_instance(kernel).split]
VARLEN = [kernel for kernel in EVERY if forward_instance(kernel).a.varlen]


@pytest.fixture(scope="module")
def programs(shared_cache: Path) -> dict[str, Path]:
    combine = dict.fromkeys(map(last_stage, SPLIT))
    return block_programs(shared_cache, (*map(forward_instance, EVERY), *combine))


@pytest.fixture(scope="module")
def backward_programs(shared_cache: Path) -> dict[str, Path]:
    return block_programs(shared_cache, tuple(map(backward_instance, BACKWARD)))


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """How many launches of each kernel were compared, shown at the end."""
    found: Counter[str] = Counter()
    yield found
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{found.total():,} launches of {len(found)} kernels were compared")


def named(kernel: KernelSpec) -> str:
    return forward_instance(kernel).template_id


def named_pass(kernel: KernelSpec) -> str:
    return backward_instance(kernel).template_id


def test_the_kernels_are_of_every_family() -> None:
    """The kernels that split, prepare, add up, or come before and after a backward pass are more than these."""
    assert len(EVERY) == 71
    assert len(BACKWARD) == 20
    assert (len(EVERY) + len(VARLEN)) * COUNT + len(BACKWARD) * PASSES == 52_400
    assert len({(forward_instance(k).hdim, forward_instance(k).hdim_v) for k in EVERY}) == 7
    assert {k.signature.mask for k in EVERY} == {k.signature.mask for k in family_kernels("sm_90a", Family.FWD)}
    passes = set(map(backward_instance, BACKWARD))
    assert len({(i.causal, i.local) for i in passes}) == 3
    assert len({(i.a.fixed_order, i.softcap) for i in passes}) == 4
    assert len({(i.stores_by_tma, i.scheduler) for i in passes}) >= 3


@pytest.mark.parametrize("kernel", EVERY, ids=named)
def test_launches_are_upstreams(programs: dict[str, Path], kernel: KernelSpec, seen: Counter[str]) -> None:
    found = compared(programs[named(kernel)], kernel, COUNT, seen=seen)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("kernel", SPLIT, ids=named)
def test_parts_are_added_up_as_upstream_does(programs: dict[str, Path], kernel: KernelSpec, seen: Counter[str]) -> None:
    found = compared(programs[last_stage(kernel).template_id], kernel, COUNT, -1, seen)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("kernel", VARLEN, ids=named)
def test_sequences_are_prepared_as_upstream_does(
    programs: dict[str, Path], kernel: KernelSpec, seen: Counter[str]
) -> None:
    calls = list(dense_calls(Random(2), kernel, COUNT))
    answers = ask(programs[named(kernel)], [call_line(call, units) for call, units in calls])
    found = [fault for (call, _), answer in zip(calls, answers, strict=True) for fault in prepare_faults(call, answer)]
    assert not found, "\n".join(found[:20])
    seen.update(call.plan.stages[0].kernel.name for call, _ in calls)


@pytest.mark.parametrize("kernel", BACKWARD, ids=named_pass)
def test_passes_are_upstreams(backward_programs: dict[str, Path], kernel: KernelSpec, seen: Counter[str]) -> None:
    found = test_gradients.compared(backward_programs, kernel, PASSES, seen)
    assert not found, "\n".join(found[:20])
