"""A real headless Chromium in which pages are opened, with what it says on its console and what it asks of the network."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRAWN = "return document.documentElement.dataset.drawn"


class NoBrowser(RuntimeError):
    """Chromium, its driver or Selenium is missing; the message says which."""


@dataclass
class Browser:
    """A browser with one page.

    Attributes:
        driver: of Selenium.
        folder: where a page is put.
    """

    driver: Any
    folder: Path

    def open(self, text: str, *, dark: bool = False, width: int = 1280) -> Page:
        """Open a page from a file, and wait until it has drawn its charts or failed to."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        path = self.folder / "page.html"
        path.write_text(text, "utf-8")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(path.as_uri())
        with suppress(TimeoutException):  # the page's console says why
            WebDriverWait(self.driver, 60, 0.1).until(lambda driver: driver.execute_script(DRAWN) == "yes")
        return Page(self.driver, path.as_uri())


@dataclass
class Page:
    """A page that was opened."""

    driver: Any
    address: str

    @property
    def drawn(self) -> bool:
        """Whether it says that all its charts are drawn."""
        return bool(self.driver.execute_script(DRAWN) == "yes")

    def run(self, script: str, *arguments: object) -> Any:
        """What a function body of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """The messages on its console, except information."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]

    def requests(self) -> list[str]:
        """The addresses that it asked for, other than its own file and what it holds itself."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        asked = [one["request"]["url"] for one in sent]
        return [url for url in asked if url != self.address and not url.startswith(("data:", "blob:"))]

    def marks(self, plot: str) -> int:
        """Drawn marks of a plot that stand for data."""
        script = (
            "return [...document.querySelectorAll(`#${arguments[0]} .chart svg [role=graphics-symbol]`)].filter(mark => "
            "!/axis|legend|title/.test(mark.getAttribute('aria-roledescription')) && mark.getBBox().width + mark.getBBox().height > 0"
            ").length"
        )
        return int(self.driver.execute_script(script, plot))

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        return int(self.run("return document.documentElement.scrollWidth - innerWidth"))

    def picture(self, path: Path, height: int | None = None) -> None:
        """A picture of the page from its top."""
        width, whole = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height or whole, "scale": 1}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(taken["data"]))


def programs() -> tuple[str, str]:
    """The paths of Chromium and of its driver. Raises NoBrowser."""
    if find_spec("selenium") is None:
        raise NoBrowser("Selenium is not installed")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        raise NoBrowser("no chromium with chromedriver on the search path")
    return program, driver


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser that can reach no host. Raises NoBrowser where there is none."""
    program, driver = programs()
    from selenium import webdriver as selenium

    options = selenium.ChromeOptions()
    options.binary_location = program
    for word in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(f"--{word}")
    for word in ("no-first-run", "disable-background-networking", "disable-component-update", "hide-scrollbars"):
        options.add_argument(f"--{word}")
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = selenium.Chrome(options=options, service=selenium.ChromeService(executable_path=driver))
    started.set_script_timeout(120)  # of a busy machine
    try:
        yield Browser(started, folder)
    finally:
        started.quit()
