"""Leases: one holder at a time, for as long as a process lives that inherited the descriptor, and readable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sweeps.leases import holder_of, lease_path, state_folder, take

RUN = "ab" * 16


def test_one_process_at_a_time_holds_a_device(tmp_path: Path) -> None:
    first = take(tmp_path, "cuda:0", RUN)
    assert first is not None
    assert take(tmp_path, "cuda:0", RUN) is None
    other = take(tmp_path, "cuda:1", RUN)
    assert other is not None
    first.let_go()
    again = take(tmp_path, "cuda:0", RUN)
    assert again is not None
    for lease in (other, again):
        lease.let_go()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no shared locks")
def test_some_share_a_device_and_whoever_times_it_has_it_alone(tmp_path: Path) -> None:
    first, second = (take(tmp_path, "cuda:0", RUN, shared=True) for _ in range(2))
    assert first is not None
    assert second is not None
    assert take(tmp_path, "cuda:0", RUN) is None
    first.let_go()
    assert take(tmp_path, "cuda:0", RUN) is None
    second.let_go()
    alone = take(tmp_path, "cuda:0", RUN)
    assert alone is not None
    assert take(tmp_path, "cuda:0", RUN, shared=True) is None
    alone.let_go()


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
def test_who_holds_a_device_can_be_read(tmp_path: Path) -> None:
    lease = take(tmp_path, "cuda:0", RUN)
    assert lease is not None
    holder = holder_of(tmp_path, "cuda:0")
    assert holder is not None
    assert holder.text.startswith(f"cuda:0 is held by the sweep abababab (process {os.getpid()} on ")
    assert holder_of(tmp_path, "cuda:1") is None
    lease_path(tmp_path, "cuda:1").write_text('{"device": 1}')
    assert holder_of(tmp_path, "cuda:1") is None
    lease.let_go()


@pytest.mark.promise("A worker that is killed, stopped or cut off loses no row, and costs no other row.")
@pytest.mark.skipif(sys.platform == "win32", reason="pass_fds")
def test_a_child_of_a_killed_holder_still_holds_the_device(tmp_path: Path) -> None:
    """The middle process takes the lease, hands it to a child, and is killed."""
    program = (
        "import subprocess, sys, time; from pathlib import Path; from fmha_cli.sweeps.leases import take\n"
        f"lease = take(Path({str(tmp_path)!r}), 'null', {RUN!r})\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0, pass_fds=(lease.descriptor,))\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as middle:
        assert middle.stdout is not None
        child = int(middle.stdout.readline())
        os.kill(middle.pid, signal.SIGKILL)
        os.waitpid(middle.pid, 0)
        middle.returncode = -9
        assert take(tmp_path, "null", RUN) is None
        os.kill(child, signal.SIGKILL)
        lease = None
        while lease is None:
            lease = take(tmp_path, "null", RUN)
        lease.let_go()


def test_hosts_with_one_home_folder_do_not_share_leases(tmp_path: Path) -> None:
    assert lease_path(tmp_path, "cuda:0", "one") != lease_path(tmp_path, "cuda:0", "two")
    assert lease_path(tmp_path, "../../x", "../..").resolve().is_relative_to(tmp_path / "leases")


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("")
    with pytest.raises(EnvironmentProblem) as caught:
        take(tmp_path, "cuda:0", RUN)
    assert caught.value.code == "X060"
    assert str(tmp_path) in str(caught.value.where)


def test_the_folder_of_states_is_the_users(tmp_path: Path) -> None:
    assert state_folder({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "fmha"
    assert state_folder({"XDG_STATE_HOME": "relative"}) == state_folder({})
    assert state_folder({}).is_absolute()
