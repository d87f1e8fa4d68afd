"""The rules of this backend, K960-K968, behind those of the core."""

from __future__ import annotations

import json
from importlib import resources

from fmha_cli import api, plugin
from fmha_triton.algorithm import Language
from fmha_triton.catalogue import BLACKWELL, TENSOR_COLUMNS, algorithm_of, function_of, tensor_columns

_AXIS = 65535
_LENGTH = 1 << 29
_OFFSET = 1 << 30
MAIN = (plugin.Family.FWD, plugin.Family.FWD_SPLITKV, plugin.Family.BWD_DQ_DK_DV)


def _whole_vectors(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    step = 128 // problem.dtype.bits
    odd = {flag: n for flag, n in (("--hdim", problem.hdim), ("--hdim-v", problem.hdim_v)) if n % step}
    if not odd:
        return None
    text = f"{' and '.join(f'{flag} {n}' for flag, n in odd.items())}: rows are loaded in vectors of {step} elements"
    if problem.hdim == problem.hdim_v:
        odd = {"--hdim": problem.hdim}  # the other one follows
    return plugin.Refusal(text, " and ".join(f"{flag} {-(-n // step) * step}" for flag, n in odd.items()))


def _equal_head_dims(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    own, own_v = kernel.signature.hdim, kernel.signature.hdim_v
    if algorithm_of(kernel).pad or (problem.hdim, problem.hdim_v) == (own, own_v):
        return None
    exactly = f"{own}" if own == own_v else f"{own} and, of V, {own_v}"
    text = f"the kernel is compiled for head dims of exactly {exactly}, without padding"
    if algorithm_of(kernel).language is Language.GLUON and function_of(kernel) == BLACKWELL:
        columns = tensor_columns(kernel, problem.hdim_v)
        if columns > TENSOR_COLUMNS:
            text += f"; {problem.hdim_v} would need {columns} columns of tensor memory, of {TENSOR_COLUMNS}"
    return plugin.Refusal(text, f"--hdim {own}" + ("" if own == own_v else f" --hdim-v {own_v}"))


def _grid(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    along_y = problem.kv_heads * problem.splits if kernel.family is plugin.Family.FWD_SPLITKV else problem.heads
    over = [f"{n} {what}" for n, what in ((along_y, "heads"), (problem.batch, "sequences")) if n > _AXIS]
    return plugin.Refusal(f"{' and '.join(over)}: an axis of the grid holds {_AXIS} blocks") if over else None


def _offsets(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    algorithm = algorithm_of(kernel)
    reach = max(algorithm.block_m, algorithm.block_n) * problem.heads * max(problem.hdim, problem.hdim_v)
    if reach < _OFFSET:
        return None
    return plugin.Refusal(f"a tile of rows spans {reach} elements; offsets inside a tile have 32 bits", "--layout bhsd")


def _lengths(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    longest = max(problem.seqlen_q, problem.seqlen_k)
    if longest < _LENGTH:
        return None
    return plugin.Refusal(f"{longest} rows: positions and bounds of the mask have 30 bits", f"-s {_LENGTH - 1}")


def _main_stage(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if kernel.family in MAIN:
        return None
    return plugin.Refusal(f"{kernel.family.value} is a stage of a plan; it computes no attention alone")


def _descriptors(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if algorithm_of(kernel).language is not Language.GLUON or (problem.seqlen_q and problem.seqlen_k):
        return None
    return plugin.Refusal("a TMA descriptor has no axis of length 0", "-s 1", plugin.Severity.SHAPE)


def _release(problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    cases = {"gluon": algorithm_of(kernel).language is Language.GLUON}
    return plugin.release_refusal("triton", RELEASES["facts"], cases)


RELEASES = json.loads(resources.files("fmha_triton").joinpath("releases.json").read_text("utf-8"))
"""The releases that were tried, and the differences of older ones from today's."""
RULES: tuple[plugin.Rule, ...] = (
    plugin.Rule(
        "K960",
        "head dims are whole vectors of 16 bytes",
        _whole_vectors,
        "Rows are loaded and stored in vectors of 16 bytes, and the compiler is told that strides are multiples of them. "
        "Head dims are multiples of 8 elements, of 16 with fp8.",
        "plugins/fmha-triton/src/fmha_triton/emit.py divisible",
        plugin.Severity.SHAPE,
    ),
    plugin.Rule(
        "K961",
        "a kernel without padding serves its own head dim alone",
        _equal_head_dims,
        "Kernels whose algorithm says pad=0 load whole rows without a comparison. Those with tensor memory have two tiles of "
        "scores and two of O in its 512 columns.",
        "plugins/fmha-triton/src/fmha_triton/kernels/common.py loaded_rows",
        plugin.Severity.SHAPE,
        reads=("arch", "signature.hdim", "signature.hdim_v", "algorithm.pad", "algorithm.language"),
    ),
    plugin.Rule(
        "K963",
        "heads and sequences fit the axes of the grid",
        _grid,
        "Heads (of a split kernel: key/value heads times splits) are along y of the grid, sequences along z.",
        "CUDA C++ Programming Guide, compute capabilities: maximum y- or z-dimension of a grid",
        plugin.Severity.SHAPE,
        reads=("family",),
    ),
    plugin.Rule(
        "K964",
        "the offsets inside a tile fit 32 bits",
        _offsets,
        "The address of a tile has 64 bits; offsets inside it have 32, which lets AMD's compiler use buffer instructions.",
        "plugins/fmha-triton/src/fmha_triton/kernels/common.py tile",
        plugin.Severity.SHAPE,
        reads=("algorithm.block_m", "algorithm.block_n"),
    ),
    plugin.Rule(
        "K965",
        "lengths have less than 30 bits",
        _lengths,
        "An unlimited bound of the mask is 2^30, to which positions are added in 32 bits.",
        "plugins/fmha-triton/src/fmha_triton/arguments.py",
        plugin.Severity.SHAPE,
    ),
    plugin.Rule(
        "K966",
        "the kernel is a main stage",
        _main_stage,
        "Combine and dot_do_o run beside a main kernel, which the plan chooses them for.",
        "plugins/fmha-triton/src/fmha_triton/plan.py",
        reads=("family",),
    ),
    plugin.Rule(
        "K967",
        "tensors that TMA copies are not empty",
        _descriptors,
        "The kernels in Gluon read Q, K and V and write O through TMA descriptors, whose axes have at least one element.",
        "CUDA Driver API, cuTensorMapEncodeTiled: globalDim",
        plugin.Severity.SHAPE,
        reads=("algorithm.language",),
    ),
    plugin.Rule(
        "K968",
        "the installed Triton compiles the kernel",
        _release,
        "Triton before 3.8 has other names for what the kernels in Gluon call. Those in Triton's language compile from 3.6.",
        "plugins/fmha-triton/src/fmha_triton/releases.json",
        plugin.Severity.OPTION,
        reads=("algorithm.language",),
    ),
)
"""Own rules. The core's K026 is left out: kernels for a linear cache start behind its left padding."""

ALL_RULES = (*plugin.LEFTPAD_CORE_RULES, *RULES)
