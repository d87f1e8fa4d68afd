"""When settings are measured, and what decides where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from fmha_null import NullBackend
from fmha_null.kernels import null_kernel

from fmha_cli.discovery.select import Choice
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.run.peaks import settings_of
from fmha_cli.run.request import Context
from fmha_cli.run.rows import Row

OWN = Settings(values={"near": 8}, source=SettingsFrom.KERNEL)
FACTS = Settings(values={"near": 2}, source=SettingsFrom.FACTS)
MEASURED = Settings(values={"near": 4}, source=SettingsFrom.MEASURED)
DEVICE = DeviceFacts(id="cpu", archs=("null",))
ARTIFACT = Artifact(Path("kernel"), "", "digest", Path("log"), True, 0.0)


@dataclass
class TunableBackend(NullBackend):
    """Its plain kernel takes settings; a long problem is worth a measurement."""

    known: Settings | None

    def default_settings(self, kernel: KernelSpec, device: DeviceFacts) -> Settings | None:
        return self.known if kernel.family is Family.FWD else None

    def worth_measuring(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> bool:
        return problem.seqlen_k > 100

    def measure_settings(self, artifact: Path, kernel: KernelSpec, threads: int) -> Mapping[str, int]:
        raise AssertionError("only the worker measures")


@dataclass
class SettingsSupervisor:
    """Stands in for the supervisor."""

    fails: bool = False
    seen: list[str] = field(default_factory=list)

    def settings(self, entry: str, backend: str, artifact: Artifact, kernel: str, threads: int) -> Mapping[str, int]:
        self.seen.append(kernel)
        if self.fails:
            raise EnvironmentProblem("it died")
        return MEASURED.values


def row(seqlen: int, *families: Family) -> Row:
    kernels = [null_kernel(DType.FP32, family) for family in families or (Family.FWD,)]
    problem = Problem.from_cli(f"-s {seqlen} --dtype fp32")
    plan = Plan(problem, tuple(Stage(kernel) for kernel in kernels))
    return Row(group=0, problem=problem, choice=Choice(Supported(kernels[0], (0,)), DEVICE), plan=plan)


def found(
    cache: Path,
    asked: SettingsSupervisor,
    one: Row,
    known: Settings | None = OWN,
    *,
    probe: bool = True,
    said: list[str] | None = None,
) -> Settings | None:
    registry = SimpleNamespace(backend=lambda name: TunableBackend(known), entry_point=lambda name: "entry")
    context = SimpleNamespace(
        request=SimpleNamespace(probe=probe),
        registry=registry,
        building=BuildContext(cache_root=cache),
        supervisor=asked,
        threads=1,
        voice=Voice(([] if said is None else said).append),
    )
    stages = one.plan.stages if one.plan else ()
    return settings_of(one, [ARTIFACT] * len(stages), cast(Context, context))


def test_what_nobody_knows_is_measured_once(tmp_path: Path) -> None:
    asked, said = SettingsSupervisor(), list[str]()
    assert found(tmp_path, asked, row(512), said=said) == MEASURED
    assert found(tmp_path, asked, row(512), said=said) == MEASURED
    assert len(asked.seen) == len(said) == 1
    assert "measuring the settings of null" in said[0]


def test_what_was_measured_serves_small_problems_too(tmp_path: Path) -> None:
    asked = SettingsSupervisor()
    assert found(tmp_path, asked, row(64)) == OWN
    found(tmp_path, asked, row(512))
    assert found(tmp_path, asked, row(64)) == MEASURED
    assert found(tmp_path, asked, row(64), probe=False) == MEASURED
    assert len(asked.seen) == 1


@pytest.mark.promise("Settings of CPU kernels come from sourced facts, or from a measurement despite noise.")
@pytest.mark.parametrize(
    ("one", "known", "probe", "wanted"),
    [
        (row(512), FACTS, True, FACTS),
        (row(512), OWN, False, OWN),
        (row(512), None, True, None),
        (row(512, Family.FWD_SPLITKV), OWN, True, None),
        (replace(row(512), choice=None), OWN, True, None),
    ],
)
def test_nothing_is_measured(tmp_path: Path, one: Row, known: Settings | None, probe: bool, wanted: Settings) -> None:
    asked = SettingsSupervisor()
    assert found(tmp_path, asked, one, known, probe=probe) == wanted
    assert asked.seen == []


def test_the_first_stage_that_takes_settings_decides(tmp_path: Path) -> None:
    asked = SettingsSupervisor()
    assert found(tmp_path, asked, row(512, Family.FWD_SPLITKV, Family.FWD)) == MEASURED
    assert asked.seen == [null_kernel(DType.FP32, Family.FWD).name]


def test_a_measurement_that_fails_leaves_the_kernels_own(tmp_path: Path) -> None:
    said: list[str] = []
    assert found(tmp_path, SettingsSupervisor(fails=True), row(512), said=said) == OWN
    assert said[-1].endswith("runs with its own settings: it died")
