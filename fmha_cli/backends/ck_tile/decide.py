"""Which kernels serve a problem, in upstream's order, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.kernel_rules import answers_to, target_rules
from fmha_cli.backends.ck_tile.preferences import CALLED_API, FIRST_CASE, CkApi, api_for, find_unmet_condition
from fmha_cli.backends.ck_tile.problem_rules import CONDITIONS, SHARED_RULES, no_kernels
from fmha_cli.backends.ck_tile.revisions import BASELINE, NAME
from fmha_cli.backends.ck_tile.situation import CkSituation, situation_of
from fmha_cli.backends.gpu.conditions import BACKWARD, FORWARD, KernelRule, conditions_for
from fmha_cli.backends.gpu.index import (
    Case,
    FamilyIndex,
    IndexedKernel,
    Question,
    case_of,
    core_question,
    decisions,
    families_for,
    index_of,
)
from fmha_cli.backends.gpu.known_bad import noted
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Signature

_STAND_INS = (DType.BF16, DType.FP16, DType.FP32, DType.FP8_E4M3, DType.FP8_E5M2, DType.MXFP8, DType.MXFP4)
"""The dtypes to try if a dtype has no kernel, most likely first: bf16 keeps the range of fp32."""


def decide(problem: Problem, device: DeviceFacts, revision: str = BASELINE) -> Iterable[Decision]:
    """Decide on every main-stage kernel of the device's architecture for the problem's direction.

    Refused kernels are ordered by how near their case is. Among equally near misses, the first is the one of the API
    that upstream calls, of the next larger head dim, or of the likeliest other dtype.

    ``rank`` is (0 if upstream's runner would take the kernel and 1 otherwise, place of the API, place in the API's
    chain). The best kernel is therefore upstream's first match whenever upstream has one.

    Args:
        revision: whose kernels are candidates. The rules about problems are those of the baseline's host code.
    """
    s = situation_of(problem, device)
    api = api_for(s)
    families = sorted(families_for(problem, FORWARD, BACKWARD), key=lambda family: family not in api.families)
    listed = (family_candidates(arch, family, revision) for arch in device.archs for family in families)
    tried = ((candidates.index, partial(_rank_fitting, s, api, candidates)) for candidates in listed)
    return decisions(s, NAME, tried, _distance, partial(no_kernels, revision))


@dataclass(frozen=True)
class FamilyCandidates:
    """The candidates of one family on one architecture, in the order of upstream's generated tests.

    Attributes:
        buckets: number of each head-dim case within its dtype, in the order in which upstream's generator finds them.
        largest_rows: the largest bm0 of each case (``max_bm0`` of ``seqtune``).
    """

    index: FamilyIndex[CkSituation]
    buckets: dict[Case, int]
    largest_rows: dict[Case, int]

    def find_case(self, p: Problem) -> int | None:
        """Number of the head-dim case that upstream enters for the problem's dtype and head dims."""
        wide = (case[0].kernel.signature for case in self.index.cases)
        fitting = (
            self.buckets[case_of(s)]
            for s in wide
            if (s.dtype, s.dtype_out) == (p.dtype, p.dtype_out) and p.hdim <= s.hdim and p.hdim_v <= s.hdim_v
        )
        return min(fitting, default=None)


@lru_cache(maxsize=64)
def family_candidates(arch: str, family: Family, revision: str = BASELINE) -> FamilyCandidates:
    """A revision's kernels of a family; empty where the architecture has none."""

    facts = load_arch(arch)
    kernels = family_kernels(facts, family, revision)
    questions = (
        *(core_question(rule) for rule in SHARED_RULES if rule.field),
        *(_answer_at_once(rule, facts) for rule in target_rules(facts, family, revision)),
        *(core_question(rule) for rule in SHARED_RULES if not rule.field),
        *(Question(condition.against, condition.key) for condition in conditions_for(family, CONDITIONS)),
    )
    buckets: dict[Case, int] = {}
    counts: dict[Case, int] = {}
    largest: dict[Case, int] = {}
    for kernel in kernels:
        case = case_of(kernel.signature)
        if case not in buckets:
            buckets[case] = counts.get(case[:2], 0)
            counts[case[:2]] = buckets[case] + 1
        largest[case] = max(largest.get(case, 0), algorithm_of(kernel).tile[0])
    return FamilyCandidates(index_of(sorted(kernels, key=_in_chain), questions), buckets, largest)


def _answer_at_once(rule: KernelRule, arch: ArchSpec) -> Question[CkSituation]:
    """A rule that does not depend on the problem; its answers are computed when the index is made."""
    refusal = answers_to(rule, arch)
    return Question(lambda situation, kernel: refusal(kernel), refusal)


def _in_chain(kernel: KernelSpec) -> int:
    """Upstream's order of tests: as generated, small-tile backward kernels first (``max_seq_q_sort_key``)."""
    return algorithm_of(kernel).max_seq_q or 1_000_000


def _distance(problem: Problem, case: Signature) -> tuple[int, ...]:
    """Sort key: the problem's own element types first, then the wider 16-bit types; then head dims, from just large
    enough to too small."""
    same = (problem.dtype, problem.dtype_out) == (case.dtype, case.dtype_out)
    lacking = max(problem.hdim - case.hdim, 0) + max(problem.hdim_v - case.hdim_v, 0)
    return 0 if same else 1 + _STAND_INS.index(case.dtype), lacking, case.hdim + case.hdim_v


def _rank_fitting(s: CkSituation, api: CkApi, candidates: FamilyCandidates, candidate: IndexedKernel) -> Supported:
    kernel = candidate.kernel
    case = case_of(kernel.signature)
    bucket = candidates.buckets[case]
    place = api.families.index(kernel.family) if kernel.family in api.families else len(api.families)
    if kernel.family not in api.families:
        late: str | None = f"{CALLED_API}: {api.brief}"
    elif bucket != candidates.find_case(s.problem):
        late = f"{FIRST_CASE}: another head-dim case comes first"
    else:
        late = find_unmet_condition(s, kernel, candidates.largest_rows[case])
    why = f"upstream's order puts it here; {api.why}" if late is None else f"not what upstream takes: {late}"
    return Supported(kernel, (1 if late else 0, place, bucket, candidate.position), f"{why}{noted(kernel, s.problem)}")
