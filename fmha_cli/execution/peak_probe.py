"""``python -m fmha_cli.execution.peak_probe QUESTION``: runs a backend's peak loops and prints the answer as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fmha_cli.encode import canonical_json
from fmha_cli.execution.loading import load_backend
from fmha_cli.protocols import PeakLoops


def answer(question: str) -> str:
    """The peaks of the question {entry, backend, artifact, threads}.

    Raises:
        EnvironmentProblem: no such backend, or it has no loops.
    """
    data = json.loads(question)
    backend = load_backend(data["entry"], data["backend"])
    if not isinstance(backend, PeakLoops):
        raise TypeError(f"backend {data['backend']} has no peak loops")
    return canonical_json(backend.run_peaks(Path(data["artifact"]), data["threads"]))


if __name__ == "__main__":
    sys.stdout.write(answer(sys.argv[1]) + "\n")
