"""What the tests believe about other processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.live_processes import gone, group_members, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists processes under /proc")
SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")


def test_a_process_runs_until_it_is_killed() -> None:
    with subprocess.Popen(SLEEPS, process_group=0) as process:
        assert running(process.pid)
        assert list(group_members(process.pid)) == [process.pid]
        process.kill()
        assert gone(process.pid)  # a zombie: nobody has waited for it yet
    assert not running(process.pid)
    assert not list(group_members(process.pid))


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_process_that_ends_while_its_file_is_read_is_gone(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(Path, "read_text", ended)
    assert not running(1)
