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
RULES = plugin.rules_from(
    resources.files("fmha_triton").joinpath("rules.json").read_text("utf-8"),
    {
        "K960": _whole_vectors,
        "K961": _equal_head_dims,
        "K963": _grid,
        "K964": _offsets,
        "K965": _lengths,
        "K966": _main_stage,
        "K967": _descriptors,
        "K968": _release,
    },
)
"""Own rules. The core's K026 is left out: kernels for a linear cache start behind its left padding."""

ALL_RULES = (*plugin.LEFTPAD_CORE_RULES, *RULES)
