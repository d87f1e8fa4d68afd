"""PyTorch's own answers against the rules, on the CPU; a rule that is missing or wrong is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
pytest.importorskip("fmha_torch", reason="plugins/fmha-torch is not installed")

from fmha_torch.kernels import TorchAlgorithm, Way, kernels_of  # noqa: E402
from fmha_torch.rules import OURS, OWN_RULES, RULES  # noqa: E402
from torch_support import compare  # noqa: E402

from fmha_cli import api, plugin  # noqa: E402

THEIRS_ON_CPU = {"K902", "K905", "K908"}
"""PyTorch's own limits that can be met on a CPU; K903, K904, K907 and K909 are those of GPUs."""


@pytest.mark.promise("PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.")
@pytest.mark.parametrize(("count", "compiles"), [(30, 0), pytest.param(200, 2, marks=pytest.mark.slow)])
def test_pytorch_and_the_rules_agree(count: int, compiles: int) -> None:
    found, asked = compare(0, count, "cpu", "generic", compiles=compiles)
    assert found == []
    assert min(asked["flash"], asked["math"], asked["flex"]) >= count // 2
    assert asked["flash refused"] >= count // 10
    assert asked["flex refused"] >= count // 10


@pytest.mark.parametrize("id", sorted(THEIRS_ON_CPU))
def test_a_rule_that_is_gone_is_noticed(id: str) -> None:
    without = tuple(rule for rule in RULES if rule.id != id)
    found, _ = compare(0, 16, "cpu", "generic", without, compiles=0)
    assert found
    assert all(one.torch and one.rules is None for one in found)


def test_a_rule_that_refuses_too_much_is_noticed() -> None:
    refuse = plugin.Rule("K902", "nothing is refused", lambda p, kernel, device: plugin.Refusal("planted"))
    found, _ = compare(0, 12, "cpu", "generic", (*(rule for rule in RULES if rule.id != "K902"), refuse), compiles=0)
    assert any(one.torch is None and one.rules == "planted" for one in found)


def test_every_rule_is_compared_or_ours() -> None:
    assert {rule.id for rule in OWN_RULES} - {*OURS} == THEIRS_ON_CPU | {"K903", "K904", "K907", "K909"}


def test_flex_attention_has_no_backward_pass_on_a_cpu() -> None:
    """PyTorch says so, and so does K908; where the rule is gone, the comparison above fails."""
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 1, 4, 8, requires_grad=True)
    with pytest.raises(NotImplementedError, match="backward"):
        flex_attention(q, q, q)
    problem, device = (
        api.Problem.of(seqlen=8, dtype="fp32", direction="bwd"),
        plugin.DeviceFacts(id="cpu", archs=("generic",)),
    )
    flex = [k for k in kernels_of("generic") if k.algorithm == replace(k.algorithm, way=Way.FLEX)]
    assert flex
    for kernel in flex:
        assert isinstance(kernel.algorithm, TorchAlgorithm)
        assert "K908" in {reason.id for reason in plugin.reasons_against(RULES, problem, kernel, device)}
