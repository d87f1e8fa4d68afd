"""What commands say in words: the doctor about what was named, the cache about one kernel, the facts of an architecture."""

from __future__ import annotations

import pytest

from fmha_cli.cli.doctor import _backend
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.installation import CheckState


@pytest.mark.parametrize("state", [State.NO_DEVICE, State.MISSING, State.BROKEN])
def test_what_was_named_is_never_skipped(state: State) -> None:
    """Nothing is skipped that the user asked for: it is not here, and the exit code is 4."""
    found = Availability(state=state, why="no driver", help="install it")
    named = _backend(None, "b", found, named=True)  # type: ignore[arg-type]
    assert (named.state, named.why, named.help) == (CheckState.FAILED, "no driver", "install it")
    other = _backend(None, "b", found, named=False)  # type: ignore[arg-type]
    assert other.state is (CheckState.FAILED if state is State.BROKEN else CheckState.SKIPPED)
    assert other.what == named.what
