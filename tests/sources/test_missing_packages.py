"""Without the packages that download sources, a fetch says what to install and asks no index."""

from __future__ import annotations

import sys

import pytest

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sources.pins import Pin
from fmha_cli.sources.store import fetch_pin
from fmha_cli.toolchain.cache.layout import CacheLayout
from tests.sources.conftest import FILES, OTHERS, Index, Notices, pin_for, tar_of

TAR = tar_of({**OTHERS, **FILES})


@pytest.fixture
def pin(index: Index) -> Pin:
    index.files["p-1.tar.gz"] = TAR
    return pin_for(TAR)


@pytest.mark.parametrize("absent", ["pypi_simple", "requests"])
def test_without_what_downloads_the_error_says_what_to_install(
    absent: str, index: Index, pin: Pin, layout: CacheLayout, notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(EnvironmentProblem, match=", which downloads sources, is not installed") as caught:
        fetch_pin(pin, layout, offline=False, notify=notices, settings=index.settings)
    assert (caught.value.code, absent in str(caught.value.why)) == ("S108", True)
    assert "pip install 'fmha[sources]'" in str(caught.value.help)
    assert index.asked == []
