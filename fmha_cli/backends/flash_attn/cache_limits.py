"""Rules K436-K445 and K447: pages, appended keys, rotary embedding, split keys and empty sequences."""

from __future__ import annotations

from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation
from fmha_cli.backends.flash_attn.tiles import split_traits
from fmha_cli.backends.gpu.conditions import Condition, next_multiple, refuse
from fmha_cli.backends.gpu.rule_rows import conditions
from fmha_cli.codegen.flash_attn.traits import MAX_SPLITS
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal, Severity
from fmha_cli.domain.signature import MaskKey
from fmha_cli.domain.signature_hints import unpacked, with_rotary

PAGE_STEP = 256
ROTARY_STEP = 16


def _append_rows(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    if not s.problem.append or s.seqlen_q <= s.seqlen_k:
        return None
    rows = f"{s.seqlen_q} heads of a group as rows" if s.swapped else f"seqlen {s.seqlen_q}"
    text = f"appending with {rows} and a cache of {s.seqlen_k} keys: upstream allows no more rows than keys"
    return Refusal(text, f"--cache-seqlens {s.seqlen_q - s.problem.append}")


def _append_window(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.append or s.mask_key is not MaskKey.WINDOW or p.cache_seqlens is None:
        return None
    step = split_traits(p.hdim).tile[1]
    firsts = ((held, (held + p.append - s.seqlen_q - s.mask.left) // step * step) for held in p.cache_seqlens)
    lost = [(held, first) for held, first in firsts if held < first]
    if not lost:
        return None
    text = f"appended keys {lost[0][0]} to {lost[0][1] - 1} are before every row's window, so no block would write them"
    return Refusal(text, f"--append {s.seqlen_q + s.mask.left} or less")


def _rotary_rows(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.rotary.dim or p.mode is Mode.GROUP:
        return None
    if p.seqlen_q != p.append:
        text = f"rotary: queries start where the new keys do, so seqlen {p.seqlen_q} must equal append {p.append}"
        return Refusal(text, f"--append {p.seqlen_q}")
    if p.seqlen_q > 1 and s.mask_key is MaskKey.NONE:
        text = f"rotary: without a mask all {p.seqlen_q} queries take the position of the first"
        return Refusal(text, "--mask causal, or --seqlen 1 and --append 1", severity=Severity.KIND)
    return None


CACHE_LIMITS: tuple[Condition[FlashSituation], ...] = conditions(
    NAME,
    {
        "K436": refuse(
            lambda s, k: s.problem.paged and s.problem.kv_cache.page % PAGE_STEP,
            lambda s, k: f"page size {s.problem.kv_cache.page} is not a multiple of {PAGE_STEP}",
            lambda s, k: f"--kv-cache paged:{next_multiple(s.problem.kv_cache.page, PAGE_STEP)}",
        ),
        "K437": refuse(
            lambda s, k: s.problem.mode is Mode.GROUP and s.problem.append,
            lambda s, k: "appending with packed queries: mha_varlen_fwd takes no new keys",
            lambda s, k: f"{unpacked(s.problem)}, or --append 0",
        ),
        "K438": _append_rows,
        "K439": _append_window,
        "K440": refuse(
            lambda s, k: s.problem.rotary.dim % ROTARY_STEP,
            lambda s, k: f"rotary dim {s.problem.rotary.dim} is not a multiple of {ROTARY_STEP}",
            lambda s, k: with_rotary(s.problem, ROTARY_STEP),
        ),
        "K441": _rotary_rows,
        "K442": refuse(
            lambda s, k: s.splits.count > MAX_SPLITS,
            lambda s, k: f"splits {s.splits.count}: FlashAttention-2 combines at most {MAX_SPLITS}",
            f"--splits {MAX_SPLITS}",
        ),
        "K443": refuse(
            lambda s, k: s.problem.mode is Mode.GROUP and not s.swapped and s.problem.splits > 1,
            lambda s, k: (
                f"splits {s.problem.splits} with packed queries: the combine kernel finds a batch by a stride, not by offsets"
            ),
            lambda s, k: f"--splits 1, or {unpacked(s.problem)}",
        ),
        "K444": refuse(
            lambda s, k: not s.seqlen_q,
            lambda s, k: "no query row in any sequence: the grid would be empty",
            "--backend cpu",
        ),
        "K445": refuse(
            lambda s, k: s.seqlen_q and not s.seqlen_k and not s.problem.deterministic,
            lambda s, k: "no key in any sequence: the backward grid would be empty",
            "--seqlen-k 1",
        ),
        "K447": refuse(
            lambda s, k: s.problem.mode is Mode.GROUP and s.problem.cache_batch_idx,
            lambda s, k: "cache-batch-idx with packed queries: mha_varlen_fwd takes no index of the cache",
            lambda s, k: f"{unpacked(s.problem)}, or drop --cache-batch-idx",
        ),
    },
)
"""Conditions about caches, splits and empty sequences."""
