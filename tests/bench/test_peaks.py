"""Stored peaks: one measurement per machine, the better one is kept, a damaged file is measured again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fmha_cli.bench.peaks import Machine, load_peaks, measured_peaks, spec_peaks, this_machine
from fmha_cli.bench.roofline import PeakKind, Peaks
from fmha_cli.domain.arch import ArchSpec, load_arch
from tests.support.generators.report.samples import PROCESSOR

MACHINE = Machine(processor=PROCESSOR, flags_digest="f", cores=2, threads=2, toolchain="g++ 12", arch="x86_64_v4")
LOW = Peaks(kind=PeakKind.MEASURED, flops={"fp32": 1e11, "bf16": 9e11}, bandwidth=4e10, llc_bytes=1, source="loops")
HIGH = replace(LOW, flops={"fp32": 5e11, "bf16": 8e11}, bandwidth=5e10)


class Loop:
    """A measuring function that counts its calls."""

    def __init__(self, *answers: Peaks) -> None:
        self.answers = list(answers)

    def __call__(self) -> Peaks:
        return self.answers.pop(0)


def test_measured_once_per_machine(tmp_path: Path) -> None:
    loop = Loop(LOW, HIGH)
    assert load_peaks(tmp_path, MACHINE) is None
    assert measured_peaks(tmp_path, MACHINE, loop) == LOW
    assert measured_peaks(tmp_path, MACHINE, loop) == LOW
    assert len(loop.answers) == 1
    assert measured_peaks(tmp_path, replace(MACHINE, threads=1), loop) == HIGH


def test_again_keeps_the_better_of_each(tmp_path: Path) -> None:
    loop = Loop(LOW, HIGH)
    measured_peaks(tmp_path, MACHINE, loop)
    best = measured_peaks(tmp_path, MACHINE, loop, again=True)
    assert best.flops == {"bf16": 9e11, "fp32": 5e11}
    assert best.bandwidth == 5e10
    assert load_peaks(tmp_path, MACHINE) == best


def test_a_damaged_file_is_measured_again(tmp_path: Path) -> None:
    measured_peaks(tmp_path, MACHINE, Loop(LOW))
    (file,) = (tmp_path / "peaks").iterdir()
    file.write_bytes(file.read_bytes().replace(b"40000000000.0", b"90000000000.0"))
    assert load_peaks(tmp_path, MACHINE) is None
    assert measured_peaks(tmp_path, MACHINE, Loop(HIGH)) == HIGH


def test_machine_identity(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(
        "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fma avx2\n\nprocessor\t: 1\nmodel name\t: Other\n"
    )
    one = this_machine(2, "g++", "x86_64_v3", info)
    assert one.processor.name == "Some CPU"
    assert one.cores >= 1
    info.write_text("model name : Some CPU\nflags : avx2 fma\n")
    assert this_machine(2, "g++", "x86_64_v3", info) == one
    info.write_text("model name : Some CPU\nflags : avx2 fma avx512f\n")
    assert this_machine(2, "g++", "x86_64_v3", info).digest != one.digest
    assert this_machine(2, "g++", "x86_64_v3", tmp_path / "none").processor.name


def test_spec_peaks_come_from_the_facts() -> None:
    def arch(**facts: object) -> ArchSpec:
        return ArchSpec("a", "amd", "t", {k: {"value": v, "source": "sheet"} for k, v in facts.items()}, {})

    found = spec_peaks(arch(peak_flops={"fp16": 1e15}, peak_bandwidth=5e12, llc_bytes=256 << 20))
    assert found is not None
    assert found.kind is PeakKind.SPEC
    assert found.flops == {"fp16": 1e15}
    assert found.llc_bytes == 256 << 20
    assert found.source == "sheet; sheet"
    assert spec_peaks(arch(lanes=16)) is None


def test_spec_peaks_of_a_device_are_those_of_its_product() -> None:
    spec = load_arch("sm_90")
    own, other = spec_peaks(spec, "NVIDIA H200"), spec_peaks(spec, "NVIDIA H100 80GB HBM3")
    assert own == spec_peaks(spec)
    assert own is not None
    assert other is not None
    assert (own.bandwidth, other.bandwidth) == (4.8e12, 3.35e12)
    assert other.source.startswith("H100 SXM5: ")
    assert other.flops["fp8_e4m3"] > other.flops["bf16"] > other.flops["fp32"]
    # no spec peaks for an unknown device, so no time is rejected
    assert spec_peaks(spec, "NVIDIA H100 of another make") is None
