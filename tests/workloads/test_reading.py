"""One detection by content for all files of workloads, and one error for each thing that may be wrong with one."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.workload import WorkloadKind
from fmha_cli.workloads import reading
from fmha_cli.workloads.reading import read_workload
from tests.support.generators.workload_files import definition, operator, trace

pytestmark = pytest.mark.promise(
    "A workload's file is known by its content, and a file that is none is refused with the reason."
)

LINE = '{"schema": "fmha.workload/1", "count": 2, "flags": "-s 64 --causal"}\n'
WORKLOAD = {
    "definition": "x",
    "workload": {"axes": {}, "inputs": {}, "uuid": "u"},
    "solution": None,
    "evaluation": None,
}
FILES = {
    WorkloadKind.RECORDING: LINE.encode(),
    WorkloadKind.TORCH: trace(operator()),
    WorkloadKind.FLASHINFER: json.dumps(WORKLOAD).encode(),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_the_content_says_the_kind(tmp_path: Path, kind: WorkloadKind, packed: bool) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(gzip.compress(FILES[kind], mtime=0) if packed else FILES[kind])
    assert read_workload(path).kind is kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xef\xbb\xbf" + LINE.encode(), WorkloadKind.RECORDING),
        (b"\n\n" + LINE.encode() + b"\n", WorkloadKind.RECORDING),
        (json.dumps([operator()]).encode(), WorkloadKind.TORCH),
        (trace(operator()).replace(b"\n", b""), WorkloadKind.TORCH),
        (json.dumps(definition("decode"), indent=2).encode(), WorkloadKind.FLASHINFER),
        (json.dumps(definition("decode")).encode(), WorkloadKind.FLASHINFER),
    ],
)
def test_other_forms_of_the_same(tmp_path: Path, data: bytes, kind: WorkloadKind) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    found = read_workload(path)
    assert (found.kind, found.total >= 1) == (kind, True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"hello", "neither as JSON nor as an ONNX model"),
        (b"{}", "is of no kind"),
        (b'{"schema": "fmha.report/1"}', "its members schema"),
        (LINE.encode().replace(b"/1", b"/2"), "not fmha.workload/1"),
        (LINE.encode() + b'{"schema": "fmha.workload/1", "count": 2, "fl', "line 2"),
        (LINE.encode().replace(b"64", b"x"), "line 1"),
        (LINE.encode().replace(b"2", b"0"), "line 1"),
        (LINE.encode().replace(b"2,", b'2, "more": 1,'), "line 1"),
        (trace(operator())[:-40], "the file ends in the middle"),
        (trace(), "no attention call"),
        (b'{"definition": "x", "workload": {}}', "line 1"),
        (gzip.compress(LINE.encode(), mtime=0)[:-9], "end-of-stream"),
        (gzip.compress(LINE.encode(), mtime=0)[:20] + b"\0" * 40, "cannot be read"),
        (gzip.compress(LINE.encode(), mtime=0)[:-8] + b"\0" * 8, "crc"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_workload(path)
    error = caught.value
    assert (error.code, bool(error.where), bool(error.help)) == ("E080", True, True)
    assert said.lower() in error.render().lower()


@pytest.mark.parametrize("name", [".", "missing", "/dev/null"])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_workload(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot be read"):
        read_workload(tmp_path / "pipe")


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LINE", 50)
    (tmp_path / "file").write_text(LINE, "utf-8")
    with pytest.raises(UsageError, match="damaged") as caught:
        read_workload(tmp_path / "file")
    assert "line 1 has more than" in str(caught.value.why)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*FILES.values(), gzip.compress(LINE.encode(), mtime=0)]), st.data())
def test_a_changed_file_is_read_or_refused(tmp_path: Path, whole: bytes, data: st.DataObject) -> None:
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "file"
    path.write_bytes(changed)
    try:
        found = read_workload(path)
    except UsageError as fault:
        codes = fault.code
    except EnvironmentProblem as fault:  # it begins as an ONNX model, and there is no onnx
        codes = fault.code
    else:
        codes = "E080"
        assert found.total == sum(call.count for call in found.calls)
        assert all((call.problem is None) is (call.reason is not None) for call in found.calls)
    assert codes in ("E080", "X052")
