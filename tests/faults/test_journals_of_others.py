"""A journal of another invocation is refused, and the message names the part that differs: one plant for each part."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import fmha_null
import numpy as np
import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.device import Availability
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.results.plans import state_of
from fmha_cli.run import invocation
from fmha_cli.run.origin import this_host
from fmha_cli.run.request import Command, Request
from fmha_cli.toolchain.kernels import _NO_COMPILER
from tests.cli.conftest import Fmha
from tests.support.generators.journals import keeping
from tests.support.generators.report.samples import PROCESSOR

SWEEP = ("--backend", "null", "-H", "1", "-s", "16,24", "-d", "8")
HONEST = null_kernel(DType.FP16, Family.FWD).digest[:16]
RUN, VALIDATE, BENCH = ("run", *SWEEP), ("validate", *SWEEP), ("bench", *SWEEP, "--budget", "0.02")
Words = tuple[str, ...]

OTHERS: dict[str, tuple[Words, Words, str]] = {
    "run, then validate": (RUN, VALIDATE, "the command is validate here, run in the journal"),
    "unchecked, then checked": ((*RUN, "--no-check"), RUN, "--check is on here, off in the journal"),
    "no measurement of the machine": (RUN, (*RUN, "--no-probe"), "--probe is off here, on in the journal"),
    "another fill": (RUN, (*RUN, "--fill", "ties"), "--fill is ties here, normal in the journal"),
    "another fill seed": (RUN, (*RUN, "--fill-seed", "1"), "--fill-seed is 1 here, 0 in the journal"),
    "other repeats": (VALIDATE, (*VALIDATE, "--repeats", "3"), "--repeats is 3 here, 2 in the journal"),
    "fewer fills": (VALIDATE, (*VALIDATE, "--fill", "ties"), "--fill is ties here, normal,"),
    "other threads": ((*RUN, "--threads", "1"), (*RUN, "--threads", "2"), "--threads is 2 here, 1 in the journal"),
    "another time limit": (RUN, (*RUN, "--timeout", "9"), "--timeout is 9 here, 600 in the journal"),
    "outputs to write": (RUN, (*RUN, "--out", "o-{i}.npy"), "--out is o-{i}.npy here, unset in the journal"),
    "failures to save": (VALIDATE, (*VALIDATE, "--save-failures", "f"), "--save-failures is f here, unset in the"),
    "another label": (RUN, (*RUN, "--label", "b"), "--label is b here, unset in the journal"),
    "another device": (RUN, (*RUN, "--device", "null"), "--device is null here, unset in the journal"),
    "a kernel by name": (RUN, (*RUN, "--kernel", HONEST), f"--kernel is {HONEST} here, unset in the journal"),
    "a tree of sources": (RUN, (*RUN, "--ck-home", "ck"), "--ck-home is ck here, absent in the journal"),
    "another emulation": (RUN, (*RUN, "--emu-seed", "3"), "--emu-seed is 3 here, 0 in the journal"),
    "another budget of the check": (
        RUN,
        (*RUN, "--check-budget", "all"),
        "--check-budget is all here, 10 in the journal",
    ),
    "another time budget": (BENCH, (*BENCH[:-1], "0.03"), "--budget is 0.03 here, 0.02 in the journal"),
    "another longest time": (BENCH, (*BENCH, "--max-time", "9"), "--max-time is 9 here, 30 in the journal"),
    "another cache mode": (BENCH, (*BENCH, "--cache", "cold"), "--cache is cold here, hot in the journal"),
    "another peak": (BENCH, (*BENCH, "--peak", "spec"), "--peak is spec here, measured in the journal"),
    "another count of FLOPs": (BENCH, (*BENCH, "--flops", "dense"), "--flops dense is on here, off in the journal"),
    "every kernel": (BENCH, (*BENCH, "--all-kernels"), "--all-kernels is on here, off in the journal"),
    "another problem": (RUN, (*RUN[:6], "24,16", *RUN[7:]), "row 1 is `-H 1 -s 24"),
    "more problems": (RUN, (*RUN[:6], "16,24,32", *RUN[7:]), "other rows than this command line (2 and 3)"),
    "another feature": (RUN, (*RUN, "--lse"), "row 1 is `"),
}


def refused(fmha: Fmha, words: Words, why: str, **variables: str) -> None:
    done = fmha(*words, "--resume", "rows.journal", **variables)
    assert done.code == 2, done.err
    assert done.out == ""
    head = next(line for line in done.err.splitlines() if line.startswith("error"))
    assert head.startswith("error[X030]: journal rows.journal: ")
    assert why in head


def journalled(fmha: Fmha, words: Words) -> None:
    done = fmha(*words, "--journal", "rows.journal")
    assert done.code in (0, 1), done.err


Journals = dict[Words, bytes]


@pytest.fixture(scope="module")
def journals() -> Journals:
    """The journals of command lines that ran before in this module. They name no folder of a test."""
    return {}


def journalled_once(fmha: Fmha, journals: Journals, words: Words) -> None:
    if words not in journals:
        journalled(fmha, words)
        journals[words] = Path("rows.journal").read_bytes()
    Path("rows.journal").write_bytes(journals[words])


@pytest.mark.promise("A journal of another invocation is not resumed, nor a record that was changed.")
@pytest.mark.sampled(1, ci=12)
@pytest.mark.parametrize("name", OTHERS)
def test_another_invocation_is_refused_with_what_differs(fmha: Fmha, journals: Journals, name: str) -> None:
    first, second, why = OTHERS[name]
    journalled_once(fmha, journals, first)
    refused(fmha, second, why)


def test_what_changes_no_row_may_differ(fmha: Fmha, journals: Journals) -> None:
    """Where the output goes, how many compilers run, and an output format."""
    journalled_once(fmha, journals, RUN)
    again = fmha(*RUN, "--resume", "rows.journal", "--jobs", "1", "--json", "-o", "rows.json")
    assert again.code == 0, again.err


@pytest.mark.slow
@pytest.mark.ci
def test_a_nondeterministic_kernel_keeps_no_pass_of_run(fmha: Fmha) -> None:
    """``run`` passes it; its journal must not make ``validate`` pass it too."""
    kernel = null_kernel(DType.FP16, Family.FWD, Behaviour.NONDETERMINISTIC).digest[:16]
    row = ("--backend", "null", "-H", "1", "-s", "16", "-d", "8", "--kernel", kernel)
    assert fmha("run", *row, "--journal", "rows.journal").code == 0
    refused(fmha, ("validate", *row), "the command is validate here, run in the journal")


@pytest.mark.slow
@pytest.mark.ci
def test_a_changed_tensor_file_is_refused(fmha: Fmha) -> None:
    row = ("run", "--backend", "null", *(word for n in "qkv" for word in (f"--{n}", f"{n}.npy")))
    for name in "qkv":
        np.save(f"{name}.npy", np.ones((1, 1, 16, 8), np.float16))
    journalled(fmha, row)
    np.save("v.npy", np.full((1, 1, 16, 8), 2, np.float16))
    refused(fmha, row, "invocation: v.npy has changed")
    np.savez("t.npz", q=np.ones((1, 1, 16, 8), np.float16), k=np.ones((1, 1, 16, 8), np.float16))
    one = ("run", "--backend", "null", "--q", "t.npz", "--k", "t.npz", "--v", "filled")
    assert fmha(*one, "--journal", "one.journal").code == 0
    np.savez("t.npz", q=np.ones((1, 1, 16, 8), np.float16), k=np.zeros((1, 1, 16, 8), np.float16))
    assert "invocation: t.npz (k) has changed" in fmha(*one, "--resume", "one.journal").err


@pytest.mark.slow
@pytest.mark.ci
def test_a_changed_baseline_is_refused(fmha: Fmha) -> None:
    assert fmha(*BENCH, "--json", "-o", "base.json").code == 0
    row = (*BENCH, "--baseline", "base.json")
    journalled(fmha, row)
    Path("base.json").write_text(Path("base.json").read_text("utf-8") + "\n", "utf-8")
    refused(fmha, row, "the content of base.json has changed")


def test_a_label_may_come_from_a_variable(fmha: Fmha, journals: Journals) -> None:
    journalled_once(fmha, journals, RUN)
    refused(fmha, RUN, "--label is nightly here", FMHA_LABEL="nightly")


def _other_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_cli.toolchain.kernels._NO_COMPILER", replace(_NO_COMPILER, version="2"))


def _other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fmha_cli.run.run.this_host", lambda: replace(this_host(), processor=replace(PROCESSOR, name="another"))
    )


def _other_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_cli.run.run.this_host", lambda: replace(this_host(), drivers={"nvidia": "1"}))


def _other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_cli.run.journals.__version__", "9.9")


def _other_arch(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Registry.arch

    def arch(registry: Registry, name: str) -> ArchSpec:
        return replace(real(registry, name), title="changed")

    monkeypatch.setattr(Registry, "arch", arch)


def _other_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    real = fmha_null.backend.probe

    def probe() -> Availability:
        return replace(real(), version="7")

    monkeypatch.setattr(fmha_null.backend, "probe", probe)


def _edited_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(fmha_null.__file__).parent
    copy = Path("edited").resolve()
    shutil.copytree(place, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "attention.py").write_text("# edited\n", "utf-8")
    monkeypatch.setattr(fmha_null, "__file__", str(copy / "__init__.py"))


@pytest.mark.promise("A journal of another invocation is not resumed, nor a record that was changed.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_other_compiler, "is built from other sources, with other flags or by another compiler"),
        (_other_host, "the machine is another"),
        (_other_driver, "the machine's drivers and compilers has changed"),
        (_other_version, "wrote it, this is 9.9"),
        (_other_arch, "architecture null has changed"),
        (_other_backend, "backend null is 7 here"),
        (_edited_plugin, "the source of plugin null has changed"),
    ],
)
def test_another_environment_is_refused(
    fmha: Fmha,
    journals: Journals,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch], None],
    why: str,
) -> None:
    journalled_once(fmha, journals, RUN)
    change(monkeypatch)
    refused(fmha, RUN, why)


OTHER_VALUES: dict[type, Any] = {str: "other", int: 77, float: 7.5, bool: None}


@pytest.mark.parametrize("name", [field.name for field in fields(Request)])
def test_every_member_of_a_request_is_a_part_or_is_left_out_for_a_reason(name: str) -> None:
    """A member that someone adds is a part at once."""
    request = Request()
    value = getattr(request, name)
    other: Any = ("other", "other") if value is None or isinstance(value, tuple) else OTHER_VALUES.get(type(value))
    other = (not value) if isinstance(value, bool) else Command.BENCH if name == "command" else other
    if name in invocation._APART:
        assert len(invocation._APART[name]) > 10
        return
    assert dict(invocation._options(request)) != dict(invocation._options(replace(request, **{name: other})))


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_against_itself_is_two_rows(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    """The A/A check: what a careful user tries first."""
    row = ("bench", "--backend", "null", "-H", "1", "-s", "16", "-d", "8", "--budget", "0.05")
    together = keeping(monkeypatch)
    done = fmha(*row, "--ab", HONEST, HONEST, "--json", "--journal", "rows.journal")
    assert done.code == 0, done.err
    first, second = done.document["records"]
    assert first["kernel"]["digest"] == second["kernel"]["digest"]
    assert first["ab"]["ratio"] * second["ab"]["ratio"] == pytest.approx(1)
    assert {first["selected_by"], second["selected_by"]} == {"ab"}
    assert len(set(state_of(Path("rows.journal"), None)[1].start.keys)) == 2
    assert together == [2], "both are kept, or none"
    again = fmha(*row, "--ab", HONEST, HONEST, "--json", "--resume", "rows.journal")
    assert again.document["records"] == done.document["records"]


@pytest.mark.slow
@pytest.mark.ci
def test_pairs_are_timed_in_one_cache_mode(fmha: Fmha) -> None:
    """Hot against hot and cold against cold, not one kernel hot against itself cold."""
    split = null_kernel(DType.FP16, Family.FWD_SPLITKV).digest[:16]
    done = fmha("bench", *SWEEP, "--budget", "0.02", "--ab", HONEST, split, "--cache", "both", "--json")
    rows = done.document["records"]
    caches = [row["measurement"]["cache"] for row in rows]
    assert caches == ["hot", "hot", "cold", "cold"] * 2
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert first["kernel"]["name"] == second["ab"]["against"] != second["kernel"]["name"]
