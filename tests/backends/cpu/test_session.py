"""The session: load, bind and launch in an arena, checked by the oracle; and libraries that must not be called."""

from __future__ import annotations

import subprocess
from itertools import accumulate
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.backends.cpu.session import CpuSession
from fmha_cli.codegen import abi
from fmha_cli.codegen.abi import FORWARD, PREFIX, VERSION, FmhaCpuArgs
from fmha_cli.codegen.struct import struct_text, table_text
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor, BuildContext
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.oracle.fills import block_table
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.reference import forward

LARGEST = {"fp32": 3e-6, "fp16": 2e-3, "bf16": 2e-2}
"""The largest error, as a share of the largest element."""
NUMPY = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int32": np.int32}
OUTPUTS = ("o", "lse", "dq", "dk", "dv", "dbias")
LINES = [
    "-b 2 -H 4 --kv-heads 2 -s 33 --seqlen-k 65 -d 40 --dtype fp32 --causal --lse",
    "-H 4 -s 33 -d 40 --dtype bf16 --layout bshd:bhsd --bias elementwise:1hss --mask window:9,2 --sink 3",
    "-H 4 --kv-heads 1 --seqlens-q 3,0,40 --seqlens-k 50,7,60 -d 24 --hdim-v 16 --dtype fp32 --alibi --lse",
    "-b 3 -H 2 -s 4 --kv-cache linear --cache-seqlens 30,9,64 -d 32 --dtype fp32 --softcap 4 --layout bshd",
    "-b 3 -H 4 --kv-heads 2 -s 2 --kv-cache linear --cache-seqlens 30,0,64 --cache-leftpad 0,9,70 -d 32 --dtype fp32 --causal",
    "--seqlens-q 3,20 -H 2 --kv-cache linear --cache-seqlens 30,64 --cache-leftpad 5 -d 32 --dtype fp16 --layout bshd --alibi",
    "-b 2 -H 32 --kv-heads 1 -s 1 -d 576 --mla-rope 64 --kv-cache linear --cache-seqlens 90,300 --dtype bf16",
    "-H 4 --kv-heads 1 --seqlens-q 33,20 -d 576 --mla-rope 64 --dtype fp16 --causal --layout bshd",
    "-b 2 -H 8 --kv-heads 2 -s 2 --seqlen-k 500 -d 64 --dtype fp16 --splits 3 --dropout 0.25 --seed 77 --offset 5",
]
PAGED = "-b 2 -H 4 --kv-heads 2 -s 3 --kv-cache paged:8 --cache-seqlens 30,61 --append 3 -d 32 --dtype fp32"
FAMILIES = {
    LINES[-1]: [Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE],
    f"{PAGED} --causal": [Family.FWD_APPENDKV, Family.FWD],
    f"{PAGED} --rotary 16 --layout bshd": [Family.FWD_APPENDKV, Family.FWD],
    f"{PAGED} --rotary 32:interleaved --splits 3": [
        *(Family.FWD_APPENDKV, Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE),
    ],
}
"""The stages of plans with several."""
LINES = list(dict.fromkeys([*LINES, *FAMILIES]))
BACKWARD = [
    "-b 2 -H 4 --kv-heads 2 -s 33 --seqlen-k 65 -d 40 --dtype fp32 --mask window:9,2 --bias elementwise:1hss --dbias",
    "-H 4 --kv-heads 1 --seqlens-q 3,0,40 --seqlens-k 50,7,60 -d 24 --hdim-v 16 --dtype bf16 --alibi --layout bshd:bhsd",
    "-b 2 -H 2 -s 33 -d 40 --dtype fp16 --causal --dropout 0.25 --seed 77 --offset 5 --softcap 4 --layout bshd",
    "-H 4 --kv-heads 2 -s 33 -d 192 --mla-rope 64 --dtype bf16 --causal --dropout 0.25 --layout bshd",
    "-H 2 --kv-heads 1 -s 20 --seqlen-k 30 -d 576 --hdim-v 512 --dtype fp32",
]


def plan_of(line: str) -> Plan:
    problem, device = Problem.from_cli(line), backend.probe().devices[0]
    found = [d for d in backend.decide(problem, device) if isinstance(d, Supported)]
    return backend.plan(problem, min(found, key=lambda d: d.rank).kernel, device)


def arena_of(plan: Plan) -> tuple[bytearray, dict[str, BoundTensor], dict[str, np.ndarray]]:
    """The arena of a plan with random inputs."""
    problem = plan.problem
    tensors, arrays, at = {}, {}, 4096
    sizes = sum(s.nbytes + 4096 for s in shapes_of(problem).values())
    arena = bytearray(at + sizes + sum(space.bytes + 4096 for space in plan.workspaces))
    rng = np.random.default_rng(0)
    for name, shape in shapes_of(problem).items():
        strides = tuple(accumulate(shape.shape[:0:-1], lambda a, b: a * b, initial=1))[::-1]
        tensors[name] = BoundTensor(name, at, shape.dtype.value, shape.shape, strides)
        arrays[name] = np.frombuffer(arena, NUMPY[shape.dtype.value], shape.elements, at).reshape(shape.shape)
        if name not in OUTPUTS:
            arrays[name][...] = rng.standard_normal(shape.shape).astype(arrays[name].dtype)
        if name == "alibi_slopes":
            arrays[name][...] = 2.0 ** -np.arange(1, shape.elements + 1)
        if name == "block_table":
            arrays[name][...] = block_table(problem, 0)
        at += (shape.nbytes + 4095) // 64 * 64
    for space in plan.workspaces:
        tensors[space.name] = BoundTensor(space.name, at, "bytes", (space.bytes,), (1,))
        at += (space.bytes + 4095) // 64 * 64
    return arena, tensors, arrays


def launched(plan: Plan, arena: bytearray, tensors: dict[str, BoundTensor], cache: Path) -> tuple[int, ...]:
    """Launch once. Returns the nanoseconds of every stage."""
    session = backend.open(backend.probe().devices[0])
    session.load(plan, [backend.build(stage, BuildContext(cache_root=cache)).path for stage in plan.stages])
    session.bind(memoryview(arena), tensors, 2)
    session.upload()
    times = session.launch()
    session.download()
    session.close()
    session.close()
    return times


def inputs_of(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if name not in OUTPUTS}


def error_of(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest error, as a share of the largest element."""
    return float(np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max())


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("line", LINES)
def test_a_walk(line: str, shared_cache: Path) -> None:
    plan = plan_of(line)
    arena, tensors, arrays = arena_of(plan)
    given = {name: array.copy() for name, array in inputs_of(arrays).items()}
    times = launched(plan, arena, tensors, shared_cache)
    assert [stage.family for stage in plan.stages] == FAMILIES.get(line, [Family.FWD])
    assert len(times) == len(plan.stages)
    assert min(times) > 0
    expected = forward(plan.problem, given).o_tensor(plan.problem)
    assert error_of(arrays["o"], expected) < LARGEST[plan.problem.dtype.value]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("line", BACKWARD)
def test_both_passes(line: str, shared_cache: Path) -> None:
    """The backward kernel finds the O and the LSE that the forward kernel has just written."""
    plan = plan_of(f"{line} --direction fwd+bwd")
    arena, tensors, arrays = arena_of(plan)
    for name in OUTPUTS:
        if name in arrays:
            arrays[name][...] = np.nan
    times = launched(plan, arena, tensors, shared_cache)
    assert [stage.family for stage in plan.stages] == [Family.FWD, Family.BWD_DQ_DK_DV]
    assert len(times) == 2
    assert min(times) > 0
    found, limit = backward(plan.problem, inputs_of(arrays)), LARGEST[plan.problem.dtype.value]
    for name in {"dq", "dk", "dv", "dbias"} & set(arrays):
        expected = getattr(found, name)
        assert expected is not None
        assert error_of(arrays[name], expected) < 2 * limit, name
    expected = forward(plan.problem.passes()[0], inputs_of(arrays)).o_tensor(plan.problem)
    assert error_of(arrays["o"], expected) < limit


def test_a_backward_pass_alone_reads_o_and_lse(shared_cache: Path) -> None:
    """What it is given decides: with O of 0, dS lacks the part that O stands for."""
    whole, alone = (plan_of(f"{BACKWARD[0]} --direction {direction}") for direction in ("fwd+bwd", "bwd"))
    arena, tensors, arrays = arena_of(whole)
    launched(whole, arena, tensors, shared_cache)
    first = {name: np.array(arrays[name]) for name in ("dq", "dv")}
    (elapsed,) = launched(alone, arena, tensors, shared_cache)
    assert elapsed > 0
    assert all(np.array_equal(arrays[name], first[name]) for name in first)
    arrays["o"][...] = 0
    launched(alone, arena, tensors, shared_cache)
    assert not np.array_equal(arrays["dq"], first["dq"])
    assert np.array_equal(arrays["dv"], first["dv"])


def library(text: str, folder: Path) -> Path:
    (folder / "x.cpp").write_text("#include <stddef.h>\n#include <stdint.h>\n#define EXPORT\n" + text)
    subprocess.run(["c++", "-shared", "-fPIC", "x.cpp", "-o", "x.so"], cwd=folder, check=True)
    return folder / "x.so"


@pytest.mark.parametrize(("line", "interface"), [(LINES[0], FORWARD), (f"{BACKWARD[0]} --direction bwd", abi.BACKWARD)])
def test_a_drifted_abi_is_refused(line: str, interface: abi.Interface, tmp_path: Path) -> None:
    block = struct_text(interface.block).replace("  float scale;", "  double scale;")
    table = table_text(interface.block, interface.prefix, VERSION)
    text = f'{block}{table}extern "C" int {interface.entry}(void*) {{ return 0; }}'
    with pytest.raises(KernelFailure, match="another argument block") as caught:
        CpuSession(backend.probe().devices[0]).load(plan_of(line), [library(text, tmp_path)])
    assert "scale" in str(caught.value.why)


def test_a_kernel_of_the_other_direction_is_refused(tmp_path: Path) -> None:
    table = table_text(FmhaCpuArgs, PREFIX, VERSION)
    text = f'{struct_text(FmhaCpuArgs)}{table}extern "C" int fmha_cpu_fwd(void*) {{ return 0; }}'
    with pytest.raises(KernelFailure, match="does not load"):
        CpuSession(backend.probe().devices[0]).load(
            plan_of(f"{BACKWARD[0]} --direction bwd"), [library(text, tmp_path)]
        )


def test_what_is_no_kernel_is_refused(tmp_path: Path) -> None:
    session = CpuSession(backend.probe().devices[0])
    with pytest.raises(KernelFailure, match="does not load"):
        session.load(plan_of(LINES[0]), [library("int nothing;", tmp_path)])
    with pytest.raises(KernelFailure, match="does not load"):
        session.load(plan_of(LINES[0]), [tmp_path / "x.cpp"])


def test_inspect(shared_cache: Path) -> None:
    plan = plan_of(LINES[1])
    if not algorithm_of(plan.main).pairs:
        pytest.skip("no products of pairs here")
    seen = backend.inspect(plan.main, backend.build(plan.stages[0], BuildContext(cache_root=shared_cache)))
    if seen["why"] is not None:
        pytest.skip(str(seen["why"]))
    assert seen["vector_bits"] == 512
    assert isinstance(seen["matrix_instructions"], int)
    assert seen["matrix_instructions"] > 0
    assert "fmha_cpu_fwd" in str(seen["symbols"])
