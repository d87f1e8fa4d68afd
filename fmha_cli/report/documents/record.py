"""``fmha.record/1``: the dataclass is the noun itself, in ``report.record``."""

from __future__ import annotations

from typing import Annotated

from fmha_cli.domain.protocols import Extent, LaunchView
from fmha_cli.domain.verdict import Check
from fmha_cli.measure.compare import Ratio
from fmha_cli.measure.measurement import Measurement
from fmha_cli.measure.roofline import Floor
from fmha_cli.report.document import Document
from fmha_cli.report.record import Record
from fmha_cli.report.rows import Checks, StageRow

DOCUMENT = Document(
    Record,
    definitions={
        "check": Check,
        "comparison": Checks,
        "launch": LaunchView,
        "extent": Extent,
        "floor": Annotated[Floor, "Roofline floor: the least time that the machine's peaks allow."],
        "measurement": Measurement,
        "ratio": Ratio,
        "stage": StageRow,
    },
)
