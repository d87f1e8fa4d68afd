"""The plan of a main kernel: its stages with their grids, and the workspaces."""

from __future__ import annotations

from fmha_cli import api, plugin
from fmha_triton.catalogue import BLACKWELL, TENSOR_COLUMNS, algorithm_of, function_of, kernels_of, tensor_columns
from fmha_triton.choices import Choice, choice
from fmha_triton.inspected import row_of

_MOST_SPLITS = 64
_FLOAT = 4


def splits_of(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> int:
    """Number of parts of the keys: the user's, or enough programs to fill the device twice."""
    if kernel.family is not plugin.Family.FWD_SPLITKV:
        return 1
    if problem.splits > 1:
        return problem.splits
    algorithm = algorithm_of(kernel)
    rows = -(-problem.seqlen_q * (problem.heads // problem.kv_heads) // algorithm.block_m)
    programs = max(1, rows * problem.kv_heads * problem.batch)
    blocks = max(1, -(-problem.seqlen_k // algorithm.block_n))
    return max(1, min(2 * max(1, device.units) // programs, blocks, _MOST_SPLITS, 65535 // problem.kv_heads))


Grid = tuple[int, int, int]
"""CTAs along x, y and z."""


def key_blocks(problem: api.Problem, kernel: api.KernelSpec) -> int:
    """Programs of a backward kernel that compute dK and dV."""
    return -(-problem.seqlen_k // algorithm_of(kernel).block_n)


def tiles_of(problem: api.Problem, kernel: api.KernelSpec) -> int:
    """Tiles of rows of all heads and sequences."""
    return -(-problem.seqlen_q // algorithm_of(kernel).block_m) * problem.heads * problem.batch


def upstream_choice(problem: api.Problem, kernel: api.KernelSpec) -> Choice | None:
    """The configuration that upstream's example takes for a problem that a kernel serves."""
    s = kernel.signature
    if s.hdim_v != s.hdim:
        return None  # the example has one head dim
    causal = s.mask is plugin.MaskKey.CAUSAL
    return choice(kernel.arch, s.dtype, s.hdim, causal=causal, length=problem.seqlen_q)


def ctas_of(problem: api.Problem, kernel: api.KernelSpec) -> int:
    """CTAs of a cluster as upstream takes them."""
    found = upstream_choice(problem, kernel)
    return found.num_ctas if found else 1


def heads_in_turn(problem: api.Problem, kernel: api.KernelSpec) -> int:
    """Heads whose tiles a persistent kernel takes in turn: as many as upstream takes, or the next divisor of all heads below."""
    found = upstream_choice(problem, kernel)
    heads = problem.heads * problem.batch
    return next(n for n in range(found.heads_in_turn if found else 1, 0, -1) if heads % n == 0)


def grid_of(problem: api.Problem, kernel: api.KernelSpec, splits: int, units: int) -> Grid:
    """The grid of a stage on a device with so many multiprocessors, which a persistent kernel fills once.

    A cluster is one program; the grid counts its CTAs.
    """
    if function_of(kernel) == BLACKWELL:
        ctas = algorithm_of(kernel).num_ctas
        return min(max(1, units // ctas), tiles_of(problem, kernel)) * ctas, 1, 1
    block = algorithm_of(kernel).block_m
    blocks = -(-problem.seqlen_q // block)
    if kernel.family is plugin.Family.FWD_SPLITKV:
        packed = -(-problem.seqlen_q * (problem.heads // problem.kv_heads) // block)
        return packed, problem.kv_heads * splits, problem.batch
    if kernel.family is plugin.Family.BWD_DQ_DK_DV:
        return key_blocks(problem, kernel) + blocks, problem.heads, problem.batch
    return blocks, problem.heads, problem.batch


def plan_of(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Plan:
    """The stages around a main kernel of one direction."""
    splits = splits_of(problem, kernel, device)
    rows = problem.batch * problem.heads * problem.seqlen_q
    kernels, spaces = [kernel], []
    if kernel.family is plugin.Family.FWD_SPLITKV:
        kernels.append(_stage_kernel(problem, kernel, plugin.Family.FWD_SPLITKV_COMBINE))
        spaces = [
            plugin.Workspace("partial_o", splits * rows * problem.hdim_v * _FLOAT),
            plugin.Workspace("partial_lse", splits * rows * _FLOAT),
        ]
    elif kernel.family is plugin.Family.BWD_DQ_DK_DV:
        kernels.insert(0, _stage_kernel(problem, kernel, plugin.Family.BWD_DOT_DO_O))
        spaces = [plugin.Workspace("sums", rows * _FLOAT)]
    stages = tuple(plugin.Stage(k, _detail(problem, k, splits, device.units)) for k in kernels)
    return plugin.Plan(problem, stages, tuple(spaces), splits)


def _stage_kernel(problem: api.Problem, main: api.KernelSpec, family: plugin.Family) -> api.KernelSpec:
    """The stage kernel with the main kernel's output type, head dim and, where there are both forms, padding."""
    pad = family is plugin.Family.FWD_SPLITKV_COMBINE or algorithm_of(main).pad
    return next(
        k
        for k in kernels_of(main.arch)
        if k.family is family
        and k.signature.dtype is main.signature.dtype_out
        and k.signature.hdim == main.signature.hdim
        and algorithm_of(k).pad is pad
    )


def _detail(problem: api.Problem, kernel: api.KernelSpec, splits: int, units: int) -> tuple[tuple[str, str], ...]:
    grid = " x ".join(str(n) for n in grid_of(problem, kernel, splits, units))
    parts = (("splits", str(splits)),) if kernel.family is plugin.Family.FWD_SPLITKV else ()
    return (("grid", grid), *parts, *(_blackwell_detail(kernel) if function_of(kernel) == BLACKWELL else ()))


def _blackwell_detail(kernel: api.KernelSpec) -> tuple[tuple[str, str], ...]:
    """The share of a multiprocessor that a kernel with tensor memory takes. The shared memory is that of the kernel
    that was inspected.
    """
    ctas, columns = algorithm_of(kernel).num_ctas, tensor_columns(kernel, kernel.signature.hdim_v)
    shared = row_of(kernel).get("shared_bytes")
    return (
        ("cluster", f"{ctas} CTA{'s' if ctas > 1 else ''}"),
        ("shared memory", "not inspected" if shared is None else f"{shared} bytes"),
        ("tensor memory", f"{columns} of {TENSOR_COLUMNS} columns"),
    )
