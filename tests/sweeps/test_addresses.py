"""``--scheduler``: what it takes, and that nothing beyond this machine is reached without TLS."""

from __future__ import annotations

import importlib.util

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.sweeps.addresses import Address, Where, need_dask, parse_scheduler


@pytest.mark.parametrize(
    ("text", "tls", "url"),
    [
        ("tcp://127.0.0.1:8786", False, "tcp://127.0.0.1:8786"),
        ("tcp://localhost:8786", False, "tcp://localhost:8786"),
        ("tcp://[::1]:8786", False, "tcp://[::1]:8786"),
        ("tcp://head.example:8786", True, "tls://head.example:8786"),
        ("tls://10.0.0.1:8786", True, "tls://10.0.0.1:8786"),
    ],
)
def test_addresses_that_are_safe(text: str, tls: bool, url: str) -> None:
    assert parse_scheduler(text, tls=tls) == Address(where=Where.DASK, url=url)


@pytest.mark.promise("No scheduler beyond this machine is reached without certificates.")
@pytest.mark.parametrize(
    "text",
    ["tcp://10.0.0.1:8786", "tcp://head.example:8786", "tls://127.0.0.1:8786", "slurm:queue=gpu", "tcp://0.0.0.0:1"],
)
def test_other_machines_need_certificates(text: str) -> None:
    with pytest.raises(UsageError, match="without TLS") as caught:
        parse_scheduler(text, tls=False)
    assert "--tls-ca FILE" in str(caught.value.help)


@pytest.mark.parametrize(
    "text", ["", "host:8786", "tcp://host", "tcp://h:99999", "udp://h:1", "slurm", "slurm:queue", "dask"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_scheduler(text, tls=True)


def test_local_and_slurm() -> None:
    assert parse_scheduler("local", tls=False) == Address(where=Where.LOCAL)
    slurm = parse_scheduler("slurm:queue=gpu,gres=gpu:4", tls=True)
    assert (slurm.where, slurm.options) == (Where.SLURM, {"queue": "gpu", "gres": "gpu:4"})


@pytest.mark.promise("No scheduler beyond this machine is reached without certificates.")
def test_a_missing_extra_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentProblem) as caught:
        need_dask()
    assert caught.value.code == "X063"
    assert str(caught.value.help).startswith('pip install "fmha[dask]"')
