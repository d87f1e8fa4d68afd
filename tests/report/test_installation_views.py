"""The tables of ``fmha doctor`` and ``fmha devices`` on a machine without a GPU: one line about what it lacks."""

from __future__ import annotations

from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.installation import NO_DEVICE_HERE, CheckState, DoctorCheck
from fmha_cli.report.documents.installation import Doctor, devices_document, devices_view, doctor_document, doctor_view
from fmha_cli.report.drawing import plain
from fmha_cli.report.parts import NO_ENVIRONMENT

WHY = {"amd": "no AMD GPU driver is loaded here", "one": "no NVIDIA GPU driver is loaded here", "two": "the same"}
HELP = "--arch A builds for an architecture without one"


def found() -> dict[str, Availability]:
    cpu = Availability(state=State.OK, devices=(DeviceFacts(id="cpu", archs=("generic",)),))
    away = {name: Availability(state=State.NO_DEVICE, why=why, help=HELP) for name, why in WHY.items()}
    return {
        "cpu": cpu,
        **away,
        "lib": Availability(state=State.MISSING, why="lib is not installed", help="pip install lib"),
    }


def test_devices_tell_in_one_line_what_lacks_a_device_alone() -> None:
    document = devices_document(found())
    lines = plain(devices_view(document), 100).splitlines()
    assert [line for line in lines if "no device here" in line] == [
        "no device here: amd, one, two (-v: why; --arch A builds for an architecture without one)"
    ]
    assert not [line for line in lines if "driver" in line]
    assert "  lib: missing: lib is not installed (help: pip install lib)" in lines
    whole = plain(devices_view(document, whole=True), 100)
    assert all(f"{name}: no-device: {why}" in whole for name, why in WHY.items())


def checks() -> Doctor:
    away = [
        DoctorCheck(name="backend", subject=name, state=CheckState.SKIPPED, what=NO_DEVICE_HERE, why=why, help=HELP)
        for name, why in WHY.items()
    ]
    odd = DoctorCheck(name="plugin", subject="odd", state=CheckState.FAILED, what="w", why="because", help="mend it")
    same = DoctorCheck(name="plugin", subject="too", state=CheckState.FAILED, what="v", why="since", help="mend it")
    fine = DoctorCheck(name="backend", subject="cpu", state=CheckState.OK, what="PASSED", time_ns=1_500_000_000)
    return doctor_document([*away[:2], fine, away[2], odd, same], NO_ENVIRONMENT)


def test_doctor_groups_backends_without_a_device_and_tells_each_remedy_once() -> None:
    table = doctor_view(checks())
    assert [row[2] for row in table.rows] == ["amd, one, two", "cpu", "odd", "too"]
    assert table.rows[0] == ["skipped", "backend", "amd, one, two", "no device here (-v: why)"]
    assert table.rows[1][3] == "PASSED (1.50 s)"
    assert table.details == [
        f"  backend amd, one, two: help: {HELP}",
        "  plugin odd: because",
        "  plugin odd; plugin too: help: mend it",
        "  plugin too: since",
    ]
    assert table.summary == "6 checks: 3 skipped, 1 ok, 2 failed"


def test_doctor_shows_each_of_them_with_its_reason_on_demand() -> None:
    table = doctor_view(checks(), whole=True)
    assert [row[2] for row in table.rows] == ["amd", "one", "cpu", "two", "odd", "too"]
    assert f"  backend amd: {WHY['amd']}" in table.details


def test_the_subject_is_whole_on_eighty_columns() -> None:
    document = doctor_document(
        [
            DoctorCheck(
                name="HIP compiler",
                subject="/a/folder/of/its/own/bin/clang++-22",
                state=CheckState.OK,
                what="works " * 12,
            )
        ],
        NO_ENVIRONMENT,
    )
    shown = plain(doctor_view(document), 80)
    assert "…" not in shown
    assert "clang++-22" in shown
