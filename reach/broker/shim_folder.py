"""Putting a shim where a harness will find it: one small file that knows its session, beside shared code."""

from __future__ import annotations

import hashlib
import marshal
import os
import py_compile
import sys
from pathlib import Path

import shim
from reach.paths import Paths, ensure_private_dir, write_private
from reach.session import SessionStore
from reach.session.launch import launch_folder
from reach.session.store import SHIM_CODE_FOLDER, SHIM_FOLDER
from shim.local_shell import SHIM_MARK

MAX_SHEBANG_BYTES = 120
"""The kernel reads 128 to 256 bytes of a script's first line."""
BUNDLE = "bundle"
BUNDLED = ("place", "arguments", "client", "local_shell", "main")
"""In the order of their imports."""


def install_shim(paths: Paths, session_name: str, launch_id: str | None = None) -> Path:
    """Write the shim of a session, or of one launch in it; return the folder that goes first on PATH."""
    session = SessionStore(paths).load(session_name)
    code = _install_code(paths, session_name)
    owner = launch_folder(paths, session_name, launch_id) if launch_id else paths.session_state(session_name)
    folder = ensure_private_dir(owner / SHIM_FOLDER)
    path = folder / "bash"
    content = _shim_file(paths, session_name, session.target, launch_id or "", code)
    if not path.exists() or path.read_bytes() != content:
        write_private(path, content)
        path.chmod(0o700)
    return folder


def _install_code(paths: Paths, session_name: str) -> Path:
    """Copy the shim's modules, compiled, into the session's folder: a new reach must not change a running one."""
    sources = sorted(Path(shim.__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + sys.version.encode()).hexdigest()
    library = ensure_private_dir(ensure_private_dir(paths.session_state(session_name) / SHIM_CODE_FOLDER) / digest[:16])
    package = ensure_private_dir(library / "shim")
    bundle = library / BUNDLE
    if not bundle.exists():
        ensure_private_dir(package / "__pycache__")
        for source in sources:
            copy = package / source.name
            write_private(copy, source.read_bytes())
            # unchecked: the interpreter does not look whether the source changed
            py_compile.compile(str(copy), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        write_private(bundle, _bundle(package))
    return library


def _bundle(package: Path) -> bytes:
    """What shim/bundle.py reads: itself and the modules that every call needs, compiled, without their docstrings."""
    code = {
        name: compile((package / f"{name}.py").read_bytes(), f"shim/{name}.py", "exec", dont_inherit=True, optimize=2)
        for name in ("bundle", *BUNDLED)
    }
    return marshal.dumps((code.pop("bundle"), code))


def _shim_file(paths: Paths, session: str, target: str, launch: str, library: Path) -> bytes:
    roots = [str(root) for root in (paths.state, paths.data, paths.cache, paths.runtime)]
    lines = [
        *_first_lines(SHIM_MARK.decode() + session),
        "import sys, _signal",
        # a Ctrl-C from here on ends it as any program, and not with a traceback where the command's errors go
        "if _signal.getsignal(2) is _signal.default_int_handler:",
        "    _signal.signal(2, _signal.SIG_DFL)",
        f"if sys.hexversion >> 16 == {sys.hexversion >> 16}:",
        "    import marshal, posix",
        f"    file = posix.open({str(library / BUNDLE)!r}, posix.O_RDONLY | posix.O_CLOEXEC)",
        f"    bundle, modules = marshal.loads(posix.read(file, {(library / BUNDLE).stat().st_size}))",
        "    posix.close(file)",
        "    exec(bundle)",
        f"    load(modules, {str(library / 'shim')!r})",
        "else:",
        f"    sys.path.insert(0, {str(library)!r})",
        "from shim.main import main",
        "from shim.place import Place",
        "main(Place(",
        f"    session={session!r}, target={target!r}, launch={launch!r},",
        f"    socket={str(paths.socket(session))!r}, python={sys.executable!r},",
        f"    import_path={[entry for entry in sys.path if entry]!r},",
        f"    roots={roots!r},",
        "))",
        "",
    ]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _first_lines(mark: str) -> list[str]:
    """The interpreter by its real path: `python3` on PATH may be a script that needs bash, which is us."""
    interpreter = os.path.realpath(sys.executable)
    shebang = f"#!{interpreter} -IS"
    if len(os.fsencode(shebang)) <= MAX_SHEBANG_BYTES and " " not in interpreter and "\t" not in interpreter:
        return [shebang, mark]
    quoted = interpreter.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    # sh reads an exec, Python a string that means nothing
    return ["#!/bin/sh", mark, f"""'''exec' "{quoted}" -I -S "$0" "$@\"""", "' '''"]
