"""``benchmarks/contenders.py``: the peers run by their plugins, each with the outputs of our kernel."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import contenders
import numpy as np
import pytest
from contenders import openvino_contenders, ort_contenders, ours, tensors, torch_contenders

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.codegen.cpu.parts import source_text
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


@pytest.mark.parametrize(
    ("line", "archs", "wanted"),
    [
        ("-s 64 --dtype bf16", ("x86_64_amx", "x86_64_v4_bf16"), "tiles"),
        ("-s 64 --dtype bf16 --direction bwd", ("x86_64_amx", "x86_64_v4_bf16"), "tiles"),
        ("-s 64 --dtype bf16", ("x86_64_v4_bf16",), "dot"),
        ("-s 64 --dtype bf16", ("x86_64_v3",), "fma"),
        ("-s 64 --dtype fp32", ("x86_64_amx", "x86_64_v4_bf16"), "fma"),
        ("-s 1 --seqlen-k 64 --dtype bf16", ("x86_64_amx", "x86_64_v4_bf16"), "read"),
    ],
)
def test_a_kernel_is_compared_with_the_loop_of_its_own_instructions(
    line: str, archs: tuple[str, ...], wanted: str
) -> None:
    assert contenders.ceiling_of(Problem.from_cli(line), replace(detect(), archs=archs)) == wanted


@pytest.mark.slow
@pytest.mark.ci
def test_a_step_of_the_tile_loop_counts_what_the_loop_does() -> None:
    """Shares taken by processor time divide by it; it was that of vectors, an eighth."""
    text = source_text("peaks.cpp")
    numbers = {
        name: math.prod(map(int, found.split("*"))) for name, found in re.findall(r"(TILE_[A-Z]+) = ([\d* ]+)", text)
    }
    assert numbers.keys() == {"TILE_SUMS", "TILE_FLOPS", "TILE_SHARE"}
    step = numbers["TILE_SUMS"] * numbers["TILE_FLOPS"] // numbers["TILE_SHARE"]
    assert step == contenders._TILE_FLOPS
    if "tiles" in (loops := contenders.ceilings(1)):
        assert loops["tiles"].work == step * contenders._STEPS * contenders._ROUNDS
        assert loops["dot"].work == 2 * (loops["fma"].work or 0)
