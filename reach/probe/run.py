"""Running the harness once against the mock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from mock_server import MockServer
from mock_server.dialects import DIALECTS
from reach.errors import HarnessError
from reach.harness.launch import PreparedLaunch
from reach.probe.conversation import Conversation
from reach.probe.evidence import PROOF_VARIABLE, Tokens, parse_seam_report, read_surface
from reach.probe.observation import SEAM, Observation, Run, Subject, ToolCheck
from reach.probe.stage import Stage

PROMPT = "Say where your commands run."


def observe(
    subject: Subject,
    checks: Sequence[ToolCheck],
    *,
    has_policy: bool = True,
    before_start: Callable[[PreparedLaunch], None] = lambda _: None,
) -> Observation:
    """Run the harness once, with the calls of CHECKS in their order. Everything of it is gone afterwards.

    Without HAS_POLICY the arguments by which reach points it to its own files are left out. BEFORE_START is called
    when all is prepared.

    Raises: HarnessError when it can't be started; what the preparation of a launch raises.
    """
    tokens = Tokens.new()
    script = subject.script
    conversation = Conversation(DIALECTS[script.dialect])
    with (
        MockServer(dialect=script.dialect, player=conversation) as mock,
        Stage(
            subject.paths,
            subject.session,
            subject.harness,
            binary=subject.binary,
            mock_url=mock.url,
            prompt=PROMPT,
            nonce=tokens.nonce,
            extra_env={PROOF_VARIABLE: tokens.proof},
            workspace=subject.workspace,
            environment=subject.environment,
            version=subject.version,
        ) as stage,
        ExitStack() as cleanup,
    ):
        run = Run(subject, tokens, stage.launch, cleanup)
        conversation.plan(
            [step for check in checks for step in check.steps(run)],
            is_last=lambda step, text: _ran_elsewhere(step.name, text, tokens),
            is_passing=script.is_passing_refusal,
        )
        before_start(stage.launch)
        with stage.start(None if has_policy else stage.argv_without_managed_files()) as process:
            ended = process.wait(
                subject.timeout_s,
                is_hopeless=lambda stderr: (
                    subject.stop.is_set() or (not mock.requests and script.cut_off_line(stderr) is not None)
                ),
                count_progress=lambda: len(mock.requests),
            )
            results = conversation.results
            # Before the block's end, which kills what would show whether something lives on.
            traces = {check.name: check.look(run, results) for check in checks} if not subject.stop.is_set() else {}
        if subject.stop.is_set():
            raise HarnessError("the probe was given up")
        return Observation(run, ended, results, read_surface(mock.requests, tokens.nonce), traces)


def _ran_elsewhere(step: str, text: str, tokens: Tokens) -> bool:
    report = parse_seam_report(text, tokens)
    return step == SEAM and report.ran and not report.proof_seen
