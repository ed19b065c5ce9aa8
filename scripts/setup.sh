# Sourced by the other scripts: a virtual environment with reach in it. Sets $root and $venv.
# shellcheck shell=sh

root=$(cd "$(dirname "$0")/.." && pwd)
venv=${REACH_VENV:-$root/.venv}
tested_gemini=0.61.0

say() { printf '%s\n' "$*" >&2; }

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11 python3.14; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            # the interpreter itself: what is on PATH may be a wrapper script
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    say "reach needs Python 3.11 or newer, and none is on PATH; on Debian or Ubuntu: sudo apt-get install python3 python3-venv"
    exit 1
}

# ensure_venv EXTRAS: as `test`, or nothing
ensure_venv() {
    stamp=$venv/.reach-$1$(cksum <"$root/pyproject.toml" | tr ' ' -)
    [ -e "$stamp" ] && return
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        say "Python's venv module is missing; on Debian or Ubuntu: sudo apt-get install python3-venv"
        exit 1
    fi
    say "making a virtual environment in $venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --editable "$root${1:+[$1]}"
    touch "$stamp"
}

# Prints the path of the tested Gemini CLI, installing it (and Node, where there is none) first.
ensure_gemini() {
    "$venv/bin/reach" harness install "gemini@$tested_gemini" --print-path
}
