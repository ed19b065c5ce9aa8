"""A scripted, recording mock of a model API. Knows nothing of reach and can be used without it.

It trusts whoever writes the script and nobody who connects: what a client sends is recorded, never acted on.
"""

from mock_server.dialects import DIALECTS, Dialect
from mock_server.expectation import Expectation
from mock_server.reading import FunctionResponse, Reading
from mock_server.recorder import AnswerSource, RecordedRequest
from mock_server.recording import RecordingError, RecordingWriter, ReplayPlayer, load_recording
from mock_server.script import Call, Script, Turn, Usage, script_schema
from mock_server.script_file import ScriptError, load_script, parse_script
from mock_server.server import MockServer, MockServerError

__all__ = [
    "DIALECTS",
    "AnswerSource",
    "Call",
    "Dialect",
    "Expectation",
    "FunctionResponse",
    "MockServer",
    "MockServerError",
    "Reading",
    "RecordedRequest",
    "RecordingError",
    "RecordingWriter",
    "ReplayPlayer",
    "Script",
    "ScriptError",
    "Turn",
    "Usage",
    "load_recording",
    "load_script",
    "parse_script",
    "script_schema",
]
