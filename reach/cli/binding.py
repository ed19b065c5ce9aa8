"""Binding a session to a target and having its broker connected, while the operator can answer."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from reach.cli.operator import TerminalOperator
from reach.errors import ConfigError, ReachError
from reach.paths import Paths
from reach.session import Session, SessionStore
from reach.target import parse_target


def bind_and_connect(
    paths: Paths, target: str, name: str | None, transport: Literal["auto", "paramiko", "openssh"] | None = None
) -> Session:
    """Bind TARGET and bring its session up; a session that could not be connected for the first time is not kept.

    Raises: TargetSyntaxError, SessionError's and TransportError's kinds.
    """
    store = SessionStore(paths)
    surroundings = _surroundings()
    session, is_new = store.find_or_make(parse_target(target), name)
    current = replace(session, **surroundings, transport=transport or session.transport)
    if current != session:
        store.save(current)
        _restart_if_changed(paths, session, current)
    try:
        connect(paths, current)
    except BaseException:
        if is_new:
            _give_up(paths, session.name)
        raise
    return store.load(session.name)


def _give_up(paths: Paths, name: str) -> None:
    """Undo a new session, unless somebody else has connected it meanwhile: a harness may run in it by now."""
    from reach.broker.lifecycle import stop_broker

    store = SessionStore(paths)
    with suppress(ReachError):
        if store.load(name).hostname is None:
            stop_broker(paths, name)
            if store.load(name).hostname is None:
                store.remove(name)


def _restart_if_changed(paths: Paths, before: Session, now: Session) -> None:
    """A broker reads its session's file once: other settings need another broker."""
    from reach.broker.lifecycle import stop_broker

    if (before.ssh_config, before.transport) != (now.ssh_config, now.transport):
        stop_broker(paths, now.name)


def _surroundings() -> dict[str, Any]:
    """What of this environment the session's connections depend on."""
    config = os.environ.get("REACH_SSH_CONFIG")
    if config and not os.path.isfile(config):
        raise ConfigError(f"REACH_SSH_CONFIG names {config!r}, which is no file", fix="name one, or unset it")
    return {
        "ssh_config": os.path.abspath(config) if config else None,
        "ssh_agent_socket": os.environ.get("SSH_AUTH_SOCK") or None,
    }


def connect(paths: Paths, session: Session) -> dict[str, Any]:
    """Have the session's broker up and connected; what the target said of itself."""
    from reach.broker.lifecycle import ensure_running
    from reach.broker.shim_folder import install_shim

    operator = TerminalOperator()
    facts = ensure_running(paths, session.name, operator)
    if facts.get("audit_problem"):
        log = paths.audit_log(session.name)
        operator.tell(f"reach: what runs is not recorded: {log} can't be written ({facts['audit_problem']})")
    install_shim(paths, session.name)
    return facts
