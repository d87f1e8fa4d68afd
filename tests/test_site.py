"""The site of the pages: mkdocs builds it, and refuses a broken link and a page that the navigation lacks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.support.fixtures.browser import browser

ROOT = Path(__file__).resolve().parents[1]
SOME = 12
"""Pages that a narrow browser opens, always the same ones: each takes a second, and all have one form."""
CHANGED = ("docs", "results")
"""The folders in which faults are planted; links to other files lead to those of this checkout."""

pytestmark = [pytest.mark.slow, pytest.mark.ci]
needs_mkdocs = pytest.mark.skipif(find_spec("material") is None, reason='no mkdocs-material: pip install -e ".[docs]"')


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(folder / "mkdocs.yml"), "-d", str(site)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address at which a server of this process shows a site."""
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
        finally:
            server.shutdown()
            thread.join()


class Quiet(SimpleHTTPRequestHandler):
    """Writes no line for each request; there is no icon, and browsers ask for one."""

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built without a warning."""
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


@needs_mkdocs
def test_it_is_built_without_a_warning(site: Path) -> None:
    page = (site / "explanation" / "numerics.html").read_text("utf-8")
    assert 'href="../results/judging.html"' in page, "a link that leaves docs/ leads to the page of the results"


@needs_mkdocs
def test_pages_open_in_a_browser_and_the_search_finds_a_rule(site: Path, tmp_path: Path) -> None:
    with served(site) as address, browser(tmp_path) as opened:
        from selenium.webdriver.support.ui import WebDriverWait

        driver = opened.driver
        driver.get(address)
        links = driver.execute_script(
            "return [...document.querySelectorAll('.md-nav__link[href], .md-tabs__link')].map(a => a.href)"
        )
        pages = sorted({link.partition("#")[0] for link in links})
        assert len(pages) >= 30
        faults = []
        for page, width in [(address, 1280), *((page, 400) for page in Random("pages").sample(pages, SOME))]:
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            driver.get(page)
            wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
            log = [entry["message"] for entry in driver.get_log("browser") if entry["level"] != "INFO"]
            said = [message for message in log if "favicon" not in message]
            faults += [f"{page}, {width} px: {wide} px too wide, {said}"] if wide > 0 or said else []
        assert not faults
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.get(f"{address}?q=K012")
        found = WebDriverWait(driver, 30).until(lambda d: d.find_elements("css selector", ".md-search-result__link"))
        assert any(re.search(r"rules\.html.*#k012$", link.get_attribute("href")) for link in found)


FAULTS = (
    ("docs/explanation/timing.md", "[x](no-such-page.md)", "contains a link 'no-such-page.md'"),
    ("docs/explanation/timing.md", "[x](numerics.md#no-such-heading)", "does not contain an anchor '#no-such-heading'"),
    ("results/README.md", "[x](../docs/explanation/no-such-page.md)", "a link '../docs/explanation/no-such"),
    ("docs/orphan.md", "# A page without a parent", 'not included in the "nav"'),
)
"""File, planted line, and what mkdocs says of it: a lost page, a lost anchor, a lost page of the results, an orphan."""


@needs_mkdocs
def test_it_refuses_planted_faults(tmp_path: Path) -> None:
    """One strict build counts a warning for each fault, and nothing else, so each alone would end it."""
    for source in ROOT.iterdir():
        if source.name in CHANGED:
            shutil.copytree(source, tmp_path / source.name)
        else:
            (tmp_path / source.name).symlink_to(source)
    for file, line, _ in FAULTS:
        with (tmp_path / file).open("a", encoding="utf-8") as page:
            page.write(f"\n{line}\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    said = re.sub(r"\s+", " ", done.stdout + done.stderr)
    assert [told for _, _, told in FAULTS if told not in said] == []
    assert f"Aborted with {len(FAULTS)} warnings in strict mode" in said
