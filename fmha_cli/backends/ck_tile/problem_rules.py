"""CK-Tile's rules K300-K399 in one table: the requirements of a kernel on a problem.

- K300-K309: upstream's generated conditions
- K310-K319: stages
- K320-K339: limits: problems that upstream's runners refuse or that the kernels cannot express. Sources:
  ``example/ck_tile/01_fmha/fmha_fwd_runner.hpp``, ``fmha_bwd_runner.hpp`` and
  ``include/ck_tile/ops/fmha/kernel/*.hpp`` (baseline)
- K350-K359: order (which of several fitting kernels upstream takes); these refuse nothing
- K390: no kernels at all
"""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.ck_tile.api_conditions import API_CONDITIONS
from fmha_cli.backends.ck_tile.index_limits import WIDTHS
from fmha_cli.backends.ck_tile.kernel_rules import KERNEL_RULES
from fmha_cli.backends.ck_tile.preferences import ORDER_RULES
from fmha_cli.backends.ck_tile.revisions import NAME, revisions, serves
from fmha_cli.backends.ck_tile.situation import CkSituation, situation_of
from fmha_cli.backends.ck_tile.splits import MAX_SPLITS
from fmha_cli.backends.ck_tile.stages import STAGE_CONDITIONS
from fmha_cli.backends.gpu.conditions import Condition, next_multiple
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together, unchecked_rules
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Alibi, Bias, CacheKind
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.rules import ANGLES_RULE, CACHE_ITEM_RULE, Reason, Refusal, Rule, Severity, core_rules
from fmha_cli.domain.signature import MaskKey
from fmha_cli.domain.signature_hints import positive_scale, unpacked, with_keys, with_rotary

PAGE_STEP = 128
"""Page sizes are multiples of this in the runner and in flash-attention. It is the longest key tile, and a tile must
be within one page."""
ROTARY_STEP = 16
ALIBI_END = 1 << 16


def _findings(s: CkSituation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    """They read nothing of a kernel."""
    p, page, cache = s.problem, s.problem.kv_cache.page, s.problem.kv_cache.kind
    apart = unpacked(p) if s.group else ""
    yield (
        "K320",
        refuse_if(p.paged and page % PAGE_STEP, page=page, step=PAGE_STEP, next=next_multiple(page, PAGE_STEP)),
    )
    yield "K321", refuse_if(s.group and cache is CacheKind.LINEAR, step=PAGE_STEP, apart=apart)
    dim, dtype = p.rotary.dim, p.dtype.value
    yield "K322", refuse_if(s.group and (p.append or dim), apart=apart)
    yield "K323", refuse_if(dim % ROTARY_STEP, dim=dim, step=ROTARY_STEP, help=with_rotary(p, ROTARY_STEP))
    yield "K324", refuse_if(dim and p.dtype not in (DType.FP16, DType.BF16), dtype=dtype)
    yield "K325", refuse_if(dim and s.max_rows != p.append, rows=s.max_rows, append=p.append)
    yield "K326", refuse_if(s.splits.count > MAX_SPLITS, splits=s.splits.count, most=MAX_SPLITS)
    yield "K327", refuse_if(p.mask.kind is MaskKind.GENERIC, mask=p.mask.text(), bounds=p.mask.bounds_text())
    alone = p.batch == 1 or p.bias in (
        Bias.NONE,
        Bias.R111S,
        Bias.R1H1S,
    )  # a step of 0 between rows is 0 between sequences
    yield "K331", refuse_if(s.group and not alone, bias=p.bias.value, apart=apart)
    sizes = p.batch, p.heads, p.seqlen_q, 1
    yield "K332", refuse_if(p.dbias and p.bias.shape(*sizes) != sizes, bias=p.bias.value)
    yield "K333", refuse_if(not s.max_rows)


def _one_step(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if s.max_keys or s.group or algorithm_of(kernel).pad_sk or kernel.signature.mask is not MaskKey.NONE:
        return None
    text = "no keys: without a mask and padding the kernel reads one step of keys that do not exist"
    return Refusal(text, with_keys(s.problem, 1))


def _alibi_positions(s: CkSituation, kernel: KernelSpec) -> Found:
    longest = max(s.max_rows, s.max_keys)
    help = f"--seqlen{'' if longest == s.max_rows else '-k'} {ALIBI_END} or less"
    help = f"sequences of at most {ALIBI_END}" if s.group else help
    return refuse_if(s.problem.alibi is not Alibi.NONE and longest > ALIBI_END, positions=longest, help=help)


def _positive_scale(s: CkSituation, kernel: KernelSpec) -> Found:
    p = s.problem
    late = p.bias is Bias.NONE and p.alibi is Alibi.NONE and not p.softcap and kernel.arch.startswith("gfx9")
    return refuse_if(p.scale <= 0 and late, scale=p.scale, help=positive_scale(p))


def _pages_before_window(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    p, (bm0, bn0) = s.problem, algorithm_of(kernel).tile[:2]
    if p.mask.left is None:
        return None
    for rows, keys in zip(p.query_lengths(), p.key_lengths(), strict=True):
        first_row = max(rows - 1, 0) // bm0 * bm0
        if first_row + p.mask.delta(rows, keys) - p.mask.left >= bn0:
            text = f"mask {p.mask.text()}: the window begins after key {bn0}, but the kernel looks up its pages from key 0 on"
            return Refusal(text, "--causal")
    return None


LIMITS = conditions(
    NAME,
    {
        **together([f"K{number}" for number in (*range(320, 328), *range(331, 334))], _findings),
        "K335": _one_step,
        "K336": _alibi_positions,
        "K337": _positive_scale,
        "K338": _pages_before_window,
        "K334": lambda s, kernel: refuse_if(not s.max_keys),
    },
)


NO_KERNELS = "K390"
SHARED_RULES = core_rules(ANGLES_RULE.id, CACHE_ITEM_RULE.id)
"""The core's rules that apply to this backend."""
CONDITIONS: tuple[Condition[CkSituation], ...] = (*API_CONDITIONS, *STAGE_CONDITIONS, *LIMITS, *WIDTHS)


def no_kernels(revision: str, device: DeviceFacts) -> Reason:
    """The Reason for a device for which a revision has no kernels. Its help names the first revision that has some."""
    text = f"the {revision} revision of CK has no kernels for {', '.join(device.archs) or 'this device'}"
    having = next((r.name for r in revisions() if any(serves(load_arch(arch), r.name) for arch in device.archs)), None)
    other = f"--ck-rev {having} (to explain, not to build), or " if having else ""
    return Reason(NO_KERNELS, text, f"{other}--backend cpu", Severity.PLACE)


_EXISTENCE = unchecked_rules(NAME, (NO_KERNELS,))
PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule(situation_of) for c in CONDITIONS), *ORDER_RULES, *_EXISTENCE)


def rules() -> tuple[Rule, ...]:
    """All rules, in the order in which they are shown."""
    return (*SHARED_RULES, *KERNEL_RULES, *PROBLEM_RULES)
