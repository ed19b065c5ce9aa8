"""SSH as reach speaks it. Only this package knows paramiko and its exceptions."""

import sys

# paramiko imports invoke, and with it asyncio and much else, for one thing: `Match exec` in its own parser of
# ssh_config. Without it paramiko takes half the time to import and 7 MB less; config.py has a stand-in.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]
