"""The report that a program leaves: one line of JSON for each launch."""

from __future__ import annotations

import json

from fmha_cli.api import Observed, from_json, merged, summed


def read_report(text: str) -> Observed:
    """All launches of a report, summed; the fault is the first one.

    Raises:
        ValueError: a line does not report a launch.
    """
    launches = [from_json(Observed, json.loads(line), "launch") for line in text.splitlines() if line.strip()]
    return Observed(
        merged(finding for launch in launches for finding in launch.findings),
        summed(counts for launch in launches for counts in launch.executed),
        next((launch.fault for launch in launches if launch.fault), None),
    )
