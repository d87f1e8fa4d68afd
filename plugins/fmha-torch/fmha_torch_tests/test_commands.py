"""The commands of docs/explanation/backends/torch.md, as its readers type them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "backends" / "torch.md").read_text("utf-8")
COMMANDS = re.findall(r"^(fmha .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page(command: str, shared_cache: Path) -> None:
    try:
        distribution("fmha-torch")
    except PackageNotFoundError:
        pytest.skip("the plugin is not installed: pip install ./plugins/fmha-torch")
    words = shlex.split(command)[1:]
    if words[0] != "list-kernels":
        pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
    if words[0] in ("run", "bench"):
        words += ["--cache-dir", str(shared_cache)]
    if words[0] == "bench":
        words += ["--budget", "0.05"]
    done = subprocess.run([sys.executable, "-m", "fmha_cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_page_has_commands() -> None:
    assert {command.split()[1] for command in COMMANDS} == {"explain", "list-kernels", "run", "bench"}
