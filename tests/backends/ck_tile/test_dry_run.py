"""``fmha run --dry-run``: launches in text and JSON, and the behaviour without a device or a compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.building import build_recorder
from fmha_cli.backends.ck_tile.dry_run import pointer_text, value_of
from fmha_cli.backends.ck_tile.library import Karg
from fmha_cli.cli.app import run
from fmha_cli.codegen.ck_tile.args import KargKind
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.report.record import Record
from tests.support.schema_checks import validator

SIZES = ("-b", "2", "-H", "4", "-s", "200", "--seqlen-k", "300", "-d", "64", "--dropout", "0.5")
LINE = (*SIZES, "--splits", "1", "--backend", "ck_tile", "--arch", "gfx1201")
"""Its kernel takes a minute to compile, so CI runs what needs it. Tests of other folders compile it too."""
Fmha = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fmha(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fmha:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(argv, dict(os.environ))
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def compiler(shared_cache: Path) -> None:
    try:
        Registry().backend("ck_tile").prepare(BuildContext(cache_root=shared_cache))  # type: ignore[attr-defined]
    except EnvironmentProblem as fault:
        pytest.skip(f"no HIP compiler or no sources: {fault}")


def arguments(launch: dict[str, Any]) -> dict[str, Any]:
    return {a["name"]: a["value"] for a in launch["arguments"]}


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.usefixtures("compiler")
def test_the_launch_in_json_and_in_text(fmha: Fmha) -> None:
    code, out, _ = fmha("run", *LINE, "--dry-run", "--json")
    assert code == 0
    document = json.loads(out)
    errors = list(validator("report").iter_errors(document))
    assert not errors, errors[:3]
    (record,) = document["records"]
    assert record["verdict"] == "NOT_RUN"
    (launch,) = record["launches"]
    assert (launch["family"], launch["grid"], launch["block"]) == ("fwd", [4, 4, 2], [128, 1, 1])
    assert launch["lds_static"] > 0
    assert launch["lds_dynamic"] == 0
    assert launch["argument_bytes"] == 184
    assert launch["symbol"].startswith("_Z")
    found = arguments(launch)
    assert (found["q_ptr"], found["cu_seqlen_q_ptr"], found["seqlen_k"]) == ("q", None, 300)
    assert Record.from_dict(record).to_dict() == record
    code, out, _ = fmha("run", *LINE, "--dry-run")
    assert code == 0
    assert "launch fwd: grid 4 x 4 x 2, block 128 x 1 x 1" in out
    assert "q_ptr=q" in out
    assert "cu_seqlen_k_ptr=null" in out
    assert "seqlen_k=300" in out


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.usefixtures("compiler")
def test_without_a_device_it_builds_and_ends_with_4(fmha: Fmha) -> None:
    code, out, _ = fmha("run", *LINE, "--json")
    (record,) = json.loads(out)["records"]
    assert code == 4
    assert record["verdict"] == "NOT_RUN"
    assert record["stages"][0]["artifact_sha256"] is not None
    assert record["launches"] == []


@pytest.mark.usefixtures("compiler")
@pytest.mark.slow
@pytest.mark.ci
def test_without_a_compiler_it_says_what_is_missing(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FMHA_HIPCC", "/nonexistent/hipcc")
    code, out, err = fmha("run", *LINE, "--dry-run", "--json")
    document = json.loads(out)
    assert code == 4
    assert "/nonexistent/hipcc" in err
    assert document["error"]["exit_code"] == 4
    assert document["records"][0]["verdict"] == "NOT_RUN"
    assert document["records"][0]["launches"] == []


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (KargKind.SIGNED, b"\xff\xff\xff\xff", -1),
        (KargKind.UNSIGNED, b"\xff\xff\xff\xff\xff\xff\xff\xff", 2**64 - 1),
        (KargKind.UNSIGNED, b"\x7f", 127),
        (KargKind.FLOAT, b"\x00\x00\x00\x3f", 0.5),
        (KargKind.BOOL, b"\x01", True),
        (KargKind.POINTER, bytes(8), None),
        (KargKind.BYTES, b"\x01\xab", "01ab"),
    ],
)
def test_values_of_members(kind: KargKind, raw: bytes, value: object) -> None:
    found = value_of(Karg("x", 0, len(raw), kind), raw)
    assert found == value
    assert type(found) is type(value)


def test_pointers_name_the_tensor_that_they_point_into() -> None:
    places = ((1000, 1100, "q"), (2000, 2001, "o"))
    assert [pointer_text(a, places) for a in (0, 1000, 1099, 1100, 2000)] == [None, "q", "q+99", "0x44c", "o"]


LAUNCHES = """
import ctypes, sys
stub = ctypes.CDLL(sys.argv[1])
stub.fmha_launched.restype = ctypes.c_char_p
for host, symbol in ((8, b"one"), (16, b"two")):
    stub.__hipRegisterFunction(None, ctypes.c_void_p(host), None, symbol)
told = []
for host in (16, 8):
    assert stub.hipLaunchKernel(ctypes.c_void_p(host)) == stub.hipGetLastError() == 0
    told.append(stub.fmha_launched().decode())
print(*told)
"""


def test_the_recorder_names_the_kernel_of_the_last_launch(shared_cache: Path) -> None:
    """In another process: the library has the real runtime's name."""
    recorder = build_recorder(BuildContext(cache_root=shared_cache))
    words = [sys.executable, "-c", LAUNCHES, str(recorder.path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == ["two", "one"], done.stderr
