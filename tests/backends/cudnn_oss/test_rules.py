"""Each rule K600-K614 refuses what it should and passes its nearest neighbour; what the core's rules cover is refused too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from fmha_cli.backends.cudnn_oss.rules import CONDITIONS, FEW, IDS, MORE
from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.backends.gpu.rule_rows import rule_rows
from fmha_cli.codegen.cudnn_oss.facts import NAME, CudnnAlgorithm, facts_of, kernels
from fmha_cli.discovery.nearest import applied, changes_in
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import CORE_RULES, duplicate_ids
from fmha_cli.domain.signature import MaskKey
from tests.support.generators.strategies import problems

pytestmark = pytest.mark.promise(
    "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
)

ARCHS = ("sm_100a", "sm_103a", "sm_90a")
FITS = {"dtype": "bf16", "batch": "2", "heads": "4", "hdim": "128", "mask": "causal", "seqlen": "512"}
"""A problem that a kernel of every architecture serves."""
LINEAR = "kv_cache=linear cache_seqlens=512,512"
CASES = (
    ("K610", "sm_90a", "hdim=96", "hdim=64"),
    ("K610", "sm_90a", "hdim=64 hdim_v=128", "hdim=64"),
    ("K610", "sm_100a", "hdim=192", "hdim=128"),
    ("K610", "sm_100a", "hdim=32", "hdim=64"),
    ("K611", "sm_90a", "mask=none", "mask=causal-tl"),
    ("K611", "sm_90a", "mask=window:510,0", "mask=window:511,0"),
    ("K611", "sm_100a", "mask=window-tl:510,0", "mask=window-tl:511,0"),
    ("K611", "sm_100a", "mask=window:-1,1", "mask=window:-1,0"),
    ("K611", "sm_90a", "mask=causal seqlen_k=640", "mask=causal seqlen_k=512"),
    ("K612", "sm_90a", "mask=causal-tl seqlen_k=640", "mask=causal-tl seqlen_k=512"),
    ("K612", "sm_90a", "seqlen=513", "seqlen=640"),
    ("K612", "sm_90a", "seqlen=1", "seqlen=128"),
    ("K612", "sm_100a", "seqlen=384", "seqlen=256"),
    ("K612", "sm_103a", "seqlen=128", "seqlen=256"),
    ("K613", "sm_90a", "scale=-0.1", "scale=0.1"),
    ("K613", "sm_100a", "scale=0", "scale=1e-30"),
    ("K613", "sm_100a", "scale=1e-39", "scale=1e-30"),
    ("K614", "sm_90a", "batch=100000 heads=1000 seqlen=4096", "batch=100 heads=1000 seqlen=4096"),
    ("K614", "sm_90a", "heads=65536 kv_heads=1", "heads=65535 kv_heads=1"),
    ("K001", "sm_90a", "dtype=fp16", ""),
    ("K001", "sm_100a", "dtype=fp32", ""),
    ("K002", "sm_90a", "dtype=bf16:fp32", ""),
    ("K003", "sm_90a", "batch= seqlen= seqlens_q=512,512", ""),
    ("K005", "sm_90a", "mask=window:511,0 sink=4", "mask=window:511,0"),
    ("K006", "sm_90a", "sink_logits=filled", ""),
    ("K007", "sm_90a", "bias=elementwise", ""),
    ("K007", "sm_90a", "alibi_slopes=filled:h", ""),
    ("K008", "sm_100a", "softcap=30", ""),
    ("K009", "sm_100a", "dropout=0.1", ""),
    ("K013", "sm_90a", LINEAR, ""),
    ("K013", "sm_90a", "kv_cache=paged:256 cache_seqlens=512,512", ""),
    ("K015", "sm_90a", "kv_cache=linear cache_seqlens=0,0 append=512", ""),
    ("K017", "sm_90a", "splits=2", ""),
    ("K018", "sm_90a", "dtype=fp8_e4m3 qscale=tensor", ""),
    ("K025", "sm_90a", "direction=bwd", ""),
    ("K027", "sm_90a", "dtype=fp8_e4m3 fp8_encoding=fnuz", ""),
    ("K028", "sm_90a", f"{LINEAR} kv_dtype=int8", ""),
    ("K029", "sm_90a", "mla_rope=64", ""),
    ("K026", "sm_90a", f"{LINEAR} cache_leftpad=3,0", ""),
    ("K031", "sm_90a", f"{LINEAR} cache_batch_idx=1,0", ""),
)


def problem_of(changes: str) -> Problem:
    """The fitting problem with changes; a flag without a value is dropped."""
    pairs = FITS | dict(word.split("=", 1) for word in changes.split())
    return Problem.of(**{key: value for key, value in pairs.items() if value})


def said(arch: str, changes: str) -> list[set[str]]:
    """The rules that refuse each kernel of an architecture."""
    decisions = UPSTREAM.decide(problem_of(changes), DeviceFacts.of_arch(arch))
    return [{r.id for r in d.reasons} if isinstance(d, Unsupported) else set() for d in decisions]


@pytest.mark.parametrize(("id", "arch", "refused", "passed"), CASES, ids=lambda text: str(text).replace(" ", ""))
def test_a_rule_refuses_and_passes(id: str, arch: str, refused: str, passed: str) -> None:
    assert all(id in ids for ids in said(arch, refused))
    assert set() in said(arch, passed)


def test_every_rule_has_a_case_and_a_row() -> None:
    with_cases = {id for id, *_ in CASES}
    assert {condition.id for condition in CONDITIONS} <= with_cases
    assert [*rule_rows(NAME)] == [*sorted({*IDS, *MORE}), *(condition.id for condition in CONDITIONS)]
    without = {rule.id for rule in FEW.problem_rules} - with_cases
    assert without == {
        "K004",  # of masks that two bounds cannot express
        "K010",
        "K011",
        "K014",
        "K016",
        "K019",
        "K020",
        "K021",
        "K030",
    }  # any at run time; cannot occur alone
    assert duplicate_ids([UPSTREAM.rules(), CORE_RULES]) == []
    assert {rule.id for rule in CORE_RULES} - {rule.id for rule in UPSTREAM.rules()} == {
        "K012"
    }  # K611 judges masks that two bounds express


@given(problems())
def test_no_engine_serves_what_it_cannot(problem: Problem) -> None:
    """What is supported is exactly what the kernels' texts compute."""
    for arch, tile in (("sm_90a", 128), ("sm_100a", 256)):
        fits = [d for d in UPSTREAM.decide(problem, DeviceFacts.of_arch(arch)) if isinstance(d, Supported)]
        for decision in fits:
            p = problem
            assert (p.dtype.value, p.dtype_out.value, p.hdim) == ("bf16", "bf16", p.hdim_v)
            assert p.hdim == decision.kernel.signature.hdim
            assert p.seqlen_q == p.seqlen_k
            assert p.seqlen_q % tile == 0
            assert p.seqlen_q
            assert p.seqlens_q is None
            assert p.direction.value == "fwd"
            assert not any((p.dropout, p.softcap, p.sink_logits, p.append, p.splits > 1))
            rows = p.seqlen_q
            assert p.mask.pairs(rows, rows, p.sink) == rows * (rows + 1) // 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}".replace(" ", ""))
def test_hints_lead_away(case: tuple[str, str, str, str]) -> None:
    """The flags of a hint are understood, and the problem that they lead to is not refused by the same rule again."""
    id, arch, changes, _ = case
    problem, device = problem_of(changes), DeviceFacts.of_arch(arch)
    for decision in UPSTREAM.decide(problem, device):
        assert isinstance(decision, Unsupported)
        (reason,) = (reason for reason in decision.reasons if reason.id == id)
        if reason.hint is None or reason.hint == "a smaller --batch":
            continue
        led = [changed for change in changes_in(reason.hint) if (changed := applied(problem, change))]
        assert led, reason.hint
        again = [d for d in UPSTREAM.decide(led[0], device) if d.kernel == decision.kernel]
        assert id not in {r.id for d in again if isinstance(d, Unsupported) for r in d.reasons}


def test_causal_is_top_left_where_lengths_are_equal() -> None:
    device = DeviceFacts.of_arch("sm_90a")
    for mask in ("causal", "causal-tl"):
        found = list(UPSTREAM.decide(problem_of(f"mask={mask}"), device))
        assert sum(isinstance(d, Supported) for d in found) == 1


def test_the_catalogue() -> None:
    listed = {arch: list(UPSTREAM.kernels(load_arch(arch))) for arch in arch_names()}
    assert {arch: [k.signature.hdim for k in found] for arch, found in listed.items() if found} == {
        arch: [64, 128] for arch in ARCHS
    }
    for kernel in (kernel for found in listed.values() for kernel in found):
        assert UPSTREAM.refusals(kernel) == ()
        assert UPSTREAM.template(kernel) == UPSTREAM.upstream_name(kernel) == facts_of(kernel).symbol


def other(kernel: KernelSpec, **changes: object) -> KernelSpec:
    return replace(kernel, signature=replace(kernel.signature, **changes))  # type: ignore[arg-type]


def test_kernels_that_do_not_exist() -> None:
    kernel = kernels("sm_90a")[0]
    for wrong, id in (
        (replace(kernel, arch="sm_90"), "K600"),
        (replace(kernel, arch="sm_80"), "K600"),
        (replace(kernel, arch="gfx942"), "K600"),
        (other(kernel, hdim=96, hdim_v=96), "K602"),
        (other(kernel, mask=MaskKey.CAUSAL), "K602"),
        (replace(kernel, algorithm=CudnnAlgorithm(tile=(256, 128))), "K602"),
    ):
        assert [reason.id for reason in UPSTREAM.refusals(wrong)] == [id]


def test_devices_without_kernels() -> None:
    for archs in (("sm_90",), ("sm_80",), ("sm_120a", "sm_120"), ()):
        (only,) = UPSTREAM.decide(problem_of(""), DeviceFacts(id="cuda:0", archs=archs))
        assert isinstance(only, Unsupported)
        assert (only.kernel, [reason.id for reason in only.reasons]) == (None, ["K600"])
    both = UPSTREAM.decide(problem_of(""), DeviceFacts(id="cuda:0", archs=("sm_90a", "sm_90")))
    assert [isinstance(d, Supported) for d in both] == [True, False]


def test_an_impossible_line_stays_impossible() -> None:
    with pytest.raises(ImpossibleProblem):
        problem_of("kv_heads=3")
