"""Emulated devices on the command line: named, listed, planned and inspected, but never timed in any format."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Fmha
from tests.cli.test_commands import HONEST, SMALL, faults_of
from tests.support.fakes.emulator import ID
from tests.support.fixtures.emulated import Sees, Told

ON = (*SMALL, "--device", ID)


@pytest.mark.slow
@pytest.mark.ci
def test_every_format_says_where_and_tells_no_time(fmha: Fmha, emulator: Told) -> None:
    done = fmha("run", *ON, "--json")
    assert done.code == 0, done.err
    assert faults_of(done.document) == []
    (row,) = done.document["records"]
    assert (row["device"], row["measurement"], row["stages"][0]["time_ns"]) == (ID, None, None)
    assert (row["findings"], len(row["executed"])) == ([], 1)
    _, line = fmha("run", *ON, "--jsonl").out.splitlines()
    assert json.loads(line)["device"] == ID
    (cells,) = csv.DictReader(io.StringIO(fmha("run", *ON, "--csv").out))
    assert cells["device"] == ID
    timed = [name for name in cells if name.startswith("measurement.")]
    assert timed
    assert {cells[name] for name in timed} == {""}
    for form in ((), ("--md",)):
        shown = fmha("run", *ON, *form)
        assert f" {ID} " in shown.out
        assert not [word for word in ("time", "FLOP/s", "B/s", "peak") if word in shown.out]
    real = fmha("bench", *SMALL, "--budget", "0.02", "--peak", "spec").out
    assert "FLOP/s" in real


@pytest.mark.promise("Exit code 1: a row is WRONG, OUT_OF_BOUNDS, HAZARD, NONDETERMINISTIC or MISTRUSTED.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_hazard_is_exit_1_and_is_shown(fmha: Fmha, emulator: Told, sees: Sees, command: str) -> None:
    sees("missing-wait")
    done = fmha(command, *ON)
    assert done.code == 1
    assert "HAZARD" in done.out
    assert "missing-wait at 0x40, v_add_f32 v1, v2, v3: v2 of lane 7" in done.out
    off = fmha(command, *ON, "--no-emu-checks")
    assert (off.code, "HAZARD" in off.out) == (0, False)


@pytest.mark.slow
@pytest.mark.ci
def test_a_pair_is_compared_by_counts(fmha: Fmha, emulator: Told) -> None:
    done = fmha("bench", *ON, "--ab", HONEST, HONEST, "--emu-seed", "1", "--json")
    assert done.code == 0, done.err
    assert faults_of(done.document) == []
    assert [row["measurement"] for row in done.document["records"]] == [None, None]
    shown = fmha("bench", *ON, "--ab", HONEST, HONEST)
    assert "every count the same as" in shown.out
    assert "Z003" in shown.out


@pytest.mark.parametrize("more", [(), ("--all-kernels",), ("--dry-run",)])
def test_bench_is_refused(fmha: Fmha, emulator: Told, more: tuple[str, ...]) -> None:
    done = fmha("bench", *ON, *more, "--json")
    assert done.code == 2
    assert "error[Z003]" in done.err
    assert done.document["error"]["code"] == "Z003"
    assert faults_of(done.document) == []


@pytest.mark.slow
@pytest.mark.ci
def test_options_reach_the_emulator(fmha: Fmha, emulator: Told) -> None:
    words = "--emu-seed 5 --emu-turn 9 --emu-threads 2 --emu-careful --emu-arith hardware"
    assert fmha("run", *ON, *words.split()).code == 0
    assert fmha("run", *ON, FMHA_NO_EMU_CHECKS="1").code == 0
    options = [call["options"] for call in emulator("attach")]
    wanted = {"seed": 5, "turn": 9, "threads": 2, "checks": True, "careful": True, "arithmetic": "hardware"}
    assert options[0] == {**wanted, "cache": options[0]["cache"]}
    assert (options[1]["checks"], options[1]["careful"], options[1]["arithmetic"]) == (False, False, "document")


def test_devices_lists_them_for_the_backends_that_run_on_them(fmha: Fmha, emulator: Told) -> None:
    done = fmha("devices", "--backend", "null", "--json")
    assert faults_of(done.document) == []
    assert [d["id"] for d in done.document["devices"]] == ["null", ID]
    everything = fmha("devices", "--json").document["devices"]
    assert ("emu:gfx942", "cpu") not in [(d["id"], d["backend"]) for d in everything]
    assert ID in fmha("devices", "--backend", "null").out


@pytest.mark.usefixtures("few_plugins")
@pytest.mark.slow
@pytest.mark.ci
def test_doctor_and_plugins_know_the_emulator(fmha: Fmha, emulator: Told) -> None:
    done = fmha("doctor", "paper-emulator", "null", "--json")
    assert done.code == 0, done.err
    (check,) = [c for c in done.document["checks"] if c["subject"] == "paper-emulator" and c["name"] == "emulator"]
    assert (check["state"], ID in check["what"]) == ("ok", True)
    rows = fmha("plugins", "--json").document["plugins"]
    assert next(r["emulators"] for r in rows if r["name"] == "paper-emulator") == ["paper-emulator"]


@pytest.mark.parametrize("command", [("plan",), ("explain",), ("run", "--dry-run")])
def test_planning_takes_the_device_and_builds_no_emulator(fmha: Fmha, emulator: Told, command: tuple[str, ...]) -> None:
    done = fmha(*command, *ON, "--json")
    assert done.code == 0, done.err
    assert faults_of(done.document) == []
    assert emulator("build") == []
    if command[0] == "plan":
        assert done.document["device"] == ID


def test_a_device_that_is_not_installed(fmha: Fmha, emulator: Told) -> None:
    done = fmha("run", *SMALL, "--device", "emu:gfx999", "--json")
    assert (done.code, done.document["error"]["code"]) == (4, "Z002")
    assert "emu:null" in done.err


@pytest.mark.slow
@pytest.mark.ci
def test_inspect_executed(fmha: Fmha, emulator: Told) -> None:
    done = fmha("inspect", "--executed", *ON, "--causal", "--json")
    assert done.code == 0, done.err
    assert faults_of(done.document) == []
    document = done.document
    assert document["device"] == ID
    assert document["total"]["instructions"] == 100
    assert document["needed"]["flops"] < document["needed"]["dense_flops"]
    assert document["matrix_share"] == pytest.approx((1 << 20) / document["needed"]["flops"])
    table = fmha("inspect", "--executed", *ON).out
    assert [
        word for word in ("matrix FLOP", "bank conflicts", "barrier", "valu", "FLOP needed") if word not in table
    ] == []
    named = fmha("inspect", HONEST, "--executed", "--device", ID, "--seqlen", "16", "--backend", "null", "--json")
    assert named.document["kernel"]["digest"].startswith(HONEST)


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (("--executed", *SMALL), 2, "Z005"),
        (("--executed", *SMALL, "--device", "null"), 2, "Z005"),
        (("--executed", *ON, "--all"), 2, "E002"),
        (("--executed", *ON, "--compiler", "c++"), 2, "E002"),
        ((HONEST, "--arch", "null", "--seqlen", "8"), 2, "E002"),
        ((HONEST, "--arch", "null", "--device", ID), 2, "E002"),
        (("--executed", *ON, "--dropout", "0.5"), 3, "Z006"),
    ],
)
def test_inspect_executed_refuses(fmha: Fmha, emulator: Told, argv: tuple[str, ...], code: int, error: str) -> None:
    done = fmha("inspect", *argv)
    assert (done.code, f"error[{error}]" in done.err) == (code, True), done.err


def test_inspect_executed_shows_counts_of_a_row_with_findings(fmha: Fmha, emulator: Told, sees: Sees) -> None:
    sees("lds-race")
    done = fmha("inspect", "--executed", *ON, "--json")
    assert (done.code, done.document["verdict"]) == (1, "HAZARD")
    assert [f["kind"] for f in done.document["findings"]] == ["lds-race"]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("argv", [("--help",), ("list-kernels", "--arch", "gfx942", "--family", "fwd_pagedkv")])
def test_quick_commands_ask_no_emulator(argv: tuple[str, ...], emulator: Told, tmp_path: Path) -> None:
    """These commands load neither the emulator's library nor numpy."""
    code = (
        "import sys; from fmha_cli.cli.app import run; import os\n"
        f"code = run({argv!r}, os.environ)\n"
        "print(sorted({'numpy', 'fake_emulator_core', 'fmha_amdgpu_emu.core', 'fmha_amdgpu_emu.building'} & set(sys.modules)),"
        " file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"
    assert emulator("build") == emulator("attach") == []
