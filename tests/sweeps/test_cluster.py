"""A sweep over a real Dask cluster whose workers are killed, paused and cut off: no row is lost, doubled or overlapping."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed")
if sys.platform != "linux":
    pytest.skip("processes are found in /proc", allow_module_level=True)

from tests.support.clustered import cluster
from tests.support.swept import environ_of, kill, nothing_lost, start, sweep_of

ROWS = ("-b", "1,2", "-H", "1,2", "-s", "1:10:+1")
"""40 rows."""

LARGE = ("-b", "1,2,3,4,5", "-H", "1,2,3,4,5", "-s", "1:40:+1")
"""1,000 rows."""


@pytest.mark.promise(
    "A row of a sweep is executed at least once and recorded exactly once, whatever dies.",
    "A worker that is killed, stopped or cut off loses no row, and costs no other row.",
)
@pytest.mark.slow
@pytest.mark.ci
def test_workers_of_a_cluster_are_killed_and_paused(tmp_path: Path) -> None:
    """Two workers are killed, one is paused until its rows were given to others, and goes on then."""
    with cluster(tmp_path, 3) as (url, nodes):
        words = sweep_of(*ROWS, chunk=3)
        swept = start(tmp_path, *words, "--scheduler", url, "--silence", "8", devices=3)
        paused: list[int] = []
        for number, _ in enumerate(swept.rows(), 1):
            if number in (5, 10) and (worker := nodes[number // 5 - 1].worker) is not None:
                assert kill(worker)
            if number == 15:
                paused = nodes[2].pause()
                assert nodes[2].process.pid in paused
            if number == 35:
                for pid in paused:
                    kill(pid, signal.SIGCONT)
        code, said = swept.end()
        assert code == 0, said
        assert "worker lost: null:" in said
        nothing_lost(swept, 40)


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
@pytest.mark.slow
def test_twenty_killed_workers_of_a_cluster(tmp_path: Path) -> None:
    draw, killed = random.Random(7), 0
    with cluster(tmp_path, 4) as (url, nodes):
        swept = start(tmp_path, *sweep_of(*LARGE, chunk=16), "--scheduler", url, devices=4)
        for number, _ in enumerate(swept.rows(), 1):
            if killed < 20 and number >= (killed + 1) * 45 and (worker := draw.choice(nodes).worker) is not None:
                killed += kill(worker)
        code, said = swept.end()
        assert (code, killed) == (0, 20), said
        nothing_lost(swept, 1000)


@pytest.mark.promise("Rows of the same kernels stay together, and one host builds a cluster's kernel for all.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_is_built_once_and_shipped_to_other_hosts(tmp_path: Path) -> None:
    """Each node has its own host name and build cache, so it must get the kernel from the driver or build it."""
    if os.geteuid():
        pytest.skip("another host name needs root")
    before = [("unshare", "--uts", "sh", "-c", f'hostname host{n}; exec "$@"', "sh") for n in range(2)]
    with cluster(tmp_path, 2, before=before) as (url, _):
        swept = start(tmp_path, *sweep_of("-s", "1:12:+1", chunk=2), "--scheduler", url, devices=2)
        code, said = swept.end()
        assert code == 0, said
        nothing_lost(swept, 12)
    brought = {stage["imported_from"] is not None for row in swept.lines for stage in row["stages"]}
    by_device = {row["device"]: any(stage["imported_from"] for stage in row["stages"]) for row in swept.lines}
    assert brought == {True, False}
    assert sorted(by_device.values()) == [False, True]


@pytest.fixture
def namespaces(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """Three network namespaces on one bridge: the bridge's address, and their names."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    tag = f"f{os.getpid() % 10000}"
    names = [f"{tag}n{n}" for n in range(3)]
    net, made = f"10.{os.getpid() % 200 + 20}.7", []

    def ip(*words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=True)

    try:
        ip("link", "add", tag, "type", "bridge")
        ip("addr", "add", f"{net}.1/24", "dev", tag)
        ip("link", "set", tag, "up")
        for number, name in enumerate(names):
            ip("netns", "add", name)
            made.append(name)
            ip("link", "add", f"{name}h", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{name}h", "master", tag, "up")
            ip("-n", name, "addr", "add", f"{net}.{number + 2}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as fault:
        pytest.skip(f"no network namespaces here: {fault}")
    else:
        yield f"{net}.1", names
    finally:
        for name in made:
            ip("netns", "del", name, check=False)
        ip("link", "del", tag, check=False)


def certificates(folder: Path) -> tuple[list[str], list[str]]:
    """The options of one self-signed certificate for everybody: those of ``fmha``, and those of Dask's scheduler."""
    from distributed.security import Security

    made = Security.temporary()
    for name, text in (("ca", made.tls_ca_file), ("cert", made.tls_scheduler_cert), ("key", made.tls_scheduler_key)):
        (folder / f"{name}.pem").write_text(str(text))
    ours, dasks = [("--tls-ca", "--tls-cert", "--tls-key"), ("--tls-ca-file", "--tls-cert", "--tls-key")]
    files = [str(folder / f"{name}.pem") for name in ("ca", "cert", "key")]
    return (
        [word for pair in zip(ours, files, strict=True) for word in pair],
        [word for pair in zip(dasks, files, strict=True) for word in pair],
    )


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_host_that_is_cut_off_loses_and_doubles_nothing(tmp_path: Path, namespaces: tuple[str, list[str]]) -> None:
    """Over TLS, as beyond one machine. One host is cut off in the middle; its rows go to the others, and it comes back."""
    host, names = namespaces
    tls, scheduler_tls = certificates(tmp_path)
    before = [("ip", "netns", "exec", name) for name in names]
    with cluster(tmp_path, 3, host=host, before=before, tls=tls, scheduler_tls=scheduler_tls) as (url, _):
        words = (*sweep_of(*ROWS, chunk=3), "--scheduler", url, *tls, "--silence", "8")
        swept = start(tmp_path, *words, devices=3)
        list(swept.rows(8))
        subprocess.run(["ip", "link", "set", f"{names[1]}h", "down"], check=True)
        list(swept.rows(28))  # at most 3 more are at the host that is cut off
        assert swept.hear("worker lost: null:1 on")
        subprocess.run(["ip", "link", "set", f"{names[1]}h", "up"], check=True)
        code, said = swept.end()
        assert code == 0, said
        nothing_lost(swept, 40)


@pytest.mark.slow
@pytest.mark.ci
def test_a_scheduler_that_does_not_answer_is_told(tmp_path: Path) -> None:
    swept = start(tmp_path, *sweep_of("-s", "16"), "--scheduler", "tcp://127.0.0.1:9")
    code, said = swept.end()
    assert code == 4
    assert "error[X064]: no scheduler answers at tcp://127.0.0.1:9" in said
    assert "XDG_STATE_HOME" in environ_of(tmp_path)
    assert not list((tmp_path / "state" / "fmha" / "sweeps").iterdir())
