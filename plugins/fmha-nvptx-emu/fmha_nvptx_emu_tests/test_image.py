"""The image of an emulated device: the text decides what is executed, and the cubin next to it how many registers a
thread has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import library

pytest.importorskip("cuda.bindings")


@pytest.fixture(scope="module", params=["sm_80", "sm_90a"])
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    child = Path(__file__).with_name("support") / "image_child.py"
    command = [sys.executable, str(child), library()._name, request.param]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_registers_are_those_of_the_cubin(told: dict[str, Any]) -> None:
    """ptxas of CUDA 13 states them for sm_90a in a record of .nv.info alone."""
    assert told["stated"] > 96  # the kernel keeps as many values at once
    assert told["both"]["registers"] == str(told["stated"])


def test_a_block_with_too_many_registers_is_refused(told: dict[str, Any]) -> None:
    """1024 threads of 96 registers are more than the 65,536 of a block: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES."""
    assert told["both"]["256"] == "0"
    assert told["both"]["1024"].startswith("701 ")
    assert f"{told['stated']} registers for each of 1024 threads, a block has at most 65536" in told["both"]["1024"]


def test_registers_limit_how_many_blocks_a_multiprocessor_holds(told: dict[str, Any]) -> None:
    warp = -(-told["stated"] * 32 // 256) * 256
    assert told["both"]["resident"] == str(65536 // (8 * warp))
    assert told["text"]["resident"] == "8"  # 2,048 threads


def test_a_text_alone_has_no_registers_and_refuses_nothing(told: dict[str, Any]) -> None:
    assert told["text"]["registers"].startswith("801 ")
    assert told["text"]["1024"] == "0"
