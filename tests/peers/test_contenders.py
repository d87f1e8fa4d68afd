"""``benchmarks/contenders.py``: the peers run by their plugins, each with the outputs of our kernel."""

from __future__ import annotations

import numpy as np
import pytest
from contenders import openvino_contenders, ort_contenders, ours, tensors

from fmha_cli.domain.problem import Problem

LINES = {
    "-H 4 -s 96 -d 64 --dtype fp32 --causal": ["ORT MHA", "ORT GQA", "OpenVINO"],
    "-H 4 -s 96 -d 64 --dtype bf16": ["OpenVINO"],
    "-H 4 --kv-heads 2 -s 96 -d 64 --dtype fp32 --causal": ["ORT GQA"],
    "-H 4 -s 1 --seqlen-k 96 -d 64 --dtype fp32": [],
}


@pytest.mark.parametrize("line", LINES)
def test_each_peer_computes_what_our_kernel_does(line: str) -> None:
    for module in ("onnxruntime", "fmha_onnxruntime", "openvino", "fmha_openvino"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    problem = Problem.from_cli(line)
    inputs = tensors(problem)
    mine = ours(problem, inputs, 1)
    mine.run()
    assert mine.output is not None
    wanted = mine.output().astype(np.float32)
    peers = [*ort_contenders(problem, inputs, 1), *openvino_contenders(problem, inputs, 1)]
    assert [peer.name for peer in peers if not isinstance(peer, str)] == LINES[line]
    for peer in peers:
        assert not isinstance(peer, str)
        peer.run()
        assert peer.output is not None
        assert float(np.abs(peer.output() - wanted).max()) < (0.02 if problem.dtype.value == "bf16" else 1e-5)
