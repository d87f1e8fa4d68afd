"""The limits of the CPU kernels, in addition to the core rules."""

from __future__ import annotations

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import DECODE_ROWS
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Bias
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import (
    ANGLES_RULE,
    CACHE_ITEM_RULE,
    LEFTPAD_RULE,
    OWN_V_RULE,
    Refusal,
    Rule,
    Severity,
    core_rules,
)
from fmha_cli.domain.signature_hints import with_rows

_WORD = 2**32


def group_rows(problem: Problem) -> int:
    """Query rows that share one key/value head, in the longest sequence."""
    return max(problem.query_lengths(), default=0) * (problem.heads // problem.kv_heads)


def _offset(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    if not problem.dropout or problem.offset < _WORD:
        return None
    text = f"offset {problem.offset}: the dropout stream fmha holds 32 bits of offset"
    return Refusal(text, f"--offset {problem.offset % _WORD}")


def _decode_rows(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    rows = group_rows(problem)
    if algorithm_of(kernel).kind not in (LoopKind.DECODE, LoopKind.SPLIT) or rows <= DECODE_ROWS:
        return None
    text = f"{rows} query rows for each key/value head: a decode kernel holds {DECODE_ROWS}"
    fitting = DECODE_ROWS // (problem.heads // problem.kv_heads)
    return Refusal(
        text, with_rows(problem, fitting).replace(f" {fitting}", f" {fitting} or less", 1) if fitting else None
    )


def _narrow_bias(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    if problem.bias is Bias.NONE or problem.dtype is not DType.FP8_E5M2 or kernel.signature.dtype is not problem.dtype:
        return None
    return Refusal(
        "bias: beside fp8_e5m2 inputs it is fp8_e5m2 too, and kernels of 8-bit inputs read a bias in fp32",
        "--bias none",
    )


CPU_RULES: tuple[Rule, ...] = (
    *core_rules(LEFTPAD_RULE.id, OWN_V_RULE.id, ANGLES_RULE.id, CACHE_ITEM_RULE.id),
    Rule(
        "K102",
        "the dropout offset fits the stream's counter word",
        _offset,
        "Stream fmha uses one 32-bit word of the Philox counter for the offset.",
        "fmha_cli/codegen/cpu/src/vmath.h philox",
        severity=Severity.OPTION,
    ),
    Rule(
        "K103",
        "the query rows of a key/value head fit the decode kernel",
        _decode_rows,
        "Decode kernels keep all query rows of a key/value head side by side and stream K and V once.",
        "fmha_cli/codegen/cpu/emit.py DECODE_ROWS",
        severity=Severity.SHAPE,
    ),
    Rule(
        "K104",
        "the bias beside 8-bit inputs is fp32",
        _narrow_bias,
        "An elementwise bias has the type of fp8_e5m2 inputs, and is fp32 beside fp8_e4m3.",
        "fmha_cli/domain/dtypes.py DType.bias",
        severity=Severity.OPTION,
    ),
)
"""All rules of the backend, core rules first."""
