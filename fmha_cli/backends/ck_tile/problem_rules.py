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

from fmha_cli.backends.ck_tile.api_conditions import API_CONDITIONS
from fmha_cli.backends.ck_tile.index_limits import WIDTHS
from fmha_cli.backends.ck_tile.kernel_rules import KERNEL_RULES
from fmha_cli.backends.ck_tile.preferences import ORDER_RULES
from fmha_cli.backends.ck_tile.revisions import NAME, revisions, serves
from fmha_cli.backends.ck_tile.situation import CkSituation, situation_of
from fmha_cli.backends.ck_tile.splits import MAX_SPLITS
from fmha_cli.backends.ck_tile.stages import STAGE_CONDITIONS
from fmha_cli.backends.gpu.conditions import Condition, next_multiple, refuse
from fmha_cli.backends.gpu.rule_rows import conditions, unchecked_rules
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


def _rotary_rows(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.rotary.dim or s.max_rows == p.append:
        return None
    text = f"rotary: queries start at the cache's end, so seqlen {s.max_rows} must equal append {p.append}"
    return Refusal(text, f"--append {s.max_rows}")


def _group_bias(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not s.group or p.batch == 1 or p.bias in (Bias.NONE, Bias.R111S, Bias.R1H1S):
        return None  # with a step of 0 between rows, there is none between sequences
    text = f"bias {p.bias.value} with packed sequences: the kernels read one bias row per packed query row"
    return Refusal(text, f"{unpacked(p)}, or --alibi")


def _dbias_rank(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    sizes = p.batch, p.heads, p.seqlen_q, 1
    if not p.dbias or p.bias.shape(*sizes) == sizes:
        return None
    text = f"dbias of a bias {p.bias.value}: the kernels write one plane per sequence and head and sum none of them"
    return Refusal(text, "--bias elementwise:bhss")


def _no_keys(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if s.max_keys:
        return None
    return Refusal("no key in any sequence: the backward grid would be empty", "--seqlen-k 1")


def _one_step(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if s.max_keys or s.group or algorithm_of(kernel).pad_sk or kernel.signature.mask is not MaskKey.NONE:
        return None
    text = "no keys: without a mask and padding the kernel reads one step of keys that do not exist"
    return Refusal(text, with_keys(s.problem, 1))


def _alibi_positions(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    longest = max(s.max_rows, s.max_keys)
    if s.problem.alibi is Alibi.NONE or longest <= ALIBI_END:
        return None
    text = f"ALiBi over {longest} positions: the kernels subtract positions in 16 bits"
    if s.group:
        return Refusal(text, f"sequences of at most {ALIBI_END}")
    return Refusal(text, f"--seqlen{'' if longest == s.max_rows else '-k'} {ALIBI_END} or less")


def _positive_scale(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    late = p.bias is Bias.NONE and p.alibi is Alibi.NONE and not p.softcap
    if p.scale > 0 or not late or not kernel.arch.startswith("gfx9"):
        return None
    text = f"scale {p.scale:g}: the kernels look for the largest score before they scale it"
    return Refusal(text, positive_scale(p))


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


LIMITS: tuple[Condition[CkSituation], ...] = conditions(
    NAME,
    {
        "K320": refuse(
            lambda s, k: s.problem.paged and s.problem.kv_cache.page % PAGE_STEP,
            lambda s, k: f"page size {s.problem.kv_cache.page} is not a multiple of {PAGE_STEP}",
            lambda s, k: f"--kv-cache paged:{next_multiple(s.problem.kv_cache.page, PAGE_STEP)}",
        ),
        "K321": refuse(
            lambda s, k: s.group and s.problem.kv_cache.kind is CacheKind.LINEAR,
            lambda s, k: (
                "packed queries with a linear cache: in group mode upstream finds keys by packed offsets or pages"
            ),
            lambda s, k: f"--kv-cache paged:{PAGE_STEP}, or {unpacked(s.problem)}",
        ),
        "K322": refuse(
            lambda s, k: s.group and (s.problem.append or s.problem.rotary.dim),
            lambda s, k: "append kernels exist for batch mode only",
            lambda s, k: unpacked(s.problem),
        ),
        "K323": refuse(
            lambda s, k: s.problem.rotary.dim % ROTARY_STEP,
            lambda s, k: f"rotary dim {s.problem.rotary.dim} is not a multiple of {ROTARY_STEP}",
            lambda s, k: with_rotary(s.problem, ROTARY_STEP),
        ),
        "K324": refuse(
            lambda s, k: s.problem.rotary.dim and s.problem.dtype not in (DType.FP16, DType.BF16),
            lambda s, k: f"rotary embedding is for fp16 and bf16, not {s.problem.dtype.value}",
            "--rotary 0, or --dtype bf16",
        ),
        "K325": _rotary_rows,
        "K326": refuse(
            lambda s, k: s.splits.count > MAX_SPLITS,
            lambda s, k: f"splits {s.splits.count}: the combine kernels hold at most {MAX_SPLITS}",
            f"--splits {MAX_SPLITS}",
        ),
        "K327": refuse(
            lambda s, k: s.problem.mask.kind is MaskKind.GENERIC,
            lambda s, k: f"mask {s.problem.mask.text()}: a window bound below 0 means unlimited to the kernels",
            lambda s, k: f"--mask window-tl:{s.problem.mask.bounds_text()}",
        ),
        "K331": _group_bias,
        "K332": _dbias_rank,
        "K333": refuse(
            lambda s, k: not s.max_rows,
            lambda s, k: "no query row in any sequence: the grid would be empty",
            "--backend cpu",
        ),
        "K335": _one_step,
        "K336": _alibi_positions,
        "K337": _positive_scale,
        "K338": _pages_before_window,
        "K334": _no_keys,
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
