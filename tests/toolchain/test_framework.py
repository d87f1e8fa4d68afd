"""What backends of installed packages share: nothing is built, versions are looked up, variables are set for a while."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from fmha_cli import api, plugin
from fmha_cli.toolchain import framework
from tests.support.fakes import framework_plugin

CPU = plugin.DeviceFacts(id="cpu", archs=("generic",))


class Backend(framework.FrameworkBackend):
    name = "framework"


def test_nothing_is_built_and_the_cache_knows_the_kernel(tmp_path: Path) -> None:
    kernel = next(iter(framework_plugin.Backend().kernels(plugin.load_arch("generic"))))
    stage, context = plugin.Stage(kernel), plugin.BuildContext(tmp_path / "cache")
    assert Backend().build(stage, context).sha256 == plugin.no_build(stage, context).sha256
    assert Backend().cache_key(stage, context) == plugin.no_build_key(stage)
    assert (Backend().inspect(kernel, plugin.no_build(stage, context)), Backend().upstream_name(kernel)) == ({}, None)


def test_kernels_are_ranked_in_their_order_and_refusals_keep_all_reasons() -> None:
    kernels = list(framework_plugin.Backend().kernels(plugin.load_arch("generic"))) * 2
    fitting = api.Problem.of(seqlen=8, dtype="fp32")
    found = list(Backend().ranked(kernels, plugin.CORE_RULES, fitting, CPU, "as listed"))
    assert [(d.rank, d.note) for d in found if isinstance(d, api.Supported)] == [
        ((0,), "as listed"),
        ((1,), "as listed"),
    ]
    (refused, _) = Backend().ranked(kernels, plugin.CORE_RULES, api.Problem.of(dtype="fp16", softcap=3), CPU, "")
    assert isinstance(refused, api.Unsupported)
    assert {"K001", "K008"} <= {reason.id for reason in refused.reasons}


@pytest.mark.parametrize(
    ("found", "state", "why"),
    [
        (None, plugin.State.MISSING, "thing is not installed"),
        ("2.9.1+cpu", plugin.State.MISSING, "thing 2.9.1+cpu is older than 2.11"),
        ("2.11.0", plugin.State.OK, None),
        ("2.13.0+cpu", plugin.State.OK, None),
        ("10.0", plugin.State.OK, None),
    ],
)
def test_a_package_is_looked_up_and_not_imported(
    monkeypatch: pytest.MonkeyPatch, found: str | None, state: plugin.State, why: str | None
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(framework, "version", version)
    probed = framework.probe_package("thing", "2.11")
    assert (probed.state, probed.why, probed.version, probed.devices) == (state, why, found, ())
    assert probed.help == (None if why is None else 'pip install "thing>=2.11"')


def test_variables_are_set_for_a_block_unless_somebody_has_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEWORK_SET", "by the user")
    monkeypatch.delenv("FRAMEWORK_NEW", raising=False)
    with suppress(KeyError), framework.environment({"FRAMEWORK_SET": "1", "FRAMEWORK_NEW": "2"}):
        assert (os.environ["FRAMEWORK_SET"], os.environ["FRAMEWORK_NEW"]) == ("by the user", "2")
        raise KeyError
    assert os.environ["FRAMEWORK_SET"] == "by the user"
    assert "FRAMEWORK_NEW" not in os.environ
