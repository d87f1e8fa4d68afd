"""How a stage is launched, and what its cubin must export for that."""

from __future__ import annotations

from fmha_cli.backends.cuda.tables import Expected
from fmha_cli.backends.flash_attn_3.arguments import heads, row_tiles
from fmha_cli.backends.flash_attn_3.backward_plan import backward_launch
from fmha_cli.backends.flash_attn_3.scratch import COUNTING, SEMAPHORE
from fmha_cli.backends.flash_attn_3.situation import PREPARED_BY_ONE, Fa3Situation
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.codegen.flash_attn_3.backward_emit import stated_facts
from fmha_cli.codegen.flash_attn_3.backward_instance import BackwardInstance, ConvertInstance, DotInstance
from fmha_cli.codegen.flash_attn_3.emit import COMBINE_FACTS, FACTS, PREPARE_FACTS, SYMBOL
from fmha_cli.codegen.flash_attn_3.instance import CombineInstance, PrepareInstance, TileScheduler, instance_of
from fmha_cli.codegen.flash_attn_3.params import block_of
from fmha_cli.codegen.flash_attn_3.shared_memory import shared_bytes
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage


def launch_of(stage: Stage, call: Call[Fa3Situation]) -> Launch:
    """The launch of a stage."""
    return launch_for(stage.kernel, call.situation)


def launch_for(kernel: KernelSpec, s: Fa3Situation) -> Launch:
    """The launch of a kernel (``get_grid_shape`` of its scheduler): a block for each multiprocessor, or for each tile."""
    i, p = instance_of(kernel), s.problem
    if isinstance(i, BackwardInstance | DotInstance | ConvertInstance):
        return backward_launch(i, s)
    if isinstance(i, CombineInstance):
        rows, columns = i.a.tile
        grid = (-(-s.seqlen_q * p.heads // rows), -(-p.hdim_v // columns), p.batch)
        return Launch(grid, (i.threads, 1, 1), shared_bytes(i), dependent=True)
    if isinstance(i, PrepareInstance):
        return Launch((-(-p.batch // PREPARED_BY_ONE), 1, 1), (i.threads, 1, 1))
    grid = (s.multiprocessors, 1, 1)
    if i.scheduler is TileScheduler.SINGLE:
        grid = (row_tiles(i, s), heads(i, s) * s.splits.count, p.batch)
    cleared = (SEMAPHORE,) if i.scheduler in COUNTING else ()
    return Launch(grid, (i.threads, 1, 1), shared_bytes(i), cleared=cleared, cluster=i.a.cluster, dependent=s.overlaps)


def expect_exports(kernel: KernelSpec) -> Expected:
    """The exports that the kernel's cubin must have."""
    i = instance_of(kernel)
    if isinstance(i, PrepareInstance):
        facts = dict(zip(PREPARE_FACTS, (i.warps,), strict=True))
        return Expected(symbol=SYMBOL, block=block_of(i), facts=facts, threads=i.threads, shared_bytes=0)
    if isinstance(i, BackwardInstance | DotInstance | ConvertInstance):
        size, block = shared_bytes(i), block_of(i)
        return Expected(symbol=SYMBOL, block=block, facts=stated_facts(i), threads=i.threads, shared_bytes=size)
    combine = isinstance(i, CombineInstance)
    own = (1 << i.a.log_max_splits,) if isinstance(i, CombineInstance) else (i.hdim, i.hdim_v)
    names, numbers = COMBINE_FACTS if combine else FACTS, (*i.a.tile, *own, i.threads)
    return Expected(
        symbol=SYMBOL,
        block=block_of(i),
        facts=dict(zip(names, numbers, strict=True)),
        threads=i.threads,
        shared_bytes=shared_bytes(i),
    )
