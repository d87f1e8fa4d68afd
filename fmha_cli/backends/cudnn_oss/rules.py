"""Rules K600-K614: the kernels, and their needs of a problem. Upstream's engines check head dim and device alone."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.cuda.capability import refused_by_compiler
from fmha_cli.backends.gpu.arithmetic import SMALLEST_NORMAL, single
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.backends.gpu.few import Few
from fmha_cli.backends.gpu.index import SmallSituation
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together
from fmha_cli.codegen.cudnn_oss.facts import NAME, facts_of, kernels
from fmha_cli.domain.features import CacheKind
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import HDIM_RULE, SIGNATURE_RULE_IDS
from fmha_cli.domain.signature_hints import positive_scale, with_rows


def tiles_of(p: Problem, kernel: KernelSpec) -> tuple[int, int]:
    """Tiles of rows: of one head, and of all."""
    each = -(-p.seqlen_q // facts_of(kernel).tile[0])
    return each, p.batch * p.heads * each


def _findings(s: SmallSituation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    p, want, tile = s.problem, kernel.signature.hdim, facts_of(kernel).tile[0]
    yield "K610", refuse_if(not p.hdim == p.hdim_v == want, hdim=p.hdim, hdim_v=p.hdim_v, want=want)
    # Row i must see the keys up to key i, where there are as many keys as rows.
    unbounded = p.mask.left is None or p.mask.left >= p.seqlen_q - 1
    square = p.mask.align is Align.TOP_LEFT or p.seqlen_q == p.seqlen_k
    yield "K611", refuse_if(p.mask.right != 0 or not unbounded or not square, mask=p.mask.text())
    whole = next_multiple(p.seqlen_q, tile)
    uneven = not p.seqlen_q == whole == p.seqlen_k
    lengths = f"{with_rows(p, whole)} and --seqlen-k {whole}"
    lengths += "" if p.kv_cache.kind is CacheKind.NONE else " and --kv-cache none"
    yield "K612", refuse_if(uneven, rows=p.seqlen_q, keys=p.seqlen_k, tile=tile, hint=lengths)
    yield "K613", refuse_if(single(p.scale) < SMALLEST_NORMAL, scale=p.scale, hint=positive_scale(p))
    tiles, groups = tiles_of(p, kernel)[1], p.heads // p.kv_heads
    yield "K614", refuse_if(tiles >= 2**31 or groups >= 2**16, tiles=tiles, groups=groups)


CONDITIONS = conditions(NAME, together([f"K{number}" for number in range(610, 615)], _findings))
IDS, REPLACED = ("K600", "K602"), (SIGNATURE_RULE_IDS["mask"], HDIM_RULE.id)
MORE = {"K601": refused_by_compiler}
FEW = Few(NAME, lambda arch: kernels(arch.name), IDS, SmallSituation, CONDITIONS, REPLACED, more=MORE)
