"""The site of the pages: mkdocs builds it, and refuses a broken link and a page that the navigation lacks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.fixtures.browser import browser

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("README.md", "CHANGELOG.md", "mkdocs.yml", "docs", "results", "tools")

pytestmark = [pytest.mark.slow, pytest.mark.ci]
needs_mkdocs = pytest.mark.skipif(find_spec("material") is None, reason='no mkdocs-material: pip install -e ".[docs]"')


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(folder / "mkdocs.yml"), "-d", str(site)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files from which the site is built."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tmp_path / part, ignore=shutil.ignore_patterns("*.xz", "__pycache__"))
        else:
            shutil.copy(source, tmp_path / part)
    return tmp_path


@needs_mkdocs
def test_it_is_built_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "explanation" / "numerics.html").read_text("utf-8")
    assert 'href="../results/judging.html"' in page, "a link that leaves docs/ leads to the page of the results"


@needs_mkdocs
def test_every_page_opens_in_a_browser_and_the_search_finds_a_rule(tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert build(ROOT, site).returncode == 0
    start = (site / "index.html").as_uri()
    with browser(tmp_path) as opened:
        from selenium.webdriver.support.ui import WebDriverWait

        driver = opened.driver
        driver.get(start)
        links = driver.execute_script(
            "return [...document.querySelectorAll('.md-nav__link[href], .md-tabs__link')].map(a => a.href)"
        )
        pages = sorted({link.partition("#")[0] for link in links})
        assert len(pages) >= 30
        faults = []
        for width in (1280, 400):
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            for page in pages:
                driver.get(page)
                wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
                said = [entry["message"] for entry in driver.get_log("browser") if entry["level"] != "INFO"]
                faults += [f"{page}, {width} px: {wide} px too wide, {said}"] if wide > 0 or said else []
        assert not faults
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.get(f"{start}?q=K012")
        found = WebDriverWait(driver, 30).until(lambda d: d.find_elements("css selector", ".md-search-result__link"))
        assert any("rules.html#k012" in link.get_attribute("href") for link in found)


@needs_mkdocs
@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("docs/explanation/timing.md", "[x](no-such-page.md)", "contains a link 'no-such-page.md'"),
        ("docs/explanation/timing.md", "[x](numerics.md#no-such-heading)", "there is no such anchor"),
        (
            "results/README.md",
            "[x](../docs/explanation/no-such-page.md)",
            "contains a link '../docs/explanation/no-such",
        ),
        ("docs/orphan.md", "# A page without a parent", 'not included in the "nav"'),
    ],
    ids=["page", "anchor", "page of results", "orphan"],
)
def test_it_refuses_a_planted_fault(file: str, line: str, told: str, copy: Path) -> None:
    with (copy / file).open("a", encoding="utf-8") as page:
        page.write(f"\n{line}\n")
    done = build(copy, copy / "site")
    assert done.returncode != 0
    assert told in re.sub(r"\s+", " ", done.stderr)
