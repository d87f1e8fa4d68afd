"""Our launch of a dense kernel equals upstream's: each field of the block, descriptors, grid, cluster, shared memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.flash_attn_3 import arguments
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.flash_attn_3.instance import (
    CombineInstance,
    ForwardInstance,
    Instance,
    forward_instance,
    instance_of,
)
from fmha_cli.codegen.flash_attn_3.params import block_of
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.referees.flash_attn_3.blocks import (
    OWN_MEMORY,
    UNREAD,
    call_line,
    dense_calls,
    faults,
    prepare_faults,
)
from tests.support.referees.flash_attn_3.choice import ask
from tests.support.referees.flash_attn_3.program import block_programs

pytestmark = [pytest.mark.slow, pytest.mark.ci]
"""Each instance takes g++ ten seconds. CI runs these tests in a separate stage."""

COUNT = 300
SAMPLE = (
    "128, 128, 1, cutlass::float_e4m3_t, cutlass::bfloat16_t, true, false, false, false, false, false, false, false, false",
    "128, 128, 2, cutlass::half_t, cutlass::half_t, false, false, false, false, false, false, false, false, false",
    "64, 512, 1, cutlass::half_t, cutlass::half_t, false, false, false, false, false, false, false, true, true",
    "128, 128, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, true, false, false, false, false, false",
    "128, 128, 1, cutlass::half_t, cutlass::half_t, false, true, false, true, true, false, false, true, true",
    "96, 96, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, true, false, true, false, false, false",
    "64, 256, 1, cutlass::half_t, cutlass::half_t, true, false, false, false, false, false, true, false, false",
    "64, 512, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, true, false, true, true, true, true",
)
"""All schedulers, with and without clusters, packed query heads, windows, splits, packed sequences, caches, keys to append, and V
inside K."""
WHOLE, SPLIT, VARLEN, PAGED, LATENT = 0, 2, 3, 4, 6
"""The kernels of the sample whose fields are spoilt, and whose parts are added up."""


def kernels(sample: Sequence[str] = SAMPLE) -> list[KernelSpec]:
    families = (Family.FWD, Family.FWD_SPLITKV)
    every = {forward_instance(k).template_id: k for family in families for k in family_kernels("sm_90a", family)}
    return [every[f"run_flash_fwd<90, {words}, false>"] for words in sample]


def adding_up() -> CombineInstance:
    """A kernel that adds up the parts of the split kernel, of any number: its program has all of one width."""
    combine = family_kernels("sm_90a", Family.FWD_SPLITKV_COMBINE)
    wanted = (i for i in map(instance_of, combine) if isinstance(i, CombineInstance))
    return next(i for i in wanted if i.out.value == "fp16" and i.a.tile[1] == 128)


@pytest.fixture(scope="module")
def programs(shared_cache: Path) -> dict[str, Path]:
    return block_programs(shared_cache, (*map(forward_instance, kernels()), adding_up()))


def compared(
    program: Path, kernel: KernelSpec, count: int, stage: int | None = None, seen: Counter[str] | None = None
) -> list[str]:
    """The faults of a stage's launches, by default the main one's, over random problems of a main kernel.

    ``seen`` counts the launches of each kernel.
    """
    at = int(forward_instance(kernel).a.varlen) if stage is None else stage
    calls = list(dense_calls(Random(1), kernel, count))
    answers = ask(program, [call_line(call, units) for call, units in calls])
    out = []
    for (call, _), answer in zip(calls, answers, strict=True):
        assert "grid" in answer, f"upstream takes another kernel: {call.problem.repro()}"
        out += [f"{call.problem.repro()}: {fault}" for fault in faults(call, answer, at)]
        if seen is not None:
            seen[call.plan.stages[at].kernel.name] += 1
    return out


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: forward_instance(kernel).template_id)
def test_launches_are_upstreams(programs: dict[str, Path], kernel: KernelSpec) -> None:
    found = compared(programs[forward_instance(kernel).template_id], kernel, COUNT)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("main", [SPLIT, PAGED])
def test_parts_are_added_up_as_upstream_does(programs: dict[str, Path], main: int) -> None:
    found = compared(programs[adding_up().template_id], kernels()[main], COUNT, stage=-1)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("main", [VARLEN, PAGED])
def test_sequences_are_prepared_as_upstream_does(programs: dict[str, Path], main: int) -> None:
    kernel = kernels()[main]
    calls = list(dense_calls(Random(2), kernel, COUNT))
    answers = ask(programs[forward_instance(kernel).template_id], [call_line(call, units) for call, units in calls])
    found = [fault for (call, _), answer in zip(calls, answers, strict=True) for fault in prepare_faults(call, answer)]
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize(("main", "stage"), [(WHOLE, None), (SPLIT, -1), (VARLEN, None), (LATENT, None)])
def test_a_fault_in_every_field_is_seen(
    programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, main: int, stage: int | None
) -> None:
    kernel = kernels()[main]
    instance = forward_instance(kernel) if stage is None else adding_up()
    whole = arguments.params_of
    for name in changed_fields(instance):
        with monkeypatch.context() as patch:

            def spoil(stage: Any, call: Any, name: str = name) -> Any:
                return spoilt(whole(stage, call), name)

            patch.setattr("tests.support.referees.flash_attn_3.blocks.params_of", spoil)
            assert any(name in fault for fault in compared(programs[instance.template_id], kernel, 3, stage)), name


def changed_fields(instance: Instance) -> list[str]:
    """Fields that upstream sets or leaves 0: all but those that are compared in another way."""
    names = [name for name, _ in c_fields(block_of(instance))]
    unmade = {"epilogue__tma_store_O": True, "mainloop__tma_load_Qv": True}
    if isinstance(instance, ForwardInstance):
        unmade = {"epilogue__tma_store_O": not instance.stores_by_tma, "mainloop__tma_load_Qv": not instance.a.qv}
    return [name for name in names if name not in (*OWN_MEMORY, *UNREAD) and not unmade.get(name)]


def spoilt(params: Any, name: str) -> Any:
    """The block with one field changed."""
    value = getattr(params, name)
    if isinstance(value, TensorMap):
        other: Any = replace(value, box=(value.box[0], value.box[1] + 1, *value.box[2:]))
    elif isinstance(value, tuple):
        other = (value[0] + 1, *value[1:])
    else:
        other = not value if isinstance(value, bool) else value + 1
    return replace(params, **{name: other})
