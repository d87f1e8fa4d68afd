"""The plugin around its kernels: what it imports, what it says without PyTorch, and what its rules refuse without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

fmha_torch = pytest.importorskip("fmha_torch", reason="plugins/fmha-torch is not installed")

from fmha_torch.kernels import TorchAlgorithm, Way, kernels_of, limits  # noqa: E402 - the plugin may not be installed
from fmha_torch.rules import OWN_RULES, flag_of  # noqa: E402 - the plugin may not be installed

CPU = plugin.DeviceFacts(id="cpu", archs=("generic",))
LINES = 870


def reasons(line: str, way: Way, masking: str, device: plugin.DeviceFacts = CPU) -> set[str]:
    """The rules that refuse a kernel's form for a problem in the kernel's own dtype and direction."""
    problem, found = api.Problem.from_cli(line), None
    for decision in fmha_torch.TorchBackend().decide(problem, device):
        assert decision.kernel is not None
        algorithm, family = decision.kernel.algorithm, decision.kernel.family
        assert isinstance(algorithm, TorchAlgorithm)
        right = decision.kernel.signature.dtype is problem.dtype and family.backward == problem.direction.backward
        if right and (algorithm.way, algorithm.masking.value) == (way, masking):
            found = {r.id for r in decision.reasons} if isinstance(decision, api.Unsupported) else set()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "way", "masking", "arch", "expected"),
    [
        ("--causal", Way.FLASH, "causal", "generic", set()),
        ("--causal --seqlen-k 900", Way.FLASH, "causal", "generic", {"K900"}),
        ("--causal --seqlen-k 900", Way.FLASH, "tensor", "generic", set()),
        ("--mask causal-tl --seqlen-k 900", Way.FLASH, "causal", "generic", set()),
        ("--hdim-v 64", Way.FLASH, "causal", "generic", {"K902"}),
        ("--hdim-v 64", Way.MATH, "causal", "generic", set()),
        ("--seqlen-k 0", Way.FLASH, "causal", "generic", {"K905"}),
        ("--seqlen-k 0", Way.FLEX, "score_mod", "generic", {"K905"}),
        ("--seqlen-k 0", Way.MATH, "causal", "generic", set()),
        ("--lse --dtype fp32 --causal --seqlen-k 9", Way.FLASH, "tensor", "generic", {"K906"}),
        ("-s 64 --lse --dtype fp32 --causal --seqlen-k 90", Way.FLASH, "tensor", "generic", set()),
        ("--lse --dtype bf16", Way.FLASH, "causal", "generic", {"K906"}),
        ("--softcap 3 --lse", Way.FLEX_COMPILED, "score_mod", "generic", {"K010"}),
        ("--softcap 3 --lse", Way.FLEX, "score_mod", "generic", set()),
        ("--direction bwd", Way.FLASH, "causal", "generic", {"K911"}),
        ("--direction bwd -s 128", Way.FLASH, "causal", "generic", set()),
        ("--direction bwd -s 128 -H 8 --kv-heads 4", Way.FLASH, "causal", "generic", {"K911"}),
        ("--direction bwd --dtype fp32", Way.FLASH, "causal", "generic", set()),
        ("-d 100", Way.MEM_EFFICIENT, "causal", "sm_90", {"K903"}),
        ("-d 104", Way.MEM_EFFICIENT, "causal", "sm_90", set()),
        ("--mask causal-tl --seqlen-k 900", Way.FLASH, "causal", "sm_90", {"K904"}),
        ("--seqlen-k 1", Way.CUDNN, "causal", "sm_90", {"K905"}),
        ("-s 4 -b 70000", Way.CUDNN, "causal", "sm_90", {"K907"}),
        ("-d 200 --direction bwd", Way.FLASH, "causal", "sm_86", {"K909"}),
        ("-d 200 --direction bwd", Way.FLASH, "causal", "sm_90", set()),
        ("-d 248 --direction bwd", Way.FLASH, "causal", "sm_86", set()),
        ("--alibi", Way.MEM_EFFICIENT, "tensor", "sm_90", {"K910"}),
        ("--alibi --dtype fp32", Way.MEM_EFFICIENT, "tensor", "sm_90", set()),
        ("--seqlens-q 9,9 --mask causal-tl", Way.VARLEN, "window", "sm_90", {"K900"}),
        ("--seqlens-q 9,9 --mask window:4,0", Way.VARLEN, "window", "sm_90", set()),
    ],
)  # fmt: skip
def test_each_rule_refuses_and_its_neighbour_passes(
    line: str, way: Way, masking: str, arch: str, expected: set[str]
) -> None:
    assert reasons(line, way, masking, plugin.DeviceFacts(id="x", archs=(arch,))) == expected


def test_a_forward_kernel_of_another_kind_is_no_partner() -> None:
    """Without an LSE that is right, no forward kernel fits; with one, both passes are of one kernel."""
    both = list(fmha_torch.TorchBackend().decide(api.Problem.of(seqlen=64, dtype="fp32", direction="fwd+bwd"), CPU))
    fitting = [d.kernel for d in both if isinstance(d, api.Supported)]
    assert {k.algorithm.way for k in fitting if isinstance(k.algorithm, TorchAlgorithm)} == {Way.FLASH}
    others = [d for d in both if isinstance(d, api.Unsupported) and d.kernel is not None and d.kernel.family.backward]
    assert any(reason.id == "K901" for d in others for reason in d.reasons)


def test_is_causal_is_the_top_left_triangle() -> None:
    lines = {
        "-s 9 --causal": True,
        "-s 9 --seqlen-k 8 --causal": False,
        "-s 9 --seqlen-k 8 --mask causal-tl": True,
        "-s 9": False,
    }
    assert {line: flag_of(api.Problem.from_cli(line)) for line in lines} == lines


def test_listing_and_deciding_import_no_pytorch(shared_cache: Path) -> None:
    subject = conformance.Subject(fmha_torch.TorchBackend(), entry="fmha_torch", cache_root=shared_cache)
    conformance.check_parent(subject, "torch", "numpy")


def test_without_pytorch_it_says_what_to_install() -> None:
    found = conformance.probed(fmha_torch.TorchBackend())
    assert (found.state, found.help, found.devices) == (plugin.State.MISSING, 'pip install "torch>=2.11"', ())
    old = conformance.probed(fmha_torch.TorchBackend(), "2.9.1+cpu")
    assert (old.state, old.devices) == (plugin.State.MISSING, ())
    assert "older than 2.11" in str(old.why)


def test_limits_and_rules_have_sources() -> None:
    assert all(row.source and row.runs for row in limits())
    assert all(rule.source and rule.help for rule in OWN_RULES)
    assert all(kernels_of(arch) for arch in fmha_torch.TorchBackend().archs())


def test_it_stays_short_and_imports_the_api_alone() -> None:
    assert fmha_torch.__file__ is not None
    conformance.check_sources(Path(fmha_torch.__file__).parent, LINES)


def test_every_code_has_a_page() -> None:
    conformance.check_codes(fmha_torch.TorchBackend(), Path(fmha_torch.__file__).parent)
