"""Settings that were measured are kept for one machine and one kernel, and a damaged file is measured again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fmha_cli.bench.peaks import Machine, MeasuredKernel, every_kept, kept_settings, measured_once
from fmha_cli.domain.settings import Settings, SettingsFrom
from tests.support.generators.report.samples import PROCESSOR

MACHINE = Machine(processor=PROCESSOR, flags_digest="f", cores=2, threads=2, toolchain="digest", arch="x86_64_v4")
SUBJECT = MeasuredKernel(machine=MACHINE, kernel="cpu:fwd:x")
FOUND = Settings(values={"far": 8, "near": 2}, source=SettingsFrom.MEASURED)


class Measuring:
    """A measurement that counts its calls."""

    def __init__(self, **values: int) -> None:
        self.values, self.calls = values, 0

    def __call__(self) -> Mapping[str, int]:
        self.calls += 1
        return self.values


def test_once_for_each_machine_and_kernel(tmp_path: Path) -> None:
    measure = Measuring(near=2, far=8)
    assert kept_settings(tmp_path, SUBJECT) is None
    assert measured_once(tmp_path, SUBJECT, measure) == FOUND
    assert measured_once(tmp_path, SUBJECT, measure) == FOUND
    assert measure.calls == 1
    others = (
        replace(SUBJECT, kernel="cpu:fwd:y"),
        replace(SUBJECT, machine=replace(MACHINE, threads=1)),
        replace(SUBJECT, machine=replace(MACHINE, toolchain="another build")),
        replace(SUBJECT, machine=replace(MACHINE, processor=replace(PROCESSOR, model=2))),
    )
    assert [kept_settings(tmp_path, other) for other in others] == [None] * 4
    measured_once(tmp_path, others[0], measure)
    assert dict(every_kept(tmp_path))[SUBJECT] == FOUND
    assert len(list(every_kept(tmp_path))) == 2


def test_a_damaged_file_is_measured_again(tmp_path: Path) -> None:
    measured_once(tmp_path, SUBJECT, Measuring(near=2))
    (file,) = (tmp_path / "settings").iterdir()
    file.write_bytes(file.read_bytes().replace(b'"near":2', b'"near":9'))
    assert kept_settings(tmp_path, SUBJECT) is None
    assert list(every_kept(tmp_path)) == []
    assert measured_once(tmp_path, SUBJECT, Measuring(near=3)).values == {"near": 3}
    file.write_text("no JSON")
    assert list(every_kept(tmp_path)) == []
