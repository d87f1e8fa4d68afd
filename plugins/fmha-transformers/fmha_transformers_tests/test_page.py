"""The program of docs/how-to/use-in-a-transformers-model.md, as its readers run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "use-in-a-transformers-model.md").read_text("utf-8")


def test_the_program_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
    pytest.importorskip("fmha_transformers", reason="plugins/fmha-transformers or transformers is not installed")
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "FMHA_TRANSFORMERS_RECORD": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "torch.Size([1, 8])", said.stderr
    lines = [json.loads(line) for line in (tmp_path / "workload.jsonl").read_text("utf-8").splitlines()]
    assert sum(line["count"] for line in lines) == 2 * 5  # layers, tokens
    assert sum("--causal" in line["flags"] for line in lines) == 1
