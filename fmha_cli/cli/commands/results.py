"""``fmha results``: the runs in the store."""

from __future__ import annotations

from functools import partial

from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import DRY_RUN, FILTER, ROWS, STORE
from fmha_cli.domain.flags import FlagKind

_WHAT = "id, label, rev:COMMIT, latest, latest~1 (the one before), or a file of --json, --jsonl or a journal"
RUN = Argument("run", _WHAT, required=True, complete="runs")
RUNS = Argument("runs", "ids, labels, rev:COMMIT, latest, latest~1", required=True, many=True, complete="runs")
FILES = Argument("files", "Files of --json or --jsonl, or journals", required=True, many=True)
TEXT = Argument("text", "The label; none takes it away", blank=True)
_to = partial(Opt, kind=FlagKind.FILE, panel="Output", flag_only=True, writes=True)
TARGETS = (
    _to("parquet", help="Write a Parquet file (pip install fmha[parquet])"),
    _to("jsonl", help="Write one JSON record per line"),
    _to("csv", help="Write comma-separated values"),
)


def _part(
    run: str, summary: str, *arguments: Argument, options: tuple[Opt, ...] = ROWS, detail: str = ""
) -> tuple[str, CommandSpec]:
    return summary, CommandSpec(run, (*options, STORE), arguments, detail=detail)


_KEYS = (
    "Keys of --filter: the members of the problem (dtype, mask, seqlen_q, ...), backend, device, arch, kernel, digest, family, "
    "cache, verdict, selected_by, model, layer_kind."
)

COMMANDS = {
    "results": CommandSet(
        {
            "ls": _part("results:ls", "List the runs, the newest first"),
            "show": _part(
                "results_rows:show", "Print the rows of a run again", RUN, options=(FILTER, *ROWS), detail=_KEYS
            ),
            "import": _part("results_rows:import_", "Bring the rows of files and journals into the store", FILES),
            "export": _part(
                "results_rows:export",
                "Write the rows of a run into a file",
                RUN,
                options=(*TARGETS, FILTER),
                detail=_KEYS,
            ),
            "label": _part("results_rows:label", "Give a run a label, or take it away", RUN, TEXT),
            "rm": _part("results_rows:rm", "Remove runs with their rows", RUNS, options=(DRY_RUN, *ROWS)),
        }
    ),
}
