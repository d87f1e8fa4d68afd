"""K350-K355: which of the fitting kernels upstream's runner takes. These rules order kernels and refuse none.

Sources: ``codegen/ops/*.py`` (``seqtune``, ``skcheck`` of ``qr_async``, the constraints of the tile tables, the nesting
of the generated API files) and ``fmha_fwd_runner.hpp`` ``fmha_fwd_run`` (which API is called).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fmha_cli.backends.ck_tile.api_conditions import ASYNC, keys_divide
from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.ck_tile.situation import CkSituation
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.rule_rows import unchecked_rules
from fmha_cli.codegen.ck_tile.algorithm import Constraint, algorithm_of
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.rules import Rule

MIN_UTILISATION = 0.8
"""``min_cu_util_rate`` of the generated API."""
ONE_KEY_PAGES = 1
CAUSAL = (MaskKind.CAUSAL, MaskKind.CAUSAL_TL)
TUNED, CONSTRAINED, PADDED, FIRST_CASE, CALLED_API = "K350", "K351", "K352", "K353", "K354"
"""The rules that order kernels."""


@dataclass(frozen=True)
class CkApi:
    """The APIs that upstream would call for a problem, in order, and why; ``of_splits`` is the reason for the split count."""

    families: tuple[Family, ...]
    brief: str
    of_splits: str = ""

    @property
    def why(self) -> str:
        return f"{self.brief}; {self.of_splits}" if self.of_splits else self.brief


def api_for(s: CkSituation) -> CkApi:
    """The order of ``run_fwd`` in upstream's runner: paged prefill for one split, then split-KV; otherwise forward.

    Only batch prefill supports pages of one key. Aiter calls it; the runner does not.
    """
    p = s.problem
    if p.direction.backward:
        return CkApi((Family.BWD_DQ_DK_DV,), "backward")
    if p.paged and p.kv_cache.page == ONE_KEY_PAGES:
        return CkApi((Family.BATCH_PREFILL,), "pages of one key: batch prefill")
    splits, of = f"{s.splits.count} split{'' if s.splits.count == 1 else 's'}", s.splits.why
    if s.cached and s.splits.count == 1:
        brief = f"a KV cache and {splits}: paged prefill, else split-KV"
        return CkApi((Family.FWD_PAGEDKV, Family.FWD_SPLITKV), brief, of)
    if s.cached or s.splits.count > 1:
        return CkApi((Family.FWD_SPLITKV,), f"{'a KV cache and ' if s.cached else ''}{splits}: split-KV", of)
    return CkApi((Family.FWD,), f"no KV cache, {splits}: forward", of)


def find_unmet_condition(s: CkSituation, kernel: KernelSpec, largest_rows: int) -> str | None:
    """The condition under which upstream's API passes over a kernel that fits, or None if it takes the kernel.

    Args:
        largest_rows: the largest bm0 among the kernels of the same head-dim case.
    """
    checks = (_seqtune(s, kernel, largest_rows), _constraint(s, kernel), _needless_padding(s, kernel))
    return next((text for text in checks if text), None)


def _seqtune(s: CkSituation, kernel: KernelSpec, largest_rows: int) -> str | None:
    rows = algorithm_of(kernel).tile[0]
    if kernel.family is not Family.FWD or rows == largest_rows or s.rows <= rows:
        return None
    return f"{TUNED}: {s.rows} query rows, taken up to {rows}"


def _constraint(s: CkSituation, kernel: KernelSpec) -> str | None:
    constraint = algorithm_of(kernel).constraint
    if constraint is Constraint.NONE or _met(constraint, s):
        return None
    return f"{CONSTRAINED}: {constraint.value} does not hold ({s.counted})"


def _met(constraint: Constraint, s: CkSituation) -> bool:
    tests: dict[Constraint, Callable[[], bool]] = {
        Constraint.FEW_BLOCKS_128: lambda: s.blocks(128) < single(single(MIN_UTILISATION) * s.multiprocessors),
        Constraint.FEW_BLOCKS_64: lambda: s.blocks(64) <= s.multiprocessors,
        Constraint.SEQLEN_K_256: lambda: s.keys <= 256,
        Constraint.SEQLEN_Q_4096: lambda: s.max_rows < 4096,
        Constraint.SEQLEN_Q_2048: lambda: s.max_rows < 2048,
        Constraint.SEQLEN_Q_2048_OR_CAUSAL: lambda: s.max_rows < 2048 or s.problem.mask.kind in CAUSAL,
    }
    return tests[constraint]() if constraint in tests else False


def _needless_padding(s: CkSituation, kernel: KernelSpec) -> str | None:
    a = algorithm_of(kernel)
    if s.group or a.pipeline not in ASYNC or not a.pad_sk or not keys_divide(s, kernel):
        return None
    return f"{PADDED}: {s.keys} keys need no padding to {a.tile[1]}"


ORDER_RULES: tuple[Rule, ...] = unchecked_rules(NAME, (TUNED, CONSTRAINED, PADDED, FIRST_CASE, CALLED_API))
