"""The small project that lies in the demo target's home: something to look at, and something that fails."""

from __future__ import annotations

from pathlib import Path

_README = """\
# Fruit count

`add-up.sh` adds up the numbers in `notes.txt`; `check.sh` says whether the sum is right. For now it is not:

    sh check.sh
"""

_ADD_UP = """\
#!/bin/sh
# Add up the first word of every line of the file.
sum=0
while read -r count what; do
    sum=$((sum + count))
done < "${1:-notes.txt}"
echo "$sum"
"""

_CHECK = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 2
got=$(sh add-up.sh notes.txt)
if [ "$got" = 22 ]; then
    echo "ok: 22"
else
    echo "wrong: 3 + 12 + 7 is 22, add-up.sh says $got" >&2
    exit 1
fi
"""

_NOTES = "3 apples\n12 pears\n7 plums"

_FILES = {"README.md": _README, "add-up.sh": _ADD_UP, "check.sh": _CHECK, "notes.txt": _NOTES}


def write_project(folder: Path) -> None:
    """Write the project into FOLDER, made if need be; one that holds anything already is left as it is."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if any(folder.iterdir()):
        return
    for name, text in _FILES.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            path.chmod(0o755)
