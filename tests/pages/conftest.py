"""A page in which no plot lacks its data, which takes seconds to gather and to draw."""

from __future__ import annotations

import pytest

from fmha_cli.pages.content import PageContent
from fmha_cli.pages.page import plots
from fmha_cli.pages.plot import Plot
from tests.support.generators.page_contents import everything


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> PageContent:
    return everything(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def whole_plots(whole: PageContent) -> list[Plot]:
    """The plots of that page."""
    return list(plots(whole))
