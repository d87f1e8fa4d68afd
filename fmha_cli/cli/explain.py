"""``fmha explain``: the page of a rule, or a problem."""

from __future__ import annotations

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands.kernels import WHY
from fmha_cli.cli.options import FILES, ROOM, SELECT
from fmha_cli.cli.rule_pages import page, rulebook
from fmha_cli.cli.settings import FLAG
from fmha_cli.domain.errors import UsageError


def explain(call: CliCall) -> None:
    """Exits 0 whenever it could answer, even if nothing serves the problem or a rule refuses the named kernel."""
    code = call.argument("rule")
    if code is None and not call.settings.on("rules"):
        from fmha_cli.cli.explain_problem import explain_problem  # 30 ms, which the page of a rule does without

        explain_problem(call)
        return
    _refuse_problem(call, "--rules" if code is None else code)
    if call.settings.on("rules"):
        call.output.document(rulebook(call, code or ""))
    elif code is not None:
        page(call, code)


def _refuse_problem(call: CliCall, asked: str) -> None:
    """Refuse flags of a problem together with the page of a rule. Those of variables and files are for other calls.

    Raises:
        UsageError: E002.
    """
    for option in (*ROOM, SELECT, *FILES[:4], WHY):
        value = call.settings.values.get(option.key)
        if value is not None and value.source == FLAG:
            what, why = f"{asked} beside --{option.name}", "a page of rules is about no problem"
            help = f"leave --{option.name} out, or {asked}"
            raise UsageError(what, code="E002", where=f"--{option.name}", why=why, help=help)
