"""A backend that compiles nothing and has its own dropout stream, as a plugin that uses only public names."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.verdict import Verdict
from fmha_cli.toolchain.cache.audit import verify_cache
from fmha_cli.toolchain.cache.listing import list_entries
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cache.why import KeyStanding, explain_key
from tests.support.fakes import framework_plugin

ENTRY = EntryPoint("framework", framework_plugin.__name__, "fmha")
DROPOUT = api.Problem.from_cli("-b 2 -H 4 --kv-heads 2 -s 33 -d 16 --dtype fp32 --dropout 0.5")


@pytest.fixture
def registry() -> Registry:
    return Registry({}, lambda: [ENTRY])


def run(registry: Registry, cache: Path, problem: api.Problem = DROPOUT) -> list[Verdict]:
    rows = api.run(
        problem, command="validate", backend="framework", registry=registry, fills=("normal",), cache_root=str(cache)
    )
    return [row.verdict for row in rows]


def test_its_dropout_is_judged_by_its_own_stream(registry: Registry, tmp_path: Path) -> None:
    assert registry.faults == ()
    assert list(registry.dropout_streams) == [framework_plugin.STREAM]
    assert run(registry, tmp_path) == [Verdict.PASSED]


@pytest.mark.parametrize("command", ["run", "validate", "bench"])
def test_what_a_session_saw_is_in_the_notes_of_its_row(registry: Registry, tmp_path: Path, command: str) -> None:
    """Once, however often the row was launched and judged."""
    options = {"command": command, "backend": "framework", "registry": registry, "cache_root": str(tmp_path)}
    (row,) = api.run(DROPOUT, budget_s=0.01, peak="spec", fills=("normal",), **options)
    assert (row.verdict, row.notes.count("numpy was bound")) == (Verdict.PASSED, 1)


def test_another_stream_judges_it_wrong(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference uses the stream that the backend names; with another stream the verdict is WRONG."""
    monkeypatch.setattr(registry.backend("framework"), "dropout_stream", "fmha")
    assert run(registry, tmp_path) == [Verdict.WRONG]


def test_a_stream_that_nobody_brings_is_refused_by_name(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.backend("framework"), "dropout_stream", "nobodys")
    with pytest.raises(api.UnsupportedError, match="nobodys") as caught:
        run(registry, tmp_path)
    assert caught.value.code == "O002"
    assert framework_plugin.STREAM in (caught.value.help or "")


def test_the_cache_knows_its_kernel(registry: Registry, tmp_path: Path) -> None:
    run(registry, tmp_path)
    layout = open_root(tmp_path)
    (kernel,) = registry.backend("framework").kernels(plugin.load_arch("generic"))
    assert [(info.kind, info.name) for info in list_entries(layout)] == [("kernel", kernel.name)]
    assert verify_cache(layout).damaged == ()
    assert explain_key(layout, plugin.no_build_key(Stage(kernel))).standing is KeyStanding.HIT


@pytest.mark.slow
@pytest.mark.ci
def test_conformance_asks_in_the_worker_what_opens_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> plugin.Availability:
        raise AssertionError("the parent opened a device")

    backend = framework_plugin.Backend()
    monkeypatch.setattr(backend, "probes_in_parent", False)
    monkeypatch.setattr(backend, "probe", never)
    streams = framework_plugin.fmha_register_dropout_streams()
    subject = conformance.Subject(
        backend, entry=framework_plugin.__name__, cache_root=tmp_path, dropout_streams=streams
    )
    conformance.check_claims(subject)
    assert list_entries(open_root(tmp_path))


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: object, tmp_path: Path) -> None:
    streams = framework_plugin.fmha_register_dropout_streams()
    backend = framework_plugin.Backend()
    check(conformance.Subject(backend, entry=framework_plugin.__name__, cache_root=tmp_path, dropout_streams=streams))  # type: ignore[operator]
