"""Shell completion: commands, options and values."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fmha_cli.cli.completion import completer
from fmha_cli.domain.dtypes import DType


def offered(line: str) -> list[str]:
    """The completions that bash would offer for a line; a trailing space asks for the next word."""
    words = line.split(" ")
    variables = {"_FMHA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    script = "import sys; from fmha_cli.cli.app import main; sys.argv = ['fmha']; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **variables}, check=False
    )
    return done.stdout.split()


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fmha list", ["list-kernels"]),
        ("fmha cache p", ["prune"]),
        ("fmha run --kv", ["--kv-heads", "--kv-cache"]),
        ("fmha run --backend f", ["flash_attn"]),
        ("fmha bench --backend cpu,f", ["cpu,flash_attn"]),
        ("fmha bench --backend a", ["aiter_asm", "auto", "all"]),
        ("fmha list-kernels --arch x86_64_v4", ["x86_64_v4", "x86_64_v4_bf16"]),
        ("fmha bench --cache ", ["hot", "cold", "both"]),
        ("fmha run --dtype fp16,b", ["fp16,bf16"]),
        ("fmha schema rec", ["record"]),
    ],
)
def test_bash(line: str, words: list[str]) -> None:
    found = offered(line)
    assert set(words) <= set(found)
    assert len(found) <= len(words) + 1


def test_the_script_names_the_program() -> None:
    script = "import sys; from fmha_cli.cli.app import main; sys.argv = ['fmha', '--show-completion', 'bash']; main()"
    variables = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0
    assert "_FMHA_COMPLETE" in done.stdout


def test_the_last_element_of_a_list_is_completed() -> None:
    complete = completer(tuple(DType), (), True)
    assert complete is not None
    assert complete("fp32,fp8") == ["fp32,fp8_e4m3", "fp32,fp8_e5m2"]
    assert completer(None, (), False) is None


def test_a_list_of_backends_names_each_once_and_no_word_for_several() -> None:
    complete = completer("backends", (), True)
    assert complete is not None
    assert {"auto", "all", "cpu"} <= set(complete(""))
    after = complete("cpu,")
    assert "cpu,flash_attn" in after
    assert not {"cpu,auto", "cpu,all", "cpu,cpu"} & set(after)
