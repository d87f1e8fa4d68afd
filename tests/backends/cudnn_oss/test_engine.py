"""Launches and parameters equal those of upstream's own engines, which run on the host as they are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.backends.cuda.launch import pack_params
from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.backends.gpu.arithmetic import SMALLEST_NORMAL
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.cudnn_oss.emit import FILE, derive_files
from fmha_cli.codegen.cudnn_oss.facts import facts_of, kernels
from fmha_cli.codegen.cudnn_oss.params import BLOCKS, fast_divisor
from fmha_cli.codegen.struct import host_layout
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.run.layout import layout_of
from tests.support.fakes.played_maps import played_map
from tests.support.referees.cudnn_oss.engine import TENSORS, ExecuteArguments, engines, launch_of_engine, source_tree

pytestmark = pytest.mark.promise(
    "README: FlashAttention-2 and 3, xformers, cuDNN",
    "GPU backends list upstream's kernels and choose among them as upstream does.",
)

BASE = 0x7F00_0000_0000
VERSIONS = {"sm_90a": 90, "sm_100a": 100, "sm_103a": 100}
"""What an engine is asked with. It refuses sm_103, although its text compiles for it."""


@pytest.fixture(scope="module")
def tree(shared_cache: Path) -> Path:
    try:
        return source_tree(shared_cache)
    except EnvironmentProblem as fault:
        pytest.skip(f"no sources of cudnn-frontend: {fault.what}")


@pytest.fixture(scope="module")
def library(tree: Path, shared_cache: Path) -> Any:
    return engines(shared_cache)


@st.composite
def problems(draw: st.DrawFn) -> tuple[str, int, Problem]:
    """An architecture, a number of multiprocessors, and a problem that a kernel serves."""
    arch, kv_heads = draw(st.sampled_from(tuple(VERSIONS))), draw(st.integers(1, 9))
    tile = 128 if arch == "sm_90a" else 256
    rows = tile * draw(st.one_of(st.integers(1, 40), st.integers(1, 2**16)))
    problem = Problem.of(
        dtype="bf16",
        batch=draw(st.integers(1, 70)),
        heads=kv_heads * draw(st.integers(1, 9)),
        kv_heads=kv_heads,
        seqlen=rows,
        hdim=draw(st.sampled_from((64, 128))),
        mask=draw(st.sampled_from(("causal", "causal-tl"))),
        layout=draw(st.sampled_from(("bhsd", "bshd", "bhsd:bshd", "bshd:bhsd"))),
        scale=draw(st.floats(SMALLEST_NORMAL, 100.0)),
    )
    return arch, draw(st.integers(2, 200)), problem


def planned(arch: str, units: int, problem: Problem) -> tuple[Plan, DeviceFacts]:
    device = DeviceFacts(id="cuda:0", archs=(arch,), units=units)
    (kernel,) = (d.kernel for d in UPSTREAM.decide(problem, device) if isinstance(d, Supported))
    return UPSTREAM.plan_of(problem, kernel, device), device


def asked(call: Call[DeviceFacts]) -> ExecuteArguments:
    """The same launch as arguments of ``execute``."""
    p, rows = call.problem, call.problem.heads * call.problem.seqlen_q
    names = {"max": "softmax_max", "sum": "softmax_sum"}
    found = {name: call.rows(name) for name in "qkvo"}
    strides = [(found[n].batch, found[n].head, found[n].row) if n in found else (rows, p.seqlen_q, 1) for n in TENSORS]
    counter = call.address("tile_counter") or 16
    return ExecuteArguments(
        sizes=(p.batch, p.heads, p.kv_heads, p.seqlen_q, p.seqlen_k, p.hdim),
        addresses=(*(call.address(names.get(name, name)) for name in TENSORS), counter),
        strides=tuple(strides),
        scale=p.scale,
    )


@given(problems())
@pytest.mark.slow
@pytest.mark.ci
def test_launches_are_the_engines(library: Any, made: tuple[str, int, Problem]) -> None:
    same_launch(library, *made)


@pytest.mark.slow
@settings(max_examples=3000)
@given(problems())
def test_many_launches_are_the_engines(library: Any, made: tuple[str, int, Problem]) -> None:
    same_launch(library, *made)


def same_launch(library: Any, arch: str, units: int, problem: Problem) -> None:
    plan, device = planned(arch, units, problem)
    (stage,) = plan.stages
    call = Call(
        plan, UPSTREAM.situation_of(problem, device), layout_of(problem, plan.workspaces, gaps=True).tensors, BASE, {}
    )
    launch, block = UPSTREAM.launch_of(stage, call), bytes(pack_params(UPSTREAM.params_of(stage, call), played_map))
    layout = host_layout(BLOCKS[facts_of(stage.kernel).engine])
    theirs = launch_of_engine(library, VERSIONS[arch], units, asked(call), tuple(size for *_, size in layout))
    assert (launch.grid, launch.block, launch.shared) == (theirs.grid, theirs.block, theirs.shared)
    cleared = [(call.address(name), 4) for name in launch.cleared]
    assert cleared == [pair for pair in (theirs.cleared,) if pair[1]]
    for (name, offset, size), theirs_ in zip(layout, theirs.parameters, strict=True):
        assert block[offset : offset + size] == theirs_, name


@given(st.one_of(st.integers(1, 300), st.integers(1, 2**31 - 1)), st.integers(0, 2**31 - 1))
def test_dividers_divide(number: int, value: int) -> None:
    val, shift, factor = fast_divisor(number)
    assert (val, factor < 2**32) == (number, True)
    assert (2 * value * factor >> 32) >> shift == value // number


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    "kernel", [k for arch in ("sm_90a", "sm_100a") for k in kernels(arch)], ids=lambda k: k.name[:40]
)
def test_the_text_is_what_the_engine_compiles(library: Any, tree: Path, kernel: KernelSpec) -> None:
    """g++ joins the literals of the header; the product cuts them out without a compiler."""
    hdim, facts = kernel.signature.hdim, facts_of(kernel)
    sizes = tuple(size for *_, size in host_layout(BLOCKS[facts.engine]))
    numbers = (1, 1, 1, 256, 256, hdim)
    plain = ExecuteArguments(numbers, (BASE,) * 7, ((1024, 1024, hdim),) * 6, 1.0)
    made = launch_of_engine(library, VERSIONS[kernel.arch], 132, plain, sizes)
    assert made.symbol == facts.symbol
    assert derive_files(kernel, tree) == {FILE: made.text}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_parameters_have_the_engines_names(tree: Path, arch: str) -> None:
    engine = facts_of(kernels(arch)[0]).engine
    text = (tree / f"include/cudnn_frontend/experimental/{engine}_sdpa_prefill_engine.h").read_text("utf-8")
    listed = re.search(r"void\* kernelParams\[\] = \{(.*?)\}", text, re.DOTALL)
    assert listed is not None
    assert re.findall(r"&(\w+)", listed[1]) == [name for name, *_ in host_layout(BLOCKS[engine])]


def test_engines_refuse_what_they_check(library: Any) -> None:
    """Another head dim, and nothing else that the rules refuse: odd lengths, fewer keys, and any mask or type."""
    sizes = tuple(size for *_, size in host_layout(BLOCKS["sm90"]))
    plain = ExecuteArguments((1, 1, 1, 100, 40, 64), (BASE,) * 7, ((6400, 6400, 64),) * 6, -1.0)
    assert launch_of_engine(library, 90, 132, plain, sizes).grid == (1, 1, 1)
    with pytest.raises(ValueError, match="answers 1"):
        launch_of_engine(library, 90, 132, replace(plain, sizes=(1, 1, 1, 100, 40, 96)), sizes)
    with pytest.raises(ValueError, match="answers 2"):
        launch_of_engine(library, 90, 132, replace(plain, addresses=(BASE + 8,) * 7), sizes)


def test_a_swizzle_never_exceeds_the_heads_and_survives_huge_ones(library: Any) -> None:
    """A key head beyond 50 MiB, and one of 2^32 bytes, which upstream counts as 0."""
    sizes = tuple(size for *_, size in host_layout(BLOCKS["sm100"]))
    for rows in (2**17, 2**18, 2**23):
        problem = Problem.of(dtype="bf16", batch=1, heads=3, seqlen=rows, hdim=128, causal=True)
        plan, device = planned("sm_100a", 148, problem)
        tensors: dict[str, BoundTensor] = dict(layout_of(problem, plan.workspaces).tensors)
        call = Call(plan, UPSTREAM.situation_of(problem, device), tensors, BASE, {})
        ours = UPSTREAM.params_of(plan.stages[0], call)
        theirs = launch_of_engine(library, 100, 148, asked(call), sizes)
        assert bytes(pack_params(ours, played_map))[: sum(sizes[:8])] == b"".join(theirs.parameters[:8])
        assert ours.l2_minor_divmod[0] == 1
