"""The report that a program leaves: one line of JSON for each launch."""

from __future__ import annotations

import json

from fmha_cli.api import Observed, merged, summed


def read_report(text: str) -> Observed:
    """All launches together; the fault is the first one.

    Raises:
        ValueError: a line that is no report of a launch.
    """
    try:
        launches = [Observed.from_dict(json.loads(line)) for line in text.splitlines() if line.strip()]
    except (KeyError, TypeError) as fault:
        raise ValueError(f"not a report of a launch: {fault}") from fault
    return Observed(
        merged(finding for launch in launches for finding in launch.findings),
        summed(counts for launch in launches for counts in launch.executed),
        next((launch.fault for launch in launches if launch.fault), None),
    )
