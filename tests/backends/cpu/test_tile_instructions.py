"""The hardware build of kernels with matrix tiles: its disassembly, and the refusal of a system without tiles."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.arch_detect import VARIABLE
from fmha_cli.backends.cpu.building import build_cpu, kernel_flags
from fmha_cli.backends.cpu.inspection import (
    CpuInstruction,
    disassembler,
    innermost_loops,
    inspect_library,
    instructions,
)
from fmha_cli.backends.cpu.peaks import build_peak_loops
from fmha_cli.backends.cpu.session import CpuSession
from fmha_cli.codegen.abi import BACKWARD_ENTRY, ENTRY, EntryStatus
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.codegen.struct import pack
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor, BuildContext
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.domain.verdict import Verdict
from tests.support.builds.compilers import COMPILERS, command_of
from tests.support.fakes.refused_tiles import without_tiles
from tests.support.fakes.software_tiles import AMX
from tests.support.generators.cpu.backward_cases import BackwardCase, backward_arguments, make_backward
from tests.support.generators.cpu.cases import arguments, kernel_of

HERE = backend.probe().devices[0].archs
ASKS = pytest.mark.skipif("x86_64_v4" not in HERE, reason="this machine has no AVX-512 to ask with")
PRODUCT, KERNEL = "tdpbf16ps", kernel_of(AMX, "bf16", "prefill")
TASKS = {"prefill": ["tile_task"], "backward": ["bias_task", "chunks_task", "numbers_task", "own_task"]}
"""The functions in which a thread begins and ends its work with tiles."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((kind, c), id=f"{kind}-{c}", marks=() if c == "g++" else pytest.mark.slow)
        for kind in TASKS
        for c in COMPILERS
    ],
)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Kind and library of a kernel with the flags of ``fmha build``, by each compiler."""
    kind, name = request.param
    command = command_of(name)
    folder = tmp_path_factory.mktemp("tiles")
    kernel = kernel_of(AMX, "bf16", kind)
    (folder / "k.cpp").write_text(emit(kernel))
    subprocess.run([*command, *kernel_flags(kernel, COMPILERS[name]), "k.cpp", "-o", "k.so"], cwd=folder, check=True)
    return kind, folder / "k.so"


@pytest.fixture(scope="module")
def library(built: tuple[str, Path]) -> Path:
    return built[1]


@pytest.fixture(scope="module")
def listing(library: Path) -> str:
    program = disassembler("x86_64")
    if program is None:
        pytest.skip("no disassembler for x86_64")
    command = [program, "-d", "--no-show-raw-insn", str(library)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.sampled(0, ci="all")
def test_products_are_in_the_innermost_loops(listing: str) -> None:
    """Products of 32 columns use a loaded tile twice, those of 16 columns two of three. No vector goes to the stack.

    clang++ and zig repeat the body of a loop, and leave the rest of its steps behind it.
    """
    loops = [loop for loop in innermost_loops(listing) if loop.counts[PRODUCT]]
    loads = {(loop.counts["tileloadd"] / loop.counts[PRODUCT]) for loop in loops}
    assert loads == {4 / 4, 3 / 2}
    for loop in loops:
        assert {name for name in loop.counts if "tile" in name} == {"tileloadd"}
        assert loop.stack_moves == 0
        assert len(loop.body) <= 8 * loop.counts[PRODUCT]
    inside = sum(loop.counts[PRODUCT] for loop in loops)
    assert 10 <= inside <= sum(one.mnemonic == PRODUCT for one in instructions(listing)) <= 2 * inside


@pytest.mark.sampled(0, ci="all")
def test_no_tile_is_spilled(listing: str) -> None:
    """Sums are stored once for each product, and no other tile ever is."""
    stored = [one.operands.split(",")[0] for one in instructions(listing) if one.mnemonic == "tilestored"]
    assert set(stored) <= {f"%tmm{n}" for n in range(4)}
    assert not any("rsp" in one.operands for one in instructions(listing) if one.mnemonic.startswith("tile"))


@pytest.mark.sampled(0, ci="all")
def test_tiles_are_configured_before_their_first_use(built: tuple[str, Path], listing: str) -> None:
    """A task begins with the configuration and ends with the release; what it calls has neither."""
    code = list(instructions(listing))
    configured = [one for one in code if one.mnemonic == "ldtilecfg"]
    assert sorted(name for one in configured for name in TASKS[built[0]] if name in one.symbol) == TASKS[built[0]]
    assert len(configured) == len(TASKS[built[0]])
    for first in configured:
        task = [one for one in code if one.symbol == first.symbol]
        assert task.index(first) < min((n for n, one in enumerate(task) if _uses_tiles(one)), default=len(task))
    assert {one.symbol for one in code if one.mnemonic == "tilerelease"} == {one.symbol for one in configured}


def _uses_tiles(one: CpuInstruction) -> bool:
    return one.mnemonic == PRODUCT or one.mnemonic.startswith("tile")


@pytest.mark.sampled(0, ci="all")
def test_inspect_counts_and_names_the_products(library: Path) -> None:
    seen = inspect_library(library)
    if seen["why"] is not None:
        pytest.skip(str(seen["why"]))
    assert seen["matrix_mnemonics"] == {PRODUCT: seen["matrix_instructions"]}
    assert seen["matrix_instructions"] >= 4 + 4 + 2  # type: ignore[operator]


@ASKS
@pytest.mark.sampled(0, ci="all")
def test_a_system_without_tiles_is_a_status(built: tuple[str, Path]) -> None:
    """The launch asks first, so no instruction is refused by a signal."""
    kind, path = built
    case = BackwardCase("bf16")
    make_backward(case, np.random.default_rng(1))
    entry, block = (BACKWARD_ENTRY, backward_arguments(case)) if kind == "backward" else (ENTRY, arguments(case))
    argument = ctypes.byref(pack(block))
    assert without_tiles(lambda: ctypes.CDLL(str(path))[entry](argument)) == EntryStatus.NOT_PERMITTED


@ASKS
def test_a_refusal_names_the_way_out(shared_cache: Path) -> None:
    problem = Problem.from_cli("-H 1 -s 32 -d 32 --dtype bf16")
    tensors, at = {}, 0
    for name, shape in shapes_of(problem).items():
        tensors[name] = BoundTensor(
            name, at, shape.dtype.value, shape.shape, (32 * 32, 32 * 32, 32, 1)[: len(shape.shape)]
        )
        at += 4096
    session = CpuSession(DeviceFacts(id="cpu", archs=(AMX,)))
    plan = backend.plan(problem, KERNEL, DeviceFacts(id="cpu", archs=(AMX,)))
    session.load(plan, [build_cpu(Stage(KERNEL), BuildContext(cache_root=shared_cache)).path])
    session.bind(memoryview(bytearray(at)), tensors, 1)
    with pytest.raises(EnvironmentProblem, match="matrix tiles") as caught:
        without_tiles(session.launch)
    assert caught.value.code == "K115"
    session.close()


def test_rows_are_not_run_and_kernels_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, next(arch for arch in HERE if arch != AMX))
    (row,) = api.run(Problem.from_cli("-H 1 -s 32 -d 32 --dtype bf16"), arch=AMX)
    assert row.verdict is Verdict.NOT_RUN
    assert "no device here accepts x86_64_amx" in " ".join(row.notes)


@pytest.mark.slow
@pytest.mark.ci
def test_the_loop_of_the_peak_has_products_of_tiles(shared_cache: Path) -> None:
    artifact = build_peak_loops(DeviceFacts(id="cpu", archs=(AMX,)), BuildContext(cache_root=shared_cache))
    program = disassembler("x86_64")
    if program is None:
        pytest.skip("no disassembler for x86_64")
    command = [program, "-d", "--no-show-raw-insn", str(artifact.path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [loop.counts[PRODUCT] for loop in innermost_loops(text) if loop.counts[PRODUCT]] == [6]
