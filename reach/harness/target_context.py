"""What the target says of itself for a launch: its folders and the instructions it keeps for a model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from reach.broker.captured import run_captured
from reach.broker.skeleton import MAX_FOLDERS, listing_command, parse_listing
from reach.errors import BrokerUnavailableError
from reach.harness.base import Harness
from reach.harness.instructions import MAX_FILE_BYTES, fetch_instructions
from reach.paths import Paths
from reach.session import Session

FETCH_TIMEOUT_S = 10.0
"""For one command."""


@dataclass(frozen=True)
class TargetContext:
    folders: list[bytes] = field(default_factory=list)
    """As `parse_listing` gives them."""
    instructions: str | None = None
    """The text of the target's own file of instructions (GEMINI.md for Gemini CLI); untrusted."""
    notes: tuple[str, ...] = ()
    """Lines for the operator about what was left out."""


def fetch_context(paths: Paths, session: Session, harness: Harness) -> TargetContext:
    """Ask the target by a few commands in the session's folder; the listing runs beside the others.

    Raises: BrokerUnavailableError when the target can't be had.
    """

    def run(command: str) -> bytes:
        return run_captured(paths, session.name, command, FETCH_TIMEOUT_S).stdout

    notes: list[str] = []
    name = harness.instruction_file
    with ThreadPoolExecutor(1) as beside:
        listing = beside.submit(run, listing_command())
        instructions = fetch_instructions(run, name, harness.find_imports)
        try:
            folders = parse_listing(listing.result())
        except BrokerUnavailableError as error:
            folders = []
            notes.append(f"the target's folders are not known ({error.message}): dir_path will not find them")
    if instructions and instructions.is_cut_short:
        notes.append(f"{name} on the target is long: the model is told the first {MAX_FILE_BYTES >> 10} KiB of a file")
    if len(folders) == MAX_FOLDERS:
        notes.append(f"the target has many folders: dir_path will find the {MAX_FOLDERS} nearest the top")
    return TargetContext(folders, instructions.text if instructions else None, tuple(notes))
