"""Builds the programs that run upstream's host code: g++ compiles the fetched sources."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from fmha_cli.codegen.flash_attn_3.backward_emit import aliases, headers
from fmha_cli.codegen.flash_attn_3.backward_instance import BackwardInstance, backward_of
from fmha_cli.codegen.flash_attn_3.backward_params import Fa3BwdConvertParams, Fa3BwdDotParams
from fmha_cli.codegen.flash_attn_3.facts import ELEMENTS
from fmha_cli.codegen.flash_attn_3.instance import CombineInstance, ForwardInstance, algorithm_of
from fmha_cli.codegen.flash_attn_3.params import block_of
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.sources.store import fetch_source
from fmha_cli.toolchain.cuda.packages import RUNTIME, wheel
from tests.support.referees.upstream_host.building import key_of, run
from tests.support.run_cache import once

Launched = ForwardInstance | CombineInstance | BackwardInstance
"""The instances whose launches have programs of their own. Prepare is launched with the forward ones, and what comes before and
after a backward one with that."""
HERE = Path(__file__).parent
TREE = Path("third_party", "flash-attention")
DISPATCH = "template<int Arch, typename T, int kHeadDim, int kHeadDimV, bool Split"
"""Where ``run_flash_fwd`` ends and ``run_mha_fwd_`` begins in the launch template."""
PREPARE = "void prepare_varlen_num_blocks("
"""Where the host code of ``flash_prepare_scheduler.cu`` begins."""
API = "void set_params_fprop(", "std::tuple<at::Tensor, at::Tensor>\nmha_combine("
"""The part of ``flash_api.cpp`` from the parameters up to the backward pass, that included: the rest is Python's."""
GRADIENTS = "template<int Arch, typename T, int kBlockM, int kBlockN, int kHeadDim, bool Is_causal"
"""Where ``run_flash_bwd`` ends and ``run_mha_bwd_dispatch`` begins in the launch template of backward passes."""
FLAGS = ("-std=c++20", "-O0", "-w", "-fpermissive", "-DFLASHATTENTION_DISABLE_SM8x")

DEVICE_FLAGS = (
    *FLAGS,
    "-D__CUDACC_VER_MAJOR__=13",
    "-D__CUDACC_VER_MINOR__=0",
    "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",
)


def choice_program(cache_root: Path) -> Path:
    """The program that answers which kernel upstream takes; skips the test, with the reason, if it cannot be built."""
    tree, compiler = sources_or_skip(cache_root), compiler_or_skip()
    return once(cache_root, "flash3", key_of(compiler, tree, [HERE]), lambda work: build_choice(tree, work, compiler))


@cache
def block_programs(cache_root: Path, instances: tuple[Launched, ...]) -> dict[str, Path]:
    """The program of each instance, by its template-id. They are built anew for each run."""
    work = Path(mkdtemp(prefix="fa3-blocks-"))
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    return build_blocks(sources_or_skip(cache_root), work, compiler_or_skip(), instances)


def compiler_or_skip() -> str:
    """g++; without one the test is skipped."""
    return shutil.which("g++") or pytest.skip("no g++ is here: upstream's host code cannot be compiled")


def sources_or_skip(cache_root: Path) -> Path:
    """Upstream's fetched tree; the test is skipped if it cannot be fetched."""
    try:
        return fetch_source("flash-attn-3", cache_root, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's sources are not here: {fault}")


def cut(tree: Path, work: Path) -> None:
    """The parts of upstream's host code as files of their own."""
    hopper = tree / TREE / "hopper"
    template = (hopper / "flash_fwd_launch_template.h").read_text("utf-8")
    at = template.index(DISPATCH)
    (work / "launch.inc").write_text(template[:at])
    (work / "dispatch.inc").write_text(template[at:])
    backward = (hopper / "flash_bwd_launch_template.h").read_text("utf-8")
    at = backward.index(GRADIENTS)
    (work / "launch_backward.inc").write_text(backward[:at])
    (work / "gradients.inc").write_text(backward[at:])
    scheduler = (hopper / "flash_prepare_scheduler.cu").read_text("utf-8")
    launch, count = re.subn(
        r"flash::prepare\w+<(.*?)><<<(.*?), 0, stream>>>\(",
        r"note_prepare(\1, \2,",
        scheduler[scheduler.index(PREPARE) :],
    )
    assert count == 1
    (work / "prepare.inc").write_text(launch)
    api = (hopper / "flash_api.cpp").read_text("utf-8")
    first, last = (api.index(mark) for mark in API)
    (work / "api.inc").write_text(api[first:last])


def build_choice(tree: Path, work: Path, compiler: str) -> Path:
    """Build the program without CUTLASS and CUDA."""
    run([compiler, str(_choice_object(tree, work, compiler)), "-o", str(work / "host")])
    return work / "host"


def stub_of(work: Path) -> Path:
    """A folder with as much of ``cuda.h`` as the host code needs without CUDA."""
    stub = work / "stub"
    stub.mkdir(exist_ok=True)
    (stub / "cuda.h").write_text("#pragma once\n#include <cstdint>\n#include <type_traits>\n")
    return stub


def _choice_object(tree: Path, work: Path, compiler: str) -> Path:
    cut(tree, work)
    folders = (stub_of(work), work, HERE, tree / TREE / "hopper")
    made = work / "choice.o"
    source = str(HERE / "host" / "main.cpp")
    run([compiler, *FLAGS, *(f"-I{folder}" for folder in folders), "-c", source, "-o", str(made)])
    return made


def build_blocks(tree: Path, work: Path, compiler: str, instances: Sequence[Launched]) -> dict[str, Path]:
    """Build a program for each instance that also launches it: its block, shared memory, grid and descriptors.

    NVRTC aligns a descriptor to 64 bytes and CUDA 13's ``cuda.h`` to 128, so a copy of that header states 64.
    """
    choice = _choice_object(tree, work, compiler)
    cuda = _aligned_headers(work)
    with ThreadPoolExecutor(max_workers=min(4, len(os.sched_getaffinity(0)))) as pool:
        made = list(pool.map(lambda i: _block_program(tree, work, compiler, cuda, choice, i), instances))
    return {i.template_id: path for i, path in zip(instances, made, strict=True)}


def _aligned_headers(work: Path) -> Path:
    """CUDA's headers, and in ``work`` a copy of the one that states another alignment."""
    cuda = Path(wheel(RUNTIME).record).parents[1] / "nvidia" / "cu13" / "include"
    header = (cuda / "cuda.h").read_text("utf-8")
    assert "alignas(128)" in header
    (work / "cuda.h").write_text(header.replace("alignas(128)", "alignas(64)"))
    return cuda


def _folders(tree: Path, work: Path, cuda: Path, *own: Path) -> list[str]:
    hopper, cutlass = tree / TREE / "hopper", tree / TREE / "csrc" / "cutlass" / "include"
    folders = (HERE / "host" / "shim", *own, work, HERE, hopper, cutlass, cuda, cuda / "cccl")
    return [f"-I{folder}" for folder in folders]


def _block_program(tree: Path, work: Path, compiler: str, cuda: Path, choice: Path, i: Launched) -> Path:
    own = work / hashlib.sha256(i.template_id.encode()).hexdigest()[:16]
    own.mkdir(exist_ok=True)
    (own / "fields.inc").write_text(_backward_fields(i) if isinstance(i, BackwardInstance) else _fields(block_of(i)))
    name, defined = _unit(i)
    source = HERE / "host" / f"{name}.cpp"
    flags = (*DEVICE_FLAGS, *(f"-D{word}" for word in defined), *_folders(tree, work, cuda, own))
    run([compiler, *flags, str(source), str(choice), "-o", str(own / "host")])
    return own / "host"


def _fields(block: type) -> str:
    names = [name.replace("__", ".") for name, _ in c_fields(block) if "tma_" not in name]
    return "".join(f"FIELD({name})\n" for name in names)


def _backward_fields(i: BackwardInstance) -> str:
    """The fields of the three kinds of kernels that such an instance launches, told apart by a field of each."""
    blocks = {"mainloop": block_of(i), "ptr_dPsum": Fa3BwdDotParams, "ptr_dQ": Fa3BwdConvertParams}
    parts = (f"if constexpr (requires {{ params.{own}; }}) {{\n{_fields(b)}}}" for own, b in blocks.items())
    return " else ".join(parts)


def _unit(i: Launched) -> tuple[str, tuple[str, ...]]:
    """The program's source, and what defines its instance."""
    if isinstance(i, BackwardInstance):
        return "backward", _backward_words(i)
    return ("combine", _combine_words(i)) if isinstance(i, CombineInstance) else ("instance", _forward_words(i))


def _backward_words(i: BackwardInstance) -> tuple[str, ...]:
    arguments = i.template_id.partition("<")[2].rstrip(">")
    words = [word.strip() for word in arguments.split(",")]
    numbers = (str(int(w == "true")) if w in ("true", "false") else w for w in words if "::" not in w)
    given = f"FMHA_INSTANCE={arguments}", f"FMHA_WORDS={','.join(numbers)}", f'FMHA_DTYPE="{i.dtype.value}"'
    return (*given, "NDEBUG")  # as upstream's setup.py: the scheduler asserts a counter that it does not use


def _combine_words(i: CombineInstance) -> tuple[str, ...]:
    return f"FMHA_TYPE={ELEMENTS[i.out]}", f'FMHA_DTYPE="{i.out.value}"', f"FMHA_COLUMNS={i.a.tile[1]}"


def _forward_words(i: ForwardInstance) -> tuple[str, ...]:
    arguments = i.template_id.partition("<")[2].rstrip(">")
    sizes = (90, i.hdim, i.hdim_v, i.a.cluster)
    flags = (i.causal, i.local, i.softcap, i.a.varlen, i.a.paged, i.append, i.a.qv, i.a.pack_gqa, i.split, False)
    words = (*sizes, *map(int, flags), *i.a.tile, int(i.a.p_in_regs), int(i.a.overlap))
    return f"FMHA_INSTANCE={arguments}", f"FMHA_WORDS={','.join(map(str, words))}", f'FMHA_DTYPE="{i.dtype.value}"'


def sizes_of(tree: Path, work: Path, compiler: str, kernels: Sequence[KernelSpec]) -> list[tuple[int, int, int]]:
    """Shared memory, threads, and bytes of the block of each backward kernel: g++ compiles the types of its text."""
    texts, instances = [], [backward_of(k.family, k.signature, algorithm_of(k)) for k in kernels]
    for number, i in enumerate(instances):
        values = "Kernel::SharedStorageSize, (int)Kernel::MaxThreadsPerBlock, (int)sizeof(Params)"
        shown = f'void show() {{ std::printf("%d %d %d\\n", {values}); }}'
        texts.append(f"namespace k{number} {{\n{aliases(i)}\n{shown}\n}}")
    included = dict.fromkeys(h for i in instances for h in headers(i) if h != "fmha_fa3.h")
    lines = ['#include "host/text.h"', '#include "host/device.h"', "#include <cstdio>"]
    lines += [f"#include <{header}>" for header in included]
    calls = " ".join(f"k{number}::show();" for number in range(len(instances)))
    source = work / "sizes.cpp"
    source.write_text("\n".join((*lines, *texts, f"int main() {{ {calls} }}\n")))
    cuda = _aligned_headers(work)
    (work / "fields.inc").write_text("")
    run([compiler, *DEVICE_FLAGS, *_folders(tree, work, cuda), str(source), "-o", str(work / "sizes")])
    out = subprocess.run([work / "sizes"], capture_output=True, text=True, check=True, timeout=600).stdout
    return [(int(a), int(b), int(c)) for a, b, c in map(str.split, out.splitlines())]
