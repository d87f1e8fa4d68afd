"""Pages and SVG files as outputs of commands: their targets are checked before any work and written as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.store import store_of
from fmha_cli.domain.quantities import size
from fmha_cli.pages.content import gathered
from fmha_cli.pages.drawing import check_libraries
from fmha_cli.pages.page import page
from fmha_cli.pages.svg import svg_files
from fmha_cli.report.documents.compare import Compare
from fmha_cli.report.lines import counted
from fmha_cli.report.target import Target, check_folder, refused
from fmha_cli.results.run import KeptRun


@dataclass(frozen=True)
class Paper:
    """What is written.

    Attributes:
        page: the HTML file, and the option that named it; None for none.
        svg: the folder of the SVG files.
    """

    page: tuple[Path, str] | None
    svg: Path | None = None

    def check(self) -> None:
        """Refuse targets that cannot be written.

        Raises:
            EnvironmentProblem: X040; X052, a library is missing.
        """
        if self.page is not None:
            check_libraries(self.page[1])
            Target(*self.page).check()
        if self.svg is not None:
            check_libraries("--svg")
            check_folder(self.svg, "--svg")

    def write(self, call: CliCall, title: str, runs: Sequence[KeptRun], comparison: Compare | None = None) -> None:
        """Write the page and the files about some runs, and say so. Earlier runs of their points come from the store.

        Raises:
            EnvironmentProblem: X040.
        """
        content = gathered(title, runs, store_of(call), comparison)
        if self.page is not None:
            data = page(content).encode()
            with Target(*self.page).opened() as file:
                file.write(data)
            call.console.say(f"{self.page[0]}: {counted(len(content.records), 'row')}, {size(len(data))}")
        if self.svg is not None:
            written = []
            for name, text in svg_files(content):
                target = Target(self.svg / name, "--svg")
                self._make_folder()
                with target.opened() as file:
                    file.write(text.encode())
                written.append(name)
            call.console.say(f"{self.svg}: {', '.join(written) or 'no plot has data'}")

    def _make_folder(self) -> None:

        assert self.svg is not None
        try:
            self.svg.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise refused("--svg", self.svg, fault) from fault
