"""``emit`` turns a KernelSpec into one CUDA translation unit, the source of one cubin.

The text depends on the kernel only. It includes upstream's headers and two folders of shims by name. Upstream's launch
templates are not included, because they hold launches, which NVRTC refuses; the text repeats their aliases.
"""

from __future__ import annotations

from pathlib import Path

from fmha_cli.codegen.cuda import exports_text
from fmha_cli.codegen.flash_attn_3.backward_emit import aliases, check_traits, fact_expressions, headers
from fmha_cli.codegen.flash_attn_3.backward_instance import Backward, BackwardInstance, ConvertInstance, DotInstance
from fmha_cli.codegen.flash_attn_3.facts import ELEMENTS
from fmha_cli.codegen.flash_attn_3.instance import (
    CombineInstance,
    ForwardInstance,
    PrepareInstance,
    TileScheduler,
    flag,
    instance_of,
)
from fmha_cli.codegen.flash_attn_3.params import Fa3PrepareParams, block_of
from fmha_cli.codegen.struct import c_fields, struct_text
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec

SYMBOL = "fmha_fa3"
"""The kernel's name in every cubin, and the prefix of the exported tables."""
FACTS = ("kBlockM", "kBlockN", "kHeadDim", "kHeadDimV", "MaxThreadsPerBlock")
COMBINE_FACTS = ("kBlockM", "kBlockK", "kMaxSplits", "MaxThreadsPerBlock")
"""What ``fmha_fa3_facts`` exports. The dynamic shared memory of the launch, in bytes, follows."""
PREPARE_FACTS = ("NumWarps",)
PREPARE = "fmha_prepare.cuh"
"""The file that :func:`derive_files` makes of ``flash_prepare_scheduler.cu``."""
FORM = 1  # raised when ``derive_files`` gives another text, because the key of a kernel holds the emitted unit alone
PREPARE_SOURCE = Path("third_party", "flash-attention", "hopper", "flash_prepare_scheduler.cu")
_LEFT_OUT = (('#include "flash.h"', ""), ('#include "static_switch.h"', ""))
"""Headers of the host code."""
_QUALIFIER = "__global__ void prepare_varlen", "__device__ void prepare_varlen"
_HEADERS = (
    "fmha_fa3.h",
    "cute/tensor.hpp",
    "cutlass/cutlass.h",
    "cutlass/kernel_hardware_info.h",
    "tile_size.h",
    "tile_scheduler.hpp",
    "flash_fwd_kernel_sm90.h",
    "mainloop_fwd_sm90_tma_gmma_ws.hpp",
    "epilogue_fwd.hpp",
)
_COMBINE_HEADERS = (
    "fmha_fa3.h",
    "cute/tensor.hpp",
    "cutlass/cutlass.h",
    "cutlass/arch/arch.h",
    "flash_fwd_combine_kernel.h",
)
_KERNEL = f"""extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
{SYMBOL}(const __grid_constant__ Params params)
{{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}}"""


def emit(kernel: KernelSpec) -> str:
    """The complete source of a kernel's cubin.

    Raises:
        TypeError: the kernel is not a FlashAttention-3 kernel.
        ValueError: the text of the kernel's family is not known.
    """
    i = instance_of(kernel)
    if isinstance(i, PrepareInstance):
        return _prepare(kernel, i)
    if isinstance(i, BackwardInstance | DotInstance | ConvertInstance):
        return _backward(kernel, i)
    combine = isinstance(i, CombineInstance)
    parts = [
        f"// {kernel.name}\n// {i.template_id}",
        "\n".join(f"#include <{header}>" for header in (_COMBINE_HEADERS if combine else _HEADERS)),
        *(_combine(i) if isinstance(i, CombineInstance) else (_aliases(i), _tile_check(i))),
        _KERNEL,
        exports_text(SYMBOL, block_of(i), _facts(combine=combine), "(uint32_t)Kernel::SharedStorageSize"),
    ]
    return "\n\n".join(parts) + "\n"


def derive_files(kernel: KernelSpec, tree: Path) -> dict[str, str]:
    """For prepare ``PREPARE``: upstream's kernel as a function of the device, without the host code behind it.

    Raises:
        EnvironmentProblem: the file is not as it was when this was written, or upstream's launch code passes other traits
            to a backward kernel.
    """
    i = instance_of(kernel)
    if isinstance(i, BackwardInstance | DotInstance | ConvertInstance):
        check_traits(i, tree)
    if not isinstance(i, PrepareInstance):
        return {}
    path = tree / PREPARE_SOURCE
    text = path.read_text("utf-8")
    head, mark, _ = text.partition("} // flash\n")
    for word, other in (
        ("#include <cub/cub.cuh>", "#include <cub/block/block_merge_sort.cuh>"),
        *_LEFT_OUT,
        _QUALIFIER,
    ):
        if mark == "" or word not in head:
            raise EnvironmentProblem(f"{path.name} has no {word}", code="S105", where=str(path))
        head = head.replace(word, other)
    return {PREPARE: head + mark}


def _prepare(kernel: KernelSpec, i: PrepareInstance) -> str:
    fields = c_fields(Fa3PrepareParams)
    casts = ("(int*)" if kind.spelling == "void*" else "" for _, kind in fields)
    given = ", ".join(f"{cast}params.{name}" for cast, (name, _) in zip(casts, fields, strict=True))
    parts = (
        f"// {kernel.name}\n// {i.template_id}, form {FORM}",
        f'#include <fmha_fa3.h>\n#include <cutlass/fast_math.h>\n#include <cuda/std/climits>\n#include "{PREPARE}"',
        f"{struct_text(Fa3PrepareParams)}using Params = {Fa3PrepareParams.__name__};",
        f'extern "C" __global__ void __launch_bounds__({i.threads})\n'
        f"{SYMBOL}(const __grid_constant__ Params params)\n{{\n  flash::{i.template_id}({given});\n}}",
        exports_text(SYMBOL, Fa3PrepareParams, [str(i.warps)], "0"),
    )
    return "\n\n".join(parts) + "\n"


def _backward(kernel: KernelSpec, i: Backward) -> str:
    size = "(uint32_t)Kernel::SharedStorageSize"
    parts = (
        f"// {kernel.name}\n// {i.template_id}",
        "\n".join(f"#include <{header}>" for header in headers(i)),
        aliases(i),
        _KERNEL,
        exports_text(SYMBOL, block_of(i), fact_expressions(i), size),
    )
    return "\n\n".join(parts) + "\n"


def _combine(i: CombineInstance) -> tuple[str, ...]:
    """The aliases of ``run_flash_fwd_combine``."""
    return (f"using Kernel = flash::FlashAttnFwdCombine<{', '.join(i.arguments)}>;\nusing Params = Kernel::Params;",)


def _aliases(i: ForwardInstance) -> str:
    """The aliases of ``run_flash_fwd``."""
    rows, keys = i.a.tile
    element, out = ELEMENTS[i.dtype], ELEMENTS[i.out]
    shape = f"cute::Shape<cute::Int<{rows}>, cute::Int<{keys}>, cute::Int<{i.hdim}>>"
    shape_pv = f"cute::Shape<cute::Int<{rows}>, cute::Int<{i.hdim_v}>, cute::Int<{keys}>>"
    column_major = False  # FLASHATTENTION_ENABLE_VCOLMAJOR is off in upstream's own builds
    transpose_v = i.element_bytes == 1 and not column_major
    main = (i.causal, i.local, i.softcap, i.a.varlen, i.a.paged, i.append, i.a.qv, i.a.p_in_regs, i.a.overlap)
    mainloop = (
        f"2, Cluster, {shape}, {i.hdim_v}, {element}, float, cutlass::arch::Sm90",
        *map(flag, (*main, i.a.pack_gqa, i.split, column_major)),
    )
    epilogue = (
        f"{shape_pv}, Cluster, {out}, cutlass::arch::Sm90, Mainloop::NumMmaThreads",
        *map(flag, (i.a.varlen, i.a.pack_gqa, i.split, transpose_v)),
    )
    return "\n".join(
        (
            f"using Cluster = cute::Shape<cute::Int<{i.a.cluster}>, cute::_1, cute::_1>;",
            f"using Mainloop = flash::CollectiveMainloopFwdSm90<{', '.join(mainloop)}>;",
            f"using Epilogue = flash::CollectiveEpilogueFwd<{', '.join(epilogue)}>;",
            f"using Scheduler = {_scheduler(i)};",
            "using Kernel = flash::FlashAttnFwdSm90<Mainloop, Epilogue, Scheduler>;",
            "using Params = Kernel::Params;",
        )
    )


def _scheduler(i: ForwardInstance) -> str:
    rows, keys = i.a.tile
    threads, split, pack = (
        ("Mainloop::NumMmaThreads", "Mainloop::NumProducerThreads"),
        flag(i.split),
        flag(i.a.pack_gqa),
    )
    ordered = (flag(i.causal or i.local), flag(not i.local), "true")  # LPT, Sort, Prepared
    words: dict[TileScheduler, tuple[str, ...]] = {
        TileScheduler.STATIC: (split,),
        TileScheduler.DYNAMIC: (*threads, split, pack, "true"),
        TileScheduler.SINGLE: (flag(i.a.varlen), split, pack, str(rows)),
        TileScheduler.VARLEN: (str(rows), str(keys), *threads, split, pack, "true", *ordered),
    }
    return f"flash::{i.scheduler.value}<{', '.join(words[i.scheduler])}>"


def _tile_check(i: ForwardInstance) -> str:
    """Refuses to compile against a tree whose table of tiles is another."""
    asked = (
        i.hdim,
        i.hdim_v,
        flag(i.causal),
        flag(i.local),
        i.element_bytes,
        "false",
        flag(i.a.paged),
        flag(i.softcap),
    )
    held = (*i.a.tile, flag(i.a.p_in_regs), flag(i.a.overlap))
    return (
        f"constexpr auto tile = tile_size_fwd_sm90({', '.join(map(str, asked))});\n"
        f"static_assert(tile == std::tuple<int, int, bool, bool>({', '.join(map(str, held))}),\n"
        '              "tile_size.h has another tile than the one that the host knows");'
    )


def _facts(*, combine: bool) -> list[str]:
    if combine:
        return [f"Kernel::{name}" for name in COMBINE_FACTS]
    owners = dict.fromkeys(("kBlockM", "kBlockN", "kHeadDim"), "Mainloop") | {"kHeadDimV": "Epilogue"}
    return [f"{owners.get(name, 'Kernel')}::{name}" for name in FACTS]
