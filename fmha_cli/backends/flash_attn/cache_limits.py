"""Rules K436-K445: pages, appended keys, rotary embedding, split keys and empty sequences."""

from __future__ import annotations

from fmha_cli.backends.flash_attn.citations import API, SRC
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.flash_attn.splits import MAX_SPLITS, keys_per_block
from fmha_cli.backends.gpu.conditions import BACKWARD, FORWARD, Condition, limit, next_multiple
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal, Severity
from fmha_cli.domain.signature import MaskKey

PAGE_STEP = 256
ROTARY_STEP = 16


def _append_rows(s: Situation, kernel: KernelSpec) -> Refusal | None:
    if not s.problem.append or s.seqlen_q <= s.seqlen_k:
        return None
    rows = f"{s.seqlen_q} heads of a group as rows" if s.swapped else f"seqlen {s.seqlen_q}"
    text = f"appending with {rows} and a cache of {s.seqlen_k} keys: upstream wants no more rows than keys"
    return Refusal(text, f"--cache-seqlens {s.seqlen_q - s.problem.append}")


def _append_window(s: Situation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.append or s.mask_key is not MaskKey.WINDOW or p.cache_seqlens is None:
        return None
    step = keys_per_block(p.hdim)
    firsts = ((held, (held + p.append - s.seqlen_q - s.mask.left) // step * step) for held in p.cache_seqlens)
    lost = [(held, first) for held, first in firsts if held < first]
    if not lost:
        return None
    text = f"appended keys {lost[0][0]} to {lost[0][1] - 1} lie before every row's window: no block would write them"
    return Refusal(text, f"--append {s.seqlen_q + s.mask.left} or less")


def _rotary_rows(s: Situation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.rotary.dim or p.mode is Mode.GROUP:
        return None
    if p.seqlen_q != p.append:
        text = f"rotary: queries start where the new keys do, so seqlen {p.seqlen_q} would have to be append {p.append}"
        return Refusal(text, f"--append {p.seqlen_q}")
    if p.seqlen_q > 1 and s.mask_key is MaskKey.NONE:
        text = f"rotary: without a mask all {p.seqlen_q} queries take the position of the first"
        return Refusal(text, "--mask causal, or --seqlen 1 --append 1", severity=Severity.KIND)
    return None


_KERNEL = f"{SRC}/flash_fwd_kernel.h compute_attn_1rowblock_splitkv"

CACHE_LIMITS: tuple[Condition[Situation], ...] = (
    limit(
        "K436",
        "page sizes are multiples of 256",
        lambda s, k: s.problem.paged and s.problem.kv_cache.page % PAGE_STEP,
        lambda s, k: f"page size {s.problem.kv_cache.page} is not a multiple of {PAGE_STEP}",
        lambda s, k: f"--kv-cache paged:{next_multiple(s.problem.kv_cache.page, PAGE_STEP)}",
        "A tile of up to 256 keys is loaded from one page.",
        f"{API} mha_fwd_kvcache: Paged KV cache block size must be divisible by 256",
        families=FORWARD,
        severity=Severity.SHAPE,
    ),
    limit(
        "K437",
        "appending needs batch mode",
        lambda s, k: s.problem.mode is Mode.GROUP and s.problem.append,
        lambda s, k: "appending with packed queries: mha_varlen_fwd takes no new keys",
        "--seqlen instead of --seqlens-q, or --append 0",
        "Only mha_fwd_kvcache appends, and it has no packed queries.",
        f"{API} mha_varlen_fwd",
        families=FORWARD,
    ),
    Condition(
        "K438",
        "appending: no more query rows than the cache has keys",
        _append_rows,
        "The check comes after heads of a group became rows, so it also meets one query with many heads a group.",
        f"{API} mha_fwd_kvcache: If key is supplied, it must have seqlen <= the seqlen of the KV cache",
        families=FORWARD,
        severity=Severity.SHAPE,
    ),
    Condition(
        "K439",
        "appending: a window reaches back to the first new key",
        _append_window,
        "A block copies the new keys that its own rows see. Those before every window would not reach the cache.",
        f"{_KERNEL}: n_block_copy_min",
        families=FORWARD,
        severity=Severity.SHAPE,
    ),
    limit(
        "K440",
        "the rotary dim is a multiple of 16",
        lambda s, k: s.problem.rotary.dim % ROTARY_STEP,
        lambda s, k: f"rotary dim {s.problem.rotary.dim} is not a multiple of {ROTARY_STEP}",
        lambda s, k: f"--rotary {next_multiple(s.problem.rotary.dim, ROTARY_STEP)}",
        "Loads of 16 bytes, of half a row.",
        f"{API} mha_fwd_kvcache: Only rotary dimensions divisible by 16 are currently supported",
        families=FORWARD,
        severity=Severity.SHAPE,
    ),
    Condition(
        "K441",
        "rotary: queries are at the positions of the new keys",
        _rotary_rows,
        "Under a mask row i is rotated for position cache + i, without one every row for position cache. Here queries "
        "take the last positions, which is the same when as many keys are appended, and causal or one row.",
        f"{_KERNEL}: row_offset_cossin",
        families=FORWARD,
        severity=Severity.SHAPE,
    ),
    limit(
        "K442",
        "at most 128 splits",
        lambda s, k: s.splits.count > MAX_SPLITS,
        lambda s, k: f"splits {s.splits.count}: FlashAttention-2 combines at most {MAX_SPLITS}",
        f"--splits {MAX_SPLITS}",
        "Combine kernels are compiled for up to 2, 4, 8, 16, 32, 64 and 128.",
        f"{API} set_params_splitkv: num_splits > 128 not supported",
        families=FORWARD,
        severity=Severity.OPTION,
    ),
    limit(
        "K443",
        "packed queries are not split",
        lambda s, k: s.problem.mode is Mode.GROUP and not s.swapped and s.problem.splits > 1,
        lambda s, k: (
            f"splits {s.problem.splits} with packed queries: the combine kernel finds a batch by a stride, not by offsets"
        ),
        "--splits 1, or --seqlen instead of --seqlens-q",
        "Only where heads of a group became the rows of one query each does upstream split packed sequences.",
        f"{API} mha_varlen_fwd: Only apply split-k for decoding; {SRC}/flash_fwd_kernel.h combine_attn_seqk_parallel",
        families=FORWARD,
        severity=Severity.OPTION,
    ),
    limit(
        "K444",
        "there are query rows",
        lambda s, k: not s.seqlen_q,
        lambda s, k: "no query row in any sequence: the grid would be empty",
        "--backend cpu",
        "A grid of 0 blocks is no launch. Backwards upstream's host writes zeros then.",
        f"{API} mha_varlen_fwd",
        families=FORWARD,
        severity=Severity.SHAPE,
    ),
    limit(
        "K445",
        "there are keys backwards",
        lambda s, k: s.seqlen_q and not s.seqlen_k and not s.problem.deterministic,
        lambda s, k: "no key in any sequence: the backward grid would be empty",
        "--seqlen-k 1",
        "Blocks are over keys, unless the pass is deterministic; then they are over multiprocessors.",
        f"{SRC}/flash_bwd_launch_template.h run_flash_bwd_seqk_parallel",
        families=BACKWARD,
        severity=Severity.SHAPE,
    ),
)
"""Conditions about caches, splits and empty sequences."""
