"""The model of a CPU, and the facts of microarchitectures with their sources."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from fmha_cli.domain import processor
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.processor import cpu_fields, microarchitecture, microarchitectures, processor_of, this_processor

EPYC = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: AMD EPYC\nstepping\t: 1\n"
GRAVITON = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n"


@pytest.mark.parametrize(
    ("text", "name", "numbers"),
    [
        (EPYC.format(25, 17), "zen4", (25, 17)),
        (EPYC.format(25, 1), "zen3", (25, 1)),
        (EPYC.format(26, 2), "zen5", (26, 2)),
        (EPYC.format(26, 80), None, (26, 80)),
        (EPYC.format(99, 2), None, (99, 2)),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 143\nmodel name\t: X\n", "sapphire-rapids", (6, 143)),
        (GRAVITON, "neoverse-v1", (8, 0xD40)),
        ("model name\t: no numbers\n", None, (None, None)),
        ("model\t: many\ncpu family\t: -\n", None, (None, None)),
        ("", None, (None, None)),
    ],
)
def test_family_and_model_name_the_microarchitecture(text: str, name: str | None, numbers: tuple[int, int]) -> None:
    found = processor_of(text)
    assert found.microarchitecture == name
    assert (found.family, found.model) == numbers
    assert found.name


def test_two_processors_of_one_name_are_told_apart() -> None:
    one, other = processor_of(EPYC.format(25, 17)), processor_of(EPYC.format(26, 2))
    assert one.name == other.name
    assert one.text == "AMD EPYC (AMD Zen 4, family 25 model 17)"
    assert other.text == "AMD EPYC (AMD Zen 5, family 26 model 2)"
    assert processor_of("model name\t: A\n").text == "A"


def test_the_fields_of_the_first_processor() -> None:
    fields = cpu_fields("processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu avx\n\nprocessor\t: 1\nflags\t: x\n")
    assert (fields["model name"], fields["flags"]) == ("A: B", "fpu avx")


def test_a_system_without_the_file_has_a_name_only(tmp_path: Path) -> None:
    found = this_processor(tmp_path / "nothing")
    assert (found.vendor, found.model, found.microarchitecture) == ("", None, None)


def test_no_processor_is_of_two_microarchitectures() -> None:
    for one, other in combinations(microarchitectures(), 2):
        assert one.name != other.name
        if (one.vendor, one.family) == (other.vendor, other.family):
            assert not any(a <= d and c <= b for a, b in one.models for c, d in other.models), (one.name, other.name)


def test_every_row_and_fact_has_a_source() -> None:
    rows = microarchitectures()
    assert {"zen4", "zen5", "sapphire-rapids"} <= {row.name for row in rows}
    assert all(row.source and row.models for row in rows)
    found = microarchitecture(processor_of(EPYC.format(26, 2)))
    assert found is not None
    assert found.fact("zmm_rate") == 2.0
    assert found.fact("nobody knows") is None


@pytest.mark.promise("Settings of CPU kernels come from sourced facts, or from a measurement despite noise.")
def test_planted_a_fact_without_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    row = dict(arch_document(processor.FILE, processor.SCHEMA)["processors"][1])
    bare = {"processors": [row | {"facts": {"zmm_rate": {"value": 1.0}}}]}
    monkeypatch.setattr(processor, "arch_document", lambda file, schema: bare)
    with pytest.raises(InternalError, match="zen4: no source of zmm_rate"):
        microarchitectures.__wrapped__()
