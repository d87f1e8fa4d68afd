"""Rules K436-K445 and K447: pages, appended keys, rotary embedding, split keys and empty sequences."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation
from fmha_cli.backends.flash_attn.tiles import split_traits
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together
from fmha_cli.codegen.flash_attn.traits import MAX_SPLITS
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal, Severity
from fmha_cli.domain.signature import MaskKey
from fmha_cli.domain.signature_hints import unpacked, with_rotary

PAGE_STEP = 256
ROTARY_STEP = 16


def _findings(s: FlashSituation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    p, page, group = s.problem, s.problem.kv_cache.page, s.problem.mode is Mode.GROUP
    yield (
        "K436",
        refuse_if(p.paged and page % PAGE_STEP, page=page, step=PAGE_STEP, next=next_multiple(page, PAGE_STEP)),
    )
    apart = unpacked(p) if group else ""
    yield "K437", refuse_if(group and p.append, apart=apart)
    rows = f"{s.seqlen_q} heads of a group as rows" if s.swapped else f"seqlen {s.seqlen_q}"
    many = p.append and s.seqlen_q > s.seqlen_k
    yield "K438", refuse_if(many, rows=rows, keys=s.seqlen_k, held=s.seqlen_q - p.append)
    lost = _lost_keys(s)
    yield "K439", lost and {"first": lost[0], "last": lost[1] - 1, "most": s.seqlen_q + s.mask.left}
    dim = p.rotary.dim
    yield "K440", refuse_if(dim % ROTARY_STEP, dim=dim, step=ROTARY_STEP, help=with_rotary(p, ROTARY_STEP))
    yield "K441", _rotary_rows(s) if dim and not group else None
    yield "K442", refuse_if(s.splits.count > MAX_SPLITS, splits=s.splits.count, most=MAX_SPLITS)
    yield "K443", refuse_if(group and not s.swapped and p.splits > 1, splits=p.splits, apart=apart)
    yield "K444", refuse_if(not s.seqlen_q)
    yield "K445", refuse_if(s.seqlen_q and not s.seqlen_k and not p.deterministic)
    yield "K447", refuse_if(group and p.cache_batch_idx, apart=apart)


def _lost_keys(s: FlashSituation) -> tuple[int, int] | None:
    """Appended keys before every row's window, from the first to the end, of the first sequence that has such keys."""
    p = s.problem
    if not p.append or s.mask_key is not MaskKey.WINDOW or p.cache_seqlens is None:
        return None
    step = split_traits(p.hdim).tile[1]
    firsts = ((held, (held + p.append - s.seqlen_q - s.mask.left) // step * step) for held in p.cache_seqlens)
    return next(((held, first) for held, first in firsts if held < first), None)


def _rotary_rows(s: FlashSituation) -> Refusal | None:
    p = s.problem
    if p.seqlen_q != p.append:
        text = f"rotary: queries start where the new keys do, so seqlen {p.seqlen_q} must equal append {p.append}"
        return Refusal(text, f"--append {p.seqlen_q}")
    if p.seqlen_q > 1 and s.mask_key is MaskKey.NONE:
        text = f"rotary: without a mask all {p.seqlen_q} queries take the position of the first"
        return Refusal(text, "--mask causal, or --seqlen 1 and --append 1", severity=Severity.KIND)
    return None


CACHE_LIMITS = conditions(NAME, together([f"K{number}" for number in (*range(436, 446), 447)], _findings))
"""Conditions about caches, splits and empty sequences."""
