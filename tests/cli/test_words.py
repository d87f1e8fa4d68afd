"""What commands say in words: the doctor about what was named, the cache about one kernel, the facts of an architecture."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from fmha_null.kernels import null_kernel

from fmha_cli.bench.peaks import Machine, MeasuredKernel, measured_once
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.doctor import _backend, _processor
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.installation import CheckState, Surroundings
from fmha_cli.domain.kernel import Family
from fmha_cli.report.documents.cache import cache_document
from fmha_cli.report.documents.installation import archs_document, fact_text
from fmha_cli.report.drawing import plain
from fmha_cli.report.formats import view
from fmha_cli.toolchain.cache.why import KeyDifference, KeyExplanation, KeyStanding
from tests.cli.conftest import Fmha
from tests.support.generators.report.samples import PROCESSOR


@pytest.mark.promise("An error of the system is shown as the cause, and nothing that was named is skipped.")
@pytest.mark.parametrize("state", [State.NO_DEVICE, State.MISSING, State.BROKEN])
def test_what_was_named_is_never_skipped(state: State) -> None:
    """Nothing is skipped that the user asked for: it is not here, and the exit code is 4."""
    found = Availability(state=state, why="no driver", help="install it")
    named = _backend(None, "b", found, named=True)  # type: ignore[arg-type]
    assert (named.state, named.why, named.help) == (CheckState.FAILED, "no driver", "install it")
    other = _backend(None, "b", found, named=False)  # type: ignore[arg-type]
    assert other.state is (CheckState.FAILED if state is State.BROKEN else CheckState.SKIPPED)
    assert other.what == named.what


def _here(cache: Path) -> Surroundings:
    return Surroundings(cache_root=cache, environ={}, options={}, notify=lambda text: None)


def test_the_doctor_shows_the_processor_and_what_was_measured_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what was measured on another machine with the same cache, nor for a kernel whose plugin is gone."""
    machine = Machine(processor=PROCESSOR, flags_digest="", cores=2, threads=1, toolchain="", arch="null")
    names = [null_kernel(dtype, Family.FWD).name for dtype in (DType.FP16, DType.FP32)]
    for one, name, value in (
        (machine, names[0], 4096),
        (replace(machine, processor=replace(PROCESSOR, model=2)), names[1], 1),
        (machine, "gone:fwd:null", 2),
    ):
        measured_once(tmp_path, MeasuredKernel(machine=one, kernel=name), partial(dict, ahead=value))
    monkeypatch.setattr("fmha_cli.cli.doctor.this_processor", lambda: PROCESSOR)
    call = cast(CliCall, SimpleNamespace(registry=build_registry()))
    shown = {check.name: check for check in _processor(call, _here(tmp_path))}
    assert len(list(_processor(call, _here(tmp_path)))) == len(shown) == 3
    assert shown["processor"].subject == "AMD EPYC (AMD Zen 4, family 25 model 17)"
    assert "decode_prefetch near 2048 far 16384 pages 1; query_tiles 1; zmm_rate 1.0" in str(shown["processor"].what)
    assert shown["settings"].subject.startswith("null ")
    assert shown["settings"].what == "ahead 4096, measured with 1 thread"
    assert all(check.state is CheckState.OK for check in shown.values())


def test_the_doctor_says_that_a_processor_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = replace(PROCESSOR, model=255, microarchitecture=None)
    monkeypatch.setattr("fmha_cli.cli.doctor.this_processor", lambda: unknown)
    first = next(iter(_processor(cast(CliCall, SimpleNamespace(registry=build_registry())), _here(tmp_path))))
    assert "measured once" in str(first.what)


@pytest.mark.promise("`archs NAME`, `cache verify` and `cache why` answer in words, with sources.")
@pytest.mark.parametrize("arch", ["gfx942", "sm_100", "x86_64_v4"])
def test_the_facts_of_an_architecture_have_values_and_sources(fmha: Fmha, arch: str) -> None:
    spec = load_arch(arch)
    table = view(archs_document([spec]))
    assert [row[0] for row in table.rows] == sorted(spec.facts)
    for name, value, source in table.rows:
        assert value, name
        assert source == spec.facts[name]["source"]
    assert table.summary.startswith(f"{arch}: {spec.title}")
    shown = fmha("archs", arch, COLUMNS="80").out
    assert all(name in shown for name in spec.facts)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("lds_bytes", 65536, "64.0 KiB"),
        ("matrix_shapes", [[32, 32], [16, 16]], "32x32, 16x16"),
        ("compute_capability", [9, 0], "9.0"),
        ("peak_flops", {"fp16": 2.25e15}, "fp16 2250 TFLOP/s"),
        ("peak_bandwidth", 8e12, "8.00 TB/s"),
        ("other_products", {"X": {"sm_count": 4, "llc_bytes": 1024}}, "X sm_count 4, llc_bytes 1.00 KiB"),
        ("cpu_flags", [], "none"),
    ],
)
def test_facts_in_words(name: str, value: object, text: str) -> None:
    assert fact_text(name, value) == text


@pytest.mark.promise("`archs NAME`, `cache verify` and `cache why` answer in words, with sources.")
@pytest.mark.parametrize("standing", KeyStanding)
def test_the_cache_says_in_a_sentence_whether_a_build_would_find_a_kernel(standing: KeyStanding) -> None:
    why = KeyExplanation("ab" * 32, standing, None, (), ("a log",))
    text = plain(view(cache_document("/cache", (), why)))
    assert text.splitlines()[-1].startswith("abababab: it ")
    assert "  a log" in text
    assert "nearest" not in text
    assert "None" not in text


def test_the_parts_in_which_the_nearest_entry_differs_are_a_table() -> None:
    differences = (
        KeyDifference("flags", ["-O3"], ["-O2"]),
        KeyDifference("source", "1", None),
        KeyDifference("x", None, ""),
    )
    why = KeyExplanation("ab" * 32, KeyStanding.DIFFERS, "cd" * 32, differences, ())
    table = view(cache_document("/cache", (), why))
    assert table.headers == ["part of the key", "entry cdcdcdcd", "key abababab"]
    assert table.rows == [["flags", "-O3", "-O2"], ["source", "1", "absent"], ["x", "absent", "empty"]]


@pytest.mark.usefixtures("small_cache")
def test_a_sound_cache_is_verified_in_words(fmha: Fmha) -> None:
    shown = fmha("cache", "verify").out
    assert "checked in" in shown
    assert "none damaged" in shown


@pytest.mark.promise("Long work shows its phase, its time and what is left; `-q` leaves the data alone.")
@pytest.mark.usefixtures("small_cache")
def test_quiet_leaves_the_data_and_no_summary(fmha: Fmha) -> None:
    loud, quiet = fmha("profiles"), fmha("profiles", "-q")
    assert loud.out.splitlines()[:-1] == quiet.out.splitlines()
    assert "profile" in loud.out.splitlines()[-1]
    assert fmha("profiles", "-q", "--md").out.rstrip() == "\n".join(fmha("profiles", "--md").out.splitlines()[:-2])
    assert fmha("profiles", "-q", "--json").document == fmha("profiles", "--json").document
    assert fmha("cache", "verify", "-q").out == ""
    assert fmha("cache", "verify", "-q", "-o", "empty.txt").code == 0
    assert Path("empty.txt").read_text() == "\n"


@pytest.mark.promise("Long work shows its phase, its time and what is left; `-q` leaves the data alone.")
@pytest.mark.slow
@pytest.mark.ci
def test_verbose_tells_where_the_time_went(fmha: Fmha) -> None:
    done = fmha("run", "--backend", "null", "-H", "2", "-s", "16", "-d", "8", "-v")
    (line,) = [line for line in done.err.splitlines() if line.startswith("took ")]
    for phase in ("setup", "build", "inputs", "reference", "launch", "judge"):
        assert f"{phase} " in line
    assert "took" not in fmha("run", "--backend", "null", "-H", "2", "-s", "16", "-d", "8").err


def test_unknown_ids_are_not_answered_with_all_of_them(fmha: Fmha) -> None:
    for id in ("M001", "M002", "k012"):
        assert fmha("explain", id).out.startswith(f"{id.upper()}: ")
    unknown = fmha("explain", "K9999")
    assert unknown.code == 2
    assert len(unknown.err.splitlines()) <= 3
    assert "fmha explain --rules" in unknown.err or "did you mean" in unknown.err
    assert "M001" in fmha("explain", "--rules", "M").out
