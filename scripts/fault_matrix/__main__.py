"""Run the matrix, or a part of it, and print a table."""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Iterable

from fault_matrix.row import Row, run_fault
from fault_matrix.soak import Growth, soak_calls, soak_sessions
from fault_matrix.table import growth_table, row_table
from faults.injections import FAULTS
from support.sshd import is_available


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    if reason := is_available():
        print(reason, file=sys.stderr)
        return 3
    rows, growths = list(_rows(options)), list(_growths(options))
    if options.json:
        print(json.dumps({"faults": [row.as_json() for row in rows], "soak": [each.as_json() for each in growths]}))
    else:
        tables = ([row_table(rows)] if rows else []) + ([growth_table(growths)] if growths else [])
        print("\n\n".join("\n".join(table) for table in tables))
    return 0 if all(row.is_clean for row in rows) and all(each.is_bounded for each in growths) else 1


def _rows(options: argparse.Namespace) -> Iterable[Row]:
    for transport in options.transport:
        for fault in FAULTS:
            if options.only and not any(word in fault.name for word in options.only):
                continue
            times = max(1, round(fault.times * options.scale))
            _tell(f"{transport}: {fault.name}, {times} times …")
            row = run_fault(fault, times, transport, random.Random(options.seed))
            _tell(f"    {row.outcomes_text()}{'' if row.is_clean else '  NOT CLEAN: ' + '; '.join(row.wrong[:3])}")
            yield row


def _growths(options: argparse.Namespace) -> Iterable[Growth]:
    if options.no_soak:
        return
    for transport in options.transport:
        calls, sessions = max(200, round(10_000 * options.scale)), max(2, round(50 * options.scale))
        _tell(f"{transport}: soak, {calls} calls …")
        yield from soak_calls(calls, transport)
        _tell(f"{transport}: soak, {sessions} sessions at once …")
        yield from soak_sessions(sessions, transport)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one object in place of the tables")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="so many times as often: 0.02 is a look")
    parser.add_argument("--only", action="append", metavar="WORD", help="faults with WORD in their name; repeatable")
    parser.add_argument("--no-soak", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transport", action="append", choices=["paramiko", "openssh"], help="default: paramiko")
    options = parser.parse_args()
    options.transport = options.transport or ["paramiko"]
    return options


if __name__ == "__main__":
    sys.exit(main())
