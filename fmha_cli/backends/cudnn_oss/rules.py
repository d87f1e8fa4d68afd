"""Rules K600-K614: the kernels, and what they need of a problem. Upstream's engines check head dim and device alone."""

from __future__ import annotations

from fmha_cli.backends.cuda.choosing import Found, told, told_conditions
from fmha_cli.backends.cuda.few import Few
from fmha_cli.backends.cuda.small import Asked
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.codegen.cudnn_oss.facts import NAME, facts_of, kernels
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import HDIM_RULE, SIGNATURE_RULE_IDS
from fmha_cli.domain.signature_hints import positive_scale

SMALLEST = 2.0**-126  # the smallest normal number; fast math takes smaller ones for 0


def tiles_of(p: Problem, kernel: KernelSpec) -> tuple[int, int]:
    """Tiles of rows: of one head, and of all."""
    each = -(-p.seqlen_q // facts_of(kernel).tile[0])
    return each, p.batch * p.heads * each


def _hdim(s: Asked, kernel: KernelSpec) -> Found:
    p, want = s.problem, kernel.signature.hdim
    return None if p.hdim == p.hdim_v == want else {"hdim": p.hdim, "hdim_v": p.hdim_v, "want": want}


def _mask(s: Asked, kernel: KernelSpec) -> Found:
    """Row i must see the keys up to key i, where there are as many keys as rows."""
    p = s.problem
    unbounded = p.mask.left is None or p.mask.left >= p.seqlen_q - 1
    square = p.mask.align is Align.TOP_LEFT or p.seqlen_q == p.seqlen_k
    return None if p.mask.right == 0 and unbounded and square else {"mask": p.mask.text()}


def _rows(s: Asked, kernel: KernelSpec) -> Found:
    p, tile = s.problem, facts_of(kernel).tile[0]
    whole = next_multiple(p.seqlen_q, tile)
    fits = p.seqlen_q == whole == p.seqlen_k
    return None if fits else {"rows": p.seqlen_q, "keys": p.seqlen_k, "tile": tile, "whole": whole}


def _scale(s: Asked, kernel: KernelSpec) -> Found:
    return told(single(s.problem.scale) < SMALLEST, scale=s.problem.scale, hint=positive_scale(s.problem))


def _counts(s: Asked, kernel: KernelSpec) -> Found:
    tiles, groups = tiles_of(s.problem, kernel)[1], s.problem.heads // s.problem.kv_heads
    return None if tiles < 2**31 and groups < 2**16 else {"tiles": tiles, "groups": groups}


FINDERS = {"K610": _hdim, "K611": _mask, "K612": _rows, "K613": _scale, "K614": _counts}
IDS, REPLACED = ("K600", "K601", "K602"), (SIGNATURE_RULE_IDS["mask"], HDIM_RULE.id)
FEW = Few(NAME, lambda arch: kernels(arch.name), IDS, Asked, told_conditions(NAME, FINDERS), REPLACED)
