"""``python -m tests.support.children.killed_tune KILLS WORDS...``: ``fmha WORDS``, which is killed when the confirmation number KILLS begins. The ones before
find their winner surely faster."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from fmha_cli.bench.difference import Difference
from fmha_cli.cli.app import run
from fmha_cli.tune.confirming import Confirmer
from tests.support.tuned_for import difference


def main(kills: int, words: list[str]) -> int:
    begun = 0

    def confirmed(self: Confirmer, default: Any, winner: Any) -> Difference:
        nonlocal begun
        begun += 1
        if begun == kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return difference()

    Confirmer.difference = confirmed  # type: ignore[method-assign]
    return run(words, dict(os.environ))


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
