"""The benchmarks that time compiles and compare the loops of two revisions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cpu_compile
import cpu_loops
import pytest

from fmha_cli.backends.cpu.building import kernel_flags
from fmha_cli.backends.cpu.inspection import innermost_loops
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.cpu.cases import kernel_of

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="this machine has no g++")
needs_objdump = pytest.mark.skipif(shutil.which("objdump") is None, reason="this machine has no objdump")


@needs_gcc
@pytest.mark.slow
@pytest.mark.ci
def test_a_compile_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cpu_compile.main(["--arch", WHOLE[0], "--only", "combine fp32", "--rounds", "2"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    name, least, median, goal, verdict = (cell.strip() for cell in row.strip("|").split("|"))
    assert (name, goal) == ("combine fp32", "1.50")
    assert 0 < float(least) <= float(median)
    assert verdict == ("met" if float(least) <= 1.5 else "NOT MET")


def test_a_label_that_no_kernel_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cpu_compile.main(["--arch", WHOLE[0], "--only", "fp5"])
    assert "no kernel has such a label" in capsys.readouterr().err


def test_instructions_are_read_from_the_report() -> None:
    assert cpu_compile.counted("==7== \n==7== I refs:        7,432,001,234\n") == 7432001234
    with pytest.raises(ValueError, match="no count"):
        cpu_compile.counted("==7== killed")


@pytest.mark.slow
@needs_gcc
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="this machine has no valgrind")
def test_instructions_of_the_compiler_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for _ in range(2):
        assert cpu_compile.main(["--arch", WHOLE[0], "--only", "combine fp32", "--instructions"]) == 0
        *_, row = capsys.readouterr().out.splitlines()
        found.append(float(row.strip("|").split("|")[1]))
    assert 0.3 < found[0] < 10
    assert found[0] == pytest.approx(found[1], rel=0.002)


def test_instructions_of_another_compiler_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cpu_compile.main(["--arch", WHOLE[0], "--instructions", "--compiler", "clang++"])
    assert "needs GCC and Valgrind" in capsys.readouterr().err


def test_labels_are_different() -> None:
    kernels = list(cpu_compile.cpu_kernels(load_arch(WHOLE[0])))
    assert len({cpu_compile.label(kernel) for kernel in kernels}) == len(kernels)


LISTING = """
0000000000001000 <tile>:
    1000:\tvmovups (%rsi),%zmm0
    1004:\tvfmadd231ps %zmm1,%zmm0,%zmm2
    1008:\tvfmadd231ps (%rax){1to16},%zmm0,%zmm3
    100c:\tprefetcht0 0x200(%rsi)
    1010:\tadd    $0x40,%rsi
    1014:\tcmp    %rsi,%rdx
    1018:\tjne    1000 <tile>
"""


def test_a_loop_is_described_by_its_vector_instructions() -> None:
    (loop,) = innermost_loops(LISTING)
    shape = cpu_loops.shape_of(loop)
    assert shape == (("prefetcht0", 1), ("vfmadd231ps", 2), ("vmovups", 1))
    assert cpu_loops.products(shape) == 2
    assert cpu_loops.listed(Counter({shape: 1, (("vfmadd231ps", 9),): 2})) == "9 of 9, 9 of 9, 2 of 4"
    assert cpu_loops.listed(Counter()) == "none"


@pytest.mark.slow
@needs_gcc
@needs_objdump
def test_a_changed_tile_is_another_loop(tmp_path: Path) -> None:
    kernel = kernel_of("x86_64_v3", "fp32", "decode")
    flags, text = list(kernel_flags(kernel, ToolchainKind.GCC)), emit(kernel)
    once, again = (cpu_loops.shapes(text, flags, tmp_path) for _ in range(2))
    assert once.total() >= 4
    assert once == again
    wrong = text.replace("_mm256_fmadd_ps", "_mm256_fmsub_ps")
    assert wrong != text
    assert not once & cpu_loops.shapes(wrong, flags, tmp_path)


@pytest.mark.slow
@needs_gcc
@needs_objdump
def test_this_revision_has_the_loops_of_this_revision(capsys: pytest.CaptureFixture[str]) -> None:
    if not (cpu_loops.ROOT / ".git").exists():
        pytest.skip("this tree is not a git checkout")
    assert cpu_loops.main(["HEAD", "--arch", "x86_64_v3", "--only", "decode fp32 fp32 same", "--sizes"]) == 0
    *_, row, _, sizes = capsys.readouterr().out.splitlines()
    assert sizes == "decode fp32 fp32 same: none -> none"
    _, before, now, same = (cell.strip() for cell in row.strip("|").split("|"))
    assert before == now == same != "0"


@pytest.mark.slow
@pytest.mark.ci
def test_a_row_has_the_share_of_a_register_tile_beside_that_of_the_kernel() -> None:
    script = [sys.executable, str(cpu_loops.ROOT / "benchmarks" / "cpu_attention.py"), "--alone", "--quick"]
    command = [*script, "--threads", "1", "--clock", "cpu", "--only", "causal S=512"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    header, _, *rows = (line for line in done.stdout.splitlines() if line.startswith("|"))
    columns = [cell.strip() for cell in header.split("|")]
    found = [dict(zip(columns, (cell.strip() for cell in row.split("|")), strict=True)) for row in rows]
    assert [row["regime"] for row in found] == ["forward fp32 causal S=512", "forward bf16 causal S=512"]
    tile, kernel = (float(found[0][name].rstrip("%")) for name in ("a register tile's", "share of ceiling (95 %)"))
    assert 5 < tile < 200
    assert 5 < kernel < 200
