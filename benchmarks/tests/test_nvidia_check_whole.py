"""The NVIDIA check from end to end, simulated with the CPU backend, and its dry run on the available kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import gpu_check
import pytest
from check_case import CheckCase
from nvidia_check import check as checking
from nvidia_check import dry, flash_cases
from nvidia_check.budget import Budget
from nvidia_check.check import Options
from nvidia_check.kernels import Pool, Supply
from nvidia_check.results import Result, good, table
from nvidia_check.subjects import CUDNN, EFFICIENT, FLASH, FLASH_3, SUBJECTS, Subject

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Artifact
from fmha_cli.run import dry_run as walking
from fmha_cli.run.builds import KernelOutcome
from fmha_cli.run.request import Order
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cache.store import Cache
from tests.support.fakes.exports import fake_exports

CASES = (
    CheckCase("plain", "-b 1 -H 2 -s 40 -d 64 --dtype bf16 --causal --splits 1", ("fwd",)),
    CheckCase("packed", "--seqlens-q 9,3 -H 2 -d 64 --dtype bf16 --splits 1", ("fwd",)),
    CheckCase("refused", "-b 1 -H 2 -s 40 -d 600 --dtype bf16", ("fwd",)),
)
SUBJECT = Subject(
    backend="cpu",
    title="the CPU in the place of a GPU",
    cases=CASES,
    sanitized=("plain",),
    points=(),
    draw=flash_cases.drawn,
    count=7,
    rivals=(),
)


def options_of(folder: Path, cache_root: Path, archive: Path | None = None) -> Options:
    parts = ("cases", "speed", "random", "sanitizer")
    return Options(
        cache_root=cache_root, folder=folder, archive=archive, processes=2, jobs=1, parts=parts, count=6, seed=1
    )


@pytest.fixture(autouse=True)
def _no_sanitizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "tool", lambda: None)


def parts_of(results: list[Result]) -> dict[str, list[tuple[str, str]]]:
    out: dict[str, list[tuple[str, str]]] = {}
    for r in results:
        out.setdefault(r.part, []).append((r.name, r.verdict))
    return out


@pytest.mark.slow
@pytest.mark.ci
def test_the_whole_check(tmp_path: Path, shared_cache: Path) -> None:
    device, why = checking.first_device(["cpu"])
    assert device is not None, why
    results, notes = checking.check(device, [SUBJECT], options_of(tmp_path, shared_cache), Budget(200))
    found = parts_of(results)
    assert found["cases"] == [("plain", "PASSED"), ("packed", "PASSED"), ("refused", "UNSUPPORTED")]
    assert found["random"] == [(f"random {n}", "PASSED") for n in range(6)]
    assert {verdict for _, verdict in found["sanitizer"]} == {"NOT_RUN"}
    assert "speed" not in found  # no points were requested
    assert "K012" in (next(r for r in results if r.name == "refused").why or "")
    assert notes["kernels"]["cpu"]["missing"] == {}
    assert {(r.backend, r.arch) for r in results} == {("cpu", notes["arch"])}
    assert set(notes["seconds"]) >= {"kernels", "cases", "speed", "random", "sanitizer"}
    assert notes["environment"]["versions"]["numpy"] != "absent"
    assert any("random" in line for line in table(results))


def test_a_check_without_time_begins_nothing(tmp_path: Path, shared_cache: Path) -> None:
    device, _ = checking.first_device(["cpu"])
    assert device is not None
    results, _ = checking.check(device, [SUBJECT], options_of(tmp_path, shared_cache), Budget(12))
    assert {r.verdict for r in results if r.name != "refused"} == {"NOT_RUN"}
    begun = [r.why for r in results if r.part in ("cases", "random") and r.name != "refused"]
    assert begun
    assert all("was not begun" in (why or "") or "too few" in (why or "") for why in begun)


@pytest.mark.parametrize(("used", "speeds", "randoms"), [(60, 270, 150), (320, 130, 60), (480, 0, 30), (500, 0, 10)])
def test_what_is_left_is_divided_among_the_backends_and_the_later_parts(used: int, speeds: int, randoms: int) -> None:
    """Each backend has its share of a part, the races leave time for the random problems, and nothing exceeds the budget."""
    clock = [0.0]
    budget = Budget(510, lambda: clock[0])
    clock[0] += used
    spent = dict.fromkeys(("speed", "random"), 0.0)
    for part in spent:
        for subject in SUBJECTS:
            going = checking.Going(*[None] * 6, subject.share, False)  # type: ignore[arg-type]
            seconds = going.seconds(budget, part) or 0.0
            assert seconds <= checking.MOST[part] * subject.share
            spent[part], clock[0] = spent[part] + seconds, clock[0] + seconds
    assert (round(spent["speed"]), round(spent["random"])) == (speeds, randoms)
    assert budget.used <= 510


@pytest.mark.parametrize("subject", [FLASH_3, CUDNN], ids=lambda subject: subject.backend)
def test_a_backend_without_kernels_for_the_device_is_not_run(subject: Subject, tmp_path: Path) -> None:
    """The rest of the check goes on, so an A100 confirms what it can."""
    why = f"{subject.backend} has no kernels for sm_80"
    options = options_of(tmp_path, tmp_path / "cache")
    checked, notes = checking.check(DeviceFacts.of_arch("sm_80"), [subject], options, Budget(100))
    dried, _ = dry.dry_run("sm_80", [subject], options, Budget(100))
    assert notes["arch"] == "sm_80"
    for rows in (checked, dried):
        assert {(r.part, r.name) for r in rows} >= {("cases", case.name) for case in subject.cases}
        assert {r.verdict for r in rows} == {"NOT_RUN"}
        assert {r.backend for r in rows} == {subject.backend}
        assert all(why in (r.why or "") for r in rows)
        assert good(rows)


def test_the_kernels_of_a_backend_without_any_for_the_device_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import gpu_prepare

    monkeypatch.setenv("FMHA_CACHE_DIR", str(tmp_path / "cache"))
    words = ["gpu_prepare.py", "--arch", "sm_80", "--backend", "flash_attn_3", "--offline"]
    monkeypatch.setattr("sys.argv", [*words, "-o", str(tmp_path / "k.tar.xz")])
    assert gpu_prepare.main() == 1  # an archive of nothing
    said = capsys.readouterr().out
    assert "flash_attn_3 has no kernels for sm_80" in said
    assert "refused" not in said


def test_the_race_says_why_it_did_not_take_place(tmp_path: Path, shared_cache: Path) -> None:
    """Without PyTorch or a device, every point is NOT_RUN with the last output of the process."""
    setting = checking.Setting(
        backend="flash_attn",
        device="cuda:9",
        cache_root=str(shared_cache),
        folder=tmp_path,
        fills=("normal",),
        processes=1,
    )
    nothing = Pool({}, {}), Supply({}, {})
    going = checking.Going(
        FLASH, build_registry().backend("flash_attn"), DeviceFacts.of_arch("sm_90"), setting, *nothing, 1.0, True
    )
    results = checking._speed(going, options_of(tmp_path, shared_cache), Budget(200))
    assert len(results) == len(FLASH.points) > 40
    assert {r.verdict for r in results} == {"NOT_RUN"}
    assert all("its process ended with 1" in (r.why or "") for r in results)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive without kernels."""
    return export_entries(Cache(tmp_path / "empty").layout, [], tmp_path / "none.tar.xz").archive


@pytest.mark.slow
@pytest.mark.ci
def test_a_dry_run_does_what_it_can(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All built-in backends without kernels and sources: every row is planned and reports what is missing."""
    out = tmp_path / "out.json"
    words = ["--vendor", "nvidia", "--dry-run", "--archive", str(archive), "--count", "3", "-o", str(out)]
    words += ["--backend", ",".join(subject.backend for subject in SUBJECTS)]
    monkeypatch.setattr("sys.argv", ["gpu_check.py", *words])
    assert gpu_check.main() == 0
    document = json.loads(out.read_text())
    assert {row["verdict"] for row in document["rows"]} == {"NOT_RUN"}
    assert all(row["why"] for row in document["rows"])
    assert {row["backend"] for row in document["rows"]} == {subject.backend for subject in SUBJECTS}
    assert document["notes"]["archive"] == {"added": 0, "bytes": archive.stat().st_size, "present": 0}
    assert all("a kernel is missing" in row["why"] for row in document["rows"] if row["part"] == "cases")
    assert "missing" in capsys.readouterr().out


SOME = (
    replace(FLASH, cases=FLASH.cases[::3], points=()),
    replace(FLASH_3, cases=FLASH_3.cases[::3], points=()),
    replace(EFFICIENT, cases=EFFICIENT.cases[::4], points=()),
    replace(CUDNN, points=()),
)
"""Part of the cases of the three backends with many, and no points, because a dry run of the cases would plan them for
nothing.
"""


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("subject", SOME, ids=lambda subject: subject.backend)
def test_a_dry_run_goes_as_far_as_the_launch(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With cubins that contain only the tables of a kernel, every case gets as far as its grids."""

    upstream = build_registry().backend(subject.backend).upstream  # type: ignore[attr-defined]

    def artifact(stage: object) -> Artifact:
        kernel = stage.kernel  # type: ignore[attr-defined]
        path = tmp_path / f"{kernel.digest}.cubin"
        path.write_bytes(fake_exports(kernel.arch, upstream.expect_exports(kernel)))
        return Artifact(path, sha256(path.read_bytes()).hexdigest(), kernel.digest, path, True, 0.0)

    def built(orders: list[Order], *_: object) -> dict[str, KernelOutcome]:
        return {order.key: KernelOutcome(order.stage.kernel.name, artifact(order.stage), None) for order in orders}

    monkeypatch.setattr(walking, "build_orders", built)
    monkeypatch.setattr(
        dry, "supply", lambda pool, *_, **__: Supply({d: artifact(s) for d, s in pool.stages.items()}, {})
    )
    options = Options(cache_root=tmp_path / "c", folder=tmp_path, archive=None, processes=1, jobs=1, parts=("cases",))
    results, notes = dry.dry_run("sm_90", [subject], options, Budget(100))
    assert [r.name for r in results] == [case.name for case in subject.cases]
    assert {r.verdict for r in results} == {"NOT_RUN"}
    assert {r.why for r in results} == {"dry run: as far as the launch"}
    assert all(len(r.figures["grids"]) == len(r.families) and min(r.figures["grids"][0]) > 0 for r in results)
    assert [tuple(r.families) for r in results] == [case.families for case in subject.cases]
    assert notes["kernels"][subject.backend]["text"].endswith("in the cache")


def test_a_dry_run_supplies_all_kernels_before_the_first_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the rows of the first backend take, the second one's kernels are looked for in the archive."""
    asked: list[str] = []

    def supplied(pool: Pool, *_: object, **__: object) -> Supply:
        asked.append("kernels")
        return Supply({}, dict.fromkeys(pool.stages, "none"))

    def rows(subject: Subject, *_: object) -> list[Result]:
        asked.append(f"rows of {subject.backend}")
        return []

    monkeypatch.setattr(dry, "supply", supplied)
    monkeypatch.setattr(dry, "_rows", rows)
    dry.dry_run("sm_90", SOME[2:], options_of(tmp_path, tmp_path), Budget(100))
    assert asked == ["kernels", "kernels", "rows of mem_efficient", "rows of cudnn_oss"]


@pytest.mark.slow
@pytest.mark.ci
def test_what_a_check_needs_is_packed(
    tmp_path: Path,
    shared_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import gpu_prepare

    monkeypatch.setattr(gpu_prepare, "subjects_of", lambda names: [replace(SUBJECT, cases=CASES[:2])])
    monkeypatch.setenv("FMHA_CACHE_DIR", str(shared_cache))
    out = tmp_path / "k.tar.xz"
    monkeypatch.setattr("sys.argv", ["gpu_prepare.py", "--arch", "x86_64_v3", "--jobs", "1", "-o", str(out)])
    assert gpu_prepare.main() == 0
    assert (
        len(import_entries(open_root(tmp_path / "other"), out, trust=True).added) == 2
    )  # one with many rows and one with few
    monkeypatch.setattr(gpu_prepare, "TRAVELS", 10)
    assert gpu_prepare.main() == 1
    monkeypatch.setattr(gpu_prepare, "TRAVELS", 10**9)
    monkeypatch.setattr(gpu_prepare, "subjects_of", lambda names: [SUBJECT])
    assert gpu_prepare.main() == 1
    assert f"refused: {CASES[2].flags}: K" in capsys.readouterr().out
