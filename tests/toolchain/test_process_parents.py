"""What a program started is gone when the program is: also one that uses this tool as a library and handles no signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CLIENT = """
import signal, sys
from pathlib import Path
from fmha_cli.toolchain.process import TimeLimits, run_group

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below nohup it is ignored, and a child would ignore it too
with open("log", "wb") as log:
    run_group(
        [sys.executable, "-c", "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"],
        cwd=Path("."), env={}, output=log, limits=TimeLimits(wall_s=600.0),
    )
"""


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_compiler_ends_with_the_client_that_started_it(ending: signal.Signals, tmp_path: Path) -> None:
    client = subprocess.Popen([sys.executable, "-c", CLIENT], cwd=tmp_path)
    try:
        until = time.monotonic() + 120
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        pid = int((tmp_path / "pid").read_text())
        assert is_running(pid)
    finally:
        os.kill(client.pid, ending)
        client.wait(60)
    until = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < until, "it outlives the client"
        time.sleep(0.05)
