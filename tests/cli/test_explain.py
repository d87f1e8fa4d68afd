"""``fmha explain``: decisions, the smallest change, and the pages of rules and errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fmha_cli
from cli.conftest import Fmha
from fmha_cli.cli.explain import error_pages, smallest_change
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.decision import Trace
from fmha_cli.domain.problem import Problem


def test_a_supported_problem(fmha: Fmha) -> None:
    done = fmha("explain", "--backend", "null", "--json")
    assert done.code == 0
    document = done.document
    assert document["decisions"][0]["rank"] == 1
    assert document["chosen"] == document["decisions"][0]["kernel"]
    assert document["change"] is None


@pytest.mark.parametrize(
    ("argv", "change"),
    [
        (["--dropout", "0.1"], "no --dropout"),
        (["--hdim", "600"], "--hdim 512"),
        (["--dtype", "fp8_e4m3"], "--dtype fp16"),
        (["--dropout", "0.1", "--hdim", "600"], "no --dropout and --hdim 512"),
        (["--direction", "bwd"], "no --direction"),
    ],
)
def test_an_unsupported_problem_names_the_smallest_change(fmha: Fmha, argv: list[str], change: str) -> None:
    done = fmha("explain", "--backend", "null", "--json", *argv)
    assert done.code == 0
    assert done.document["chosen"] is None
    assert done.document["change"] == change
    assert all(d["reasons"] for d in done.document["decisions"])
    assert change in fmha("explain", "--backend", "null", *argv).out


def test_no_change_is_found_where_none_helps() -> None:
    assert smallest_change(Problem.of(lse=True), Trace(()), lambda problem: False) is None


def test_a_sweep_is_refused(fmha: Fmha) -> None:
    done = fmha("explain", "--seqlen", "1,2")
    assert done.code == 2
    assert "one problem" in done.err


@pytest.mark.parametrize("code", ["K012", "k012", "P006", "E001"])
def test_pages(fmha: Fmha, code: str) -> None:
    done = fmha("explain", code)
    assert done.code == 0
    assert done.out.startswith(f"{code.upper()}: ")
    assert fmha("explain", code, "--json").document["id"] == code.upper()


def test_an_unknown_page(fmha: Fmha) -> None:
    done = fmha("explain", "K0012")
    assert done.code == 2
    assert "K012" in done.err


def codes_in_the_source() -> Iterator[str]:
    for path in Path(fmha_cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                values = [k.value for k in node.keywords if k.arg in ("code", "id")] + node.args[:1]
                for value in values:
                    if isinstance(value, ast.Constant) and re.fullmatch(r"[A-Z]\d{3}", str(value.value)):
                        yield str(value.value)


def test_every_code_has_a_page() -> None:
    known = set(error_pages()) | set(build_registry().rules())
    assert set(codes_in_the_source()) - known == set()


def test_no_page_stands_twice() -> None:
    assert set(error_pages()).isdisjoint(build_registry().rules())
