"""The parts of a backward kernel's translation unit that are its own: headers, aliases of ``run_flash_bwd``, facts."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.codegen.flash_attn_3.backward_instance import (
    LPT,
    STAGES,
    Backward,
    BackwardInstance,
    ConvertInstance,
    DotInstance,
    spelled,
)
from fmha_cli.codegen.flash_attn_3.facts import ELEMENTS
from fmha_cli.domain.errors import EnvironmentProblem

LAUNCHES = Path("third_party", "flash-attention", "hopper", "flash_bwd_launch_template.h")
_MAIN_FACTS = ("kBlockM", "kBlockN", "kHeadDim", "MaxThreadsPerBlock")
_STAGE_FACTS = ("kBlockM", "kHeadDim", "MaxThreadsPerBlock")
_COMMON = ("fmha_fa3.h", "cute/tensor.hpp", "cutlass/cutlass.h", "cutlass/arch/arch.h")
_PRODUCTS = (*_COMMON, "cutlass/kernel_hardware_info.h", "tile_scheduler.hpp", "mainloop_bwd_sm90_tma_gmma_ws.hpp")
_MAIN_HEADERS = (*_PRODUCTS, "epilogue_bwd.hpp", "flash_bwd_kernel_sm90.h")
_DOT_HEADERS = (*_COMMON, "flash_bwd_preprocess_kernel.h")
_CONVERT_HEADERS = (*_PRODUCTS, "flash_bwd_postprocess_kernel.h")


def headers(i: Backward) -> tuple[str, ...]:
    """The headers that the text includes, in order."""
    if isinstance(i, DotInstance):
        return _DOT_HEADERS
    return _CONVERT_HEADERS if isinstance(i, ConvertInstance) else _MAIN_HEADERS


def stated_facts(i: Backward) -> dict[str, int]:
    """What the cubin states about itself and the host computes: the names of constants, and their values."""
    if isinstance(i, BackwardInstance):
        return dict(zip(_MAIN_FACTS, (*i.a.tile, i.hdim, i.threads), strict=True))
    rows = i.rows if isinstance(i, ConvertInstance) else i.a.tile[0]
    return dict(zip(_STAGE_FACTS, (rows, i.hdim, i.threads), strict=True))


def fact_expressions(i: Backward) -> list[str]:
    """The constants of :func:`stated_facts` in C++."""
    owner = "Mainloop" if isinstance(i, BackwardInstance) else "Kernel"
    return [f"{'Kernel' if name == 'MaxThreadsPerBlock' else owner}::{name}" for name in stated_facts(i)]


def aliases(i: Backward) -> str:
    """The aliases of ``run_flash_bwd``: ``Kernel`` and ``Params`` are the last."""
    if isinstance(i, DotInstance):
        return f"using Kernel = {i.template_id};\nusing Params = Kernel::Params;"
    lines = _mainloop(i.products if isinstance(i, ConvertInstance) else i)
    lines += _convert(i) if isinstance(i, ConvertInstance) else _main(i)
    return "\n".join((*lines, "using Params = Kernel::Params;"))


def _mainloop(i: BackwardInstance) -> tuple[str, ...]:
    a = i.a
    shape = f"cute::Shape<cute::Int<{a.tile[0]}>, cute::Int<{a.tile[1]}>, cute::Int<{i.hdim}>>"
    words = spelled(
        *(STAGES, *a.stages, "Cluster", "Tile", ELEMENTS[i.dtype], "float", "cutlass::arch::Sm90"),
        *(i.causal, i.local, i.softcap, a.varlen, a.fixed_order, *map(bool, a.swapped)),
        *(a.groups, *a.atoms, a.v_in_regs),
    )
    return (
        "using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;",
        f"using Tile = {shape};",
        f"using Mainloop = flash::CollectiveMainloopBwdSm90<{words}>;",
    )


def _main(i: BackwardInstance) -> tuple[str, ...]:
    a, columns = i.a, i.a.tile[1]
    threads = "Mainloop::NumMmaThreads"
    if a.gqa:
        words = spelled("Tile", "float", "cutlass::arch::Sm90", threads, a.varlen, a.fixed_order)
        epilogue = f"flash::CollectiveEpilogueBwdGQA<{words}>"
    else:
        split = a.groups // a.atoms[1]
        words = spelled("Tile", ELEMENTS[i.dtype], "cutlass::arch::Sm90", threads, a.varlen, bool(a.swapped[1]), split)
        epilogue = f"flash::CollectiveEpilogueBwd<{words}>"
    of = (a.varlen, columns, a.fixed_order) if i.scheduler == LPT else (a.varlen, False, False, columns)
    return (
        f"using Epilogue = {epilogue};",
        f"using Scheduler = flash::{i.scheduler}<{spelled(*of)}>;",
        "using Kernel = flash::FlashAttnBwdSm90<Mainloop, Epilogue, Scheduler>;",
    )


def _convert(i: ConvertInstance) -> tuple[str, ...]:
    product, swapped = ("dKV", "dKV_swapAB") if i.a.of_keys else ("dQ", "dQ_swapAB")
    shape = f"cute::Shape<cute::Int<{i.rows}>, cute::Int<{i.hdim}>>"
    made = f"Mainloop::NumMmaThreads, Mainloop::TiledMma{product}, Mainloop::{swapped}"
    words = f"{shape}, {ELEMENTS[i.dtype]}, float, cutlass::arch::Sm90, {made}"
    return (f"using Kernel = flash::FlashAttnBwdPostprocessConvertdQ<{words}>;",)


def check_traits(i: Backward, tree: Path) -> None:
    """Compare the traits with the launch code of a tree: the host makes its buffers and blocks by them.

    Raises:
        EnvironmentProblem: S105, the launch code of this head dim passes no such traits.
    """
    if isinstance(i, DotInstance):
        return
    text = (tree / LAUNCHES).read_text("utf-8")
    _, _, after = text.partition(f"void run_mha_bwd_hdim{i.hdim}(")
    body = after.partition("\n}\n")[0]
    traits = (*i.a.stages, *map(bool, i.a.swapped), i.a.groups, *i.a.atoms, i.a.v_in_regs)
    wanted = f"<{spelled('Arch', 'T', *i.a.tile, i.hdim, 'Is_causal', 'Is_local', 'Has_softcap', *traits)}>"
    if wanted not in body:
        raise EnvironmentProblem(
            f"{LAUNCHES.name} has no run_mha_bwd_dispatch{wanted}", code="S105", where=str(tree / LAUNCHES)
        )
