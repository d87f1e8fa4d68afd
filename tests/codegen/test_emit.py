"""The emitted text: pure, stable, and equal to the reviewed text."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.backends.cpu.arguments import interface_of
from fmha_cli.backends.cpu.kernels import cpu_kernels
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm
from fmha_cli.codegen.cpu.backward import ROWS, gradient_columns, gradient_tile, product_tile
from fmha_cli.codegen.cpu.blocks import block_weights, gradient_blocks, product_blocks, score_blocks, value_blocks
from fmha_cli.codegen.cpu.elements import gradient_elements, product_elements, score_elements, value_elements
from fmha_cli.codegen.cpu.emit import CACHE_FAULTS, FAULTS, emit
from fmha_cli.codegen.cpu.emit_backward import BACKWARD_FAULTS, SHARED_FAULTS, tile_queries
from fmha_cli.codegen.cpu.micro import score_tile, value_columns, value_tile
from fmha_cli.codegen.cpu.parts import EXTREME_FAULTS, TILE_FAULTS
from fmha_cli.codegen.cpu.streams import dot_bytes, dot_codes, dot_tile, mix_bytes, mix_codes, mix_tile, pair_mix_tile
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.builds.planted_cpu import SWITCH, backward_faults, planted, switch, switchable
from tests.support.models.faults import BackwardFault, CacheFault, ExtremeFault, Fault, TileFault

GOLDEN = Path(__file__).parent.parent / "golden" / "cpu"
KERNELS = [kernel for arch in ARCHS for kernel in cpu_kernels(load_arch(arch))]
BACKWARD = [kernel for kernel in KERNELS if kernel.family is Family.BWD_DQ_DK_DV]
UPDATE = "PYTHONPATH=benchmarks python -m tests.support.golden.update_cpu"


def short(kernel: KernelSpec) -> str:
    return f"{kernel.arch}-{kernel.signature.dtype}-{getattr(kernel.algorithm, 'kind', '')}"


def tiles() -> dict[str, str]:
    """The generated parts, small enough to review."""
    return {
        "score_2x12.h": score_tile(2, 12, pairs=False),
        "score_4x4_pairs.h": score_tile(4, 4, pairs=True),
        "value_2x8.h": value_tile(2, 8, pairs=False),
        "value_4x2_pairs.h": value_tile(4, 2, pairs=True),
        "columns_12_8_4_1.h": value_columns((12, 8, 4, 1)),
        "dot_4_of_16.h": dot_tile(16, 4, pairs=False, half=False),
        "mix_4x4.h": mix_tile(4, 4, partial=False, half=False),
        "mix_pairs_2x8.h": pair_mix_tile(8, 2, partial=False),
        "dot_codes_1_of_8.h": dot_codes(8, 1),
        "mix_codes_2x4.h": mix_codes(8, 4, 2),
        "dot_bytes_4_of_16.h": dot_bytes(16, 4),
        "dot_wide_4_of_16.h": dot_bytes(16, 4, wide=True),
        "mix_bytes_4.h": mix_bytes(4),
        "mix_wide_4.h": mix_bytes(4, wide=True),
        "product_4x4.h": product_tile(4, pairs=False),
        "gradient_4x3_pairs.h": gradient_tile(3, pairs=True),
        "score_elements_2x4.h": score_elements(2, 4, pairs=False),
        "score_elements_1x4_pairs.h": score_elements(1, 4, pairs=True),
        "value_elements_2x4.h": value_elements(2, 4, pairs=False),
        "score_blocks_1x2.h": score_blocks(1, 2),
        "value_blocks_1x2.h": value_blocks(1, 2),
        "block_weights_1.h": block_weights(1),
        "product_blocks_1.h": product_blocks(1),
        "gradient_blocks_1.h": gradient_blocks(1),
        "product_elements_1.h": product_elements(1, pairs=False),
        "gradient_elements_1_pairs.h": gradient_elements(1, pairs=True),
        "gradient_columns_4_3_2_1.h": gradient_columns((4, 3, 2, 1)),
    }


def digests() -> dict[str, str]:
    return {kernel.name: hashlib.sha256(emit(kernel).encode()).hexdigest() for kernel in KERNELS}


@pytest.mark.parametrize("name", tiles())
def test_generated_tiles_are_the_reviewed_ones(name: str) -> None:
    assert tiles()[name] == (GOLDEN / name).read_text("utf-8"), f"a wanted change? run {UPDATE}"


def test_every_kernels_text_is_the_reviewed_one() -> None:
    assert digests() == json.loads((GOLDEN / "digests.json").read_text("utf-8")), f"a wanted change? run {UPDATE}"


@pytest.mark.sampled(20, ci="all")
@pytest.mark.parametrize("kernel", KERNELS, ids=short)
def test_text_is_whole_and_plain(kernel: KernelSpec) -> None:
    text = emit(kernel)
    assert text == emit(kernel)
    assert text.startswith(f"// {kernel.name}\n")
    assert text.count('extern "C" EXPORT int fmha_cpu_') == 1
    assert f'extern "C" EXPORT int {interface_of(kernel).entry}' in text
    assert text.count("{") == text.count("}")
    assert '#include "' not in text
    assert "/work" not in text


def test_the_text_has_a_macro_for_every_fault() -> None:
    assert list(FAULTS) == [fault.name for fault in Fault]
    assert list(CACHE_FAULTS) == [fault.name for fault in CacheFault]
    assert list(EXTREME_FAULTS) == [fault.name for fault in ExtremeFault]
    assert list(TILE_FAULTS) == [fault.name for fault in TileFault]
    assert [*SHARED_FAULTS, *BACKWARD_FAULTS] == [fault.name for fault in BackwardFault]
    assert set(SHARED_FAULTS) < set(FAULTS)


@pytest.mark.parametrize("kernel", BACKWARD, ids=short)
def test_every_fault_of_a_backward_kernel_is_used(kernel: KernelSpec) -> None:
    text = emit(kernel)
    for fault in BackwardFault:
        assert text.count(f"FAULT_{fault.name}") >= 2, fault
        assert planted(kernel, fault).count(f"#define FAULT_{fault.name} 1\n") == 1
    source = switchable(kernel)
    assert all(source.count(switch(fault.name)) == 1 for fault in backward_faults(kernel))
    assert len(source.splitlines()) == len(text.splitlines()) + source.count(f"int {SWITCH}")


@pytest.mark.parametrize("kernel", BACKWARD, ids=short)
def test_a_tile_of_queries_is_whole_register_tiles_and_vectors(kernel: KernelSpec) -> None:
    algorithm = kernel.algorithm
    assert isinstance(algorithm, CpuAlgorithm)
    queries = tile_queries(algorithm)
    assert 48 <= queries <= (256 if algorithm.simd.tiles else 96)
    assert [queries % n for n in (algorithm.lanes_q * algorithm.simd.lanes, algorithm.simd.lanes, ROWS, 2)] == [0] * 4
    keys = 32 if algorithm.simd.tiles else ROWS
    assert (algorithm.rows_s, algorithm.block_k % keys) == (keys, 0)
    assert [*algorithm.rows_o] == [*range(algorithm.rows_o[0], 0, -1)]


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_changes_one_flag_and_the_block(fault: Fault) -> None:
    honest, faulty = emit(KERNELS[0]).splitlines(), planted(KERNELS[0], fault).splitlines()
    changed = [new for old, new in zip(honest, faulty, strict=True) if old != new]
    assert f"#define FAULT_{fault.name} 1" in changed
    assert len(changed) == 2


def test_text_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "import hashlib;from fmha_cli.domain.arch import load_arch;from fmha_cli.codegen.cpu.emit import emit;"
        "from fmha_cli.backends.cpu.kernels import cpu_kernels;import sys;"
        "print(hashlib.sha256(''.join(emit(k) for k in cpu_kernels(load_arch('generic'))).encode()).hexdigest(),"
        "'numpy' in sys.modules)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(runs) == 1
    assert runs.pop().split()[1] == "False"
