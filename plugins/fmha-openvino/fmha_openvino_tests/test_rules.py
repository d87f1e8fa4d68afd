"""Our rules against the library's own answers: what they accept passes, and what they refuse does not run, or computes something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin
from fmha_openvino_tests.support.ov_processor import HALVES, has

BACKEND = pytest.importorskip("fmha_openvino", reason="pip install -e plugins/fmha-openvino").BACKEND

pytestmark = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="openvino is not installed")

EVIDENCE = {
    "K945": ("f32", "-H 2 -s 5 --seqlen-k 3 -d 8 --dtype fp32 --causal"),
    "K946": ("f32", "-H 2 -s 5 -d 8 --dtype fp32 --causal --bias elementwise"),
    "K946 repeated": ("f32", "-H 4 --kv-heads 2 -s 5 -d 8 --dtype fp32 --bias elementwise:bhss"),
    "K946 rows": ("f32", "-b 2 -H 4 --kv-heads 2 -s 5 -d 8 --dtype fp32 --bias elementwise:b1ss"),
    "K947": ("f32", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 9,4"),
    "K948": ("f32", "-H 2 -s 5 -d 8 --dtype fp32 --alibi"),
    "K949": ("f32", "-b 2 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 0,0"),
    "K950": ("f16", "-H 2 -s 64 -d 64 --dtype fp16"),
    "K951": ("bf16", "-H 4 -s 300 -d 128 --dtype bf16 --causal"),
}
"""Rule -> a precision and a problem that it alone refuses."""

NEEDLESS = {
    "K948": "a query that sees one key has no use for a bias",
    "K951": "weights that are nearly equal lose little in bf16",
}
"""Rules that also refuse what the library computes rightly, and why."""

if has("avx512_fp16"):
    NEEDLESS["K950"] = "with AVX512_FP16 the weights are rounded to fp16, which most rows survive"
if not HALVES:
    NEEDLESS |= dict.fromkeys(("K950", "K951"), "without 16-bit arithmetic the hint has no effect")


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_openvino", cache_root=shared_cache)


@pytest.mark.promise("PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.")
@pytest.mark.parametrize("name", EVIDENCE)
def test_a_rule_is_borne_out_by_the_library(name: str, subject: conformance.Subject) -> None:
    op, line = EVIDENCE[name]
    problem = api.Problem.from_cli(line)
    kernel = next(
        k for k in BACKEND.listed("generic") if k.algorithm.precision == op and k.signature.dtype is problem.dtype
    )
    if name in ("K950", "K951") and not HALVES:
        conformance.check_refused(subject, name, problem, kernel)
        assert not conformance.borne_out(subject, problem, kernel), (
            "the processor has no 16-bit arithmetic, and it is used"
        )
        return
    conformance.check_refusal(subject, name.partition(" ")[0], problem, kernel)


def test_every_rule_has_evidence() -> None:
    """K952 is about older releases (test_releases.py)."""
    assert {name.partition(" ")[0] for name in EVIDENCE} == conformance.own_rules(BACKEND) - {"K952"}


def test_a_sample_of_problems_agrees_with_the_library(subject: conformance.Subject) -> None:
    assert conformance.check_agreement(subject, conformance.library_problems(7, 24), NEEDLESS).accepted >= 4


@pytest.mark.promise("PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.")
@pytest.mark.slow
def test_500_problems_agree_with_the_library(subject: conformance.Subject) -> None:
    found = conformance.check_agreement(subject, conformance.library_problems(1, 500), NEEDLESS)
    assert found.accepted >= 150
    unchosen = {k.name for k in BACKEND.listed("generic") if k.algorithm.precision != "f32"}
    assert found.kernels == {k.name for k in BACKEND.listed("generic")} - unchosen
