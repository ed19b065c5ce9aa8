"""The policy file that is passed by `--admin-policy`: what no settings file can undo.

It stands in for `tools.core` where a version has it. There `tools.core` also means "run these without asking", and an
operator who did not say `--yolo` wants to be asked (seen on 0.35.0 and 0.61.0).
"""

from __future__ import annotations

import json

from reach.harness.gemini.tools import DENIED

_RULES = """\
# Written by reach at every launch.
[[rule]]
toolName = {names}
decision = "deny"
priority = 999

[[rule]]
toolName = "*"
mcpName = "*"
decision = "deny"
priority = 999

[[rule]]
toolName = ["list_background_processes", "read_background_output"]
decision = "allow"
priority = 950

# Whatever other tool there may be: a call that has no command is not one of the shell's.
[[rule]]
toolName = "*"
argsPattern = '^(?!.*"command":)'
decision = "deny"
priority = 900
"""


def render_policy() -> str:
    """The rules as TOML.

    No plain denial of `*`: it would outrank every rule about the shell as well, and with them the operator's answers
    to Gemini CLI's questions.
    """
    return _RULES.format(names=json.dumps(list(DENIED), indent=2))
