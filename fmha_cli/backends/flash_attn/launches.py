"""How a stage is launched, what its cubin must export for that, and which workspaces must be zero before it."""

from __future__ import annotations

from fmha_cli.backends.cuda.tables import Expected
from fmha_cli.backends.flash_attn.plan import grid_of
from fmha_cli.backends.flash_attn.situation import FlashSituation
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.codegen.flash_attn import traits
from fmha_cli.codegen.flash_attn.emit import FACTS, SYMBOL
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage


def launch_of(stage: Stage, call: Call[FlashSituation]) -> Launch:
    """The launch of a stage. ``convert_dQ`` also takes the number of dQ's parts (``nsplits``)."""
    kernel = stage.kernel
    extra = (call.situation.dq_parts,) if stage.family is Family.BWD_CONVERT_DQ else ()
    grid = grid_of(call.situation, kernel, call.plan.splits).blocks
    return Launch(grid, (traits.threads(kernel), 1, 1), traits.smem_bytes(kernel), extra)


def expect_exports(kernel: KernelSpec) -> Expected:
    """The exports that the kernel's cubin must have."""
    instance = instance_of(kernel)
    numbers = (*traits.algorithm_of(kernel).tile, kernel.signature.hdim, traits.threads(kernel))
    return Expected(
        symbol=SYMBOL,
        block=instance.block,
        extra=tuple(name for _, name in instance.extra),
        facts=dict(zip(FACTS, numbers, strict=True)),
        threads=traits.threads(kernel),
        shared_bytes=traits.smem_bytes(kernel),
    )


def list_zeroed(plan: Plan) -> tuple[str, ...]:
    """Names of the workspaces that must be zero before the kernels run.

    In a deterministic pass that is ``dq_accum``: each block adds to its own part, and bwd_dot_do_o clears no part
    (``torch::zeros`` in ``mha_bwd``). In any other pass bwd_dot_do_o clears the accumulator.
    """
    backward = any(stage.family is Family.BWD_DQ_DK_DV for stage in plan.stages)
    return ("dq_accum",) if backward and plan.problem.deterministic else ()
