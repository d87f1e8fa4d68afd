"""``benchmarks/contenders.py``: the peers run by their plugins, each with the outputs of our kernel."""

from __future__ import annotations

import ast
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import contenders
import numpy as np
import pytest
from contenders import openvino_contenders, ort_contenders, ours, tensors, torch_contenders

from fmha_cli.domain.problem import Problem

LINES = {
    "-H 4 -s 96 -d 64 --dtype fp32 --causal": ["torch", "ORT MHA", "ORT GQA", "OpenVINO"],
    "-H 4 -s 96 -d 64 --dtype bf16": ["torch", "OpenVINO"],
    "-H 4 --kv-heads 2 -s 96 -d 64 --dtype fp32 --causal": ["torch", "ORT GQA"],
    "-H 4 -s 1 --seqlen-k 96 -d 64 --dtype fp32": ["torch"],
    "-b 2 -H 8 --kv-heads 2 -s 1 --seqlen-k 96 -d 64 --dtype bf16": ["torch", "torch folded"],
    "-H 4 -s 96 -d 64 --dtype fp32 --causal --direction bwd": ["torch"],
    "-H 4 -s 300 -d 64 --dtype bf16 --direction bwd": ["torch"],
}
"""Problems and their peers. PyTorch's kernel sums the last one in few bits: the plugin would not choose it, SDPA does."""


@pytest.mark.parametrize("line", LINES)
def test_each_peer_computes_what_our_kernel_does(line: str) -> None:
    for module in ("torch", "fmha_torch", "onnxruntime", "fmha_onnxruntime", "openvino", "fmha_openvino"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    problem = Problem.from_cli(line)
    inputs = tensors(problem)
    mine = ours(problem, inputs, 1)
    mine.run()
    assert mine.output is not None
    wanted = mine.output().astype(np.float32)
    makers = (torch_contenders, ort_contenders, openvino_contenders)
    peers = [peer for maker in makers for peer in maker(problem, inputs, 1)]
    assert [peer.name for peer in peers if not isinstance(peer, str)] == LINES[line]
    for peer in peers:
        assert not isinstance(peer, str)
        peer.run()
        assert peer.output is not None
        budget = (0.02 if problem.dtype.value == "bf16" else 1e-5) * (8 if problem.direction.backward else 1)
        assert float(np.abs(peer.output() - wanted).max()) < budget


def test_no_library_is_called_but_by_its_plugin() -> None:
    tree = ast.walk(ast.parse(Path(contenders.__file__).read_text("utf-8")))
    plugins = {"fmha_torch", "fmha_onnxruntime", "fmha_openvino"}
    nodes = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
    assert plugins <= names
    assert not {name.partition(".")[0] for name in names} & {"torch", "onnxruntime", "openvino"}


def test_a_library_that_is_missing_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("fmha_torch", "fmha_onnxruntime", "fmha_openvino"):
        pytest.importorskip(module, reason=f"{module} is not installed")

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("fmha_cli.toolchain.framework.version", absent)
    problem = Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32 --causal")
    assert list(contenders.peers(problem, tensors(problem), 1)) == [
        'torch: torch is not installed: pip install "torch>=2.11"',
        "ort: onnxruntime is not installed: pip install onnxruntime",
        "openvino: openvino is not installed: pip install openvino",
    ]
