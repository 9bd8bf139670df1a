"""`python -m mkb_worker ROLE --control-fd N ...`: answers requests, a JSON line each, in order."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Handler = Callable[[Json], Json]

#: Longest message and traceback of an answer, in characters.
_LONGEST = 20_000
#: Where the workers' own code lies; its frames tell a submission's author nothing.
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mkb_worker", description=__doc__)
    parser.add_argument("role", choices=("reference", "submission", "replay", "template"))
    parser.add_argument("--control-fd", type=int, required=True, help="socket to the driver")
    parser.add_argument("--arena-fd", type=int, help="memory of the device (default: our own)")
    parser.add_argument("--device-fd", type=int, help="socket to the virtual GPU")
    parser.add_argument(
        "--tape-fd", type=int, help="file to record to; for a replay, the file to play"
    )
    parser.add_argument("--account-fd", type=int, help="file that a replay records to")
    parser.add_argument(
        "--dsl",
        choices=("cutedsl", "tirx"),
        help="DSL of the submission; what a template imports beside torch",
    )
    parser.add_argument(
        "--sandboxed", action="store_true", help="a template's workers are submissions, in turn"
    )
    return parser.parse_args(arguments)


def make_handlers(arguments: argparse.Namespace) -> dict[str, Handler]:
    """Starts torch on the virtual GPU and gives the operations of the role."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    import mkb_shim

    replaying = arguments.role == "replay"
    mkb_shim.install(
        arena_fd=arguments.arena_fd,
        device_fd=arguments.device_fd,
        tape_fd=arguments.account_fd if replaying else arguments.tape_fd,
    )
    from .tape import Segments

    segments = Segments()
    if arguments.role == "reference":
        from .reference import Reference

        role = Reference(segments)
        return {
            name: getattr(role, name) for name in ("load", "draw", "reference", "anchor", "release")
        }
    if arguments.role == "submission":
        from .submission import Submission

        worker = Submission(segments, arguments.dsl)
        return {
            "import": worker.do_import,
            "place": worker.place,
            "call": worker.call,
            "release": worker.release,
        }
    from .replay import Replay

    if arguments.tape_fd is None:
        raise SystemExit("a replay needs --tape-fd")
    player = Replay(segments, arguments.tape_fd)
    return {"place": player.place, "replay": player.replay, "release": player.release}


def answer(handlers: dict[str, Handler], line: bytes) -> Json:
    """The answer to one request; never raises, whatever the code that it runs raises."""
    from mkb_shim import DeviceFault, Incomplete

    from .describe import RequestError

    try:
        request = json.loads(line)
        handler = handlers.get(request.get("op")) if isinstance(request, dict) else None
        if handler is None:
            raise RequestError(f"no such operation here; there are: {', '.join(handlers)}")
        return {"ok": True, **handler(request)}
    except DeviceFault as error:
        return _failure("fault", error)
    except Incomplete as error:
        return _failure("incomplete", error)
    except (RequestError, json.JSONDecodeError) as error:
        return _failure("protocol", error)
    except BaseException as error:  # also SystemExit and KeyboardInterrupt of a submission
        # A DSL that imports without the shim marks its own class of such errors.
        incomplete = getattr(type(error), "mkb_incomplete", False) is True
        return _failure("incomplete" if incomplete else "exception", error)


def traced(error: BaseException) -> str:
    """The traceback from the submission's first line on, without folders of what is installed."""
    told = traceback.TracebackException.from_exception(error)
    waiting, seen = [told], set()
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        ours = [frame.filename.startswith(_HERE) for frame in part.stack]
        if not all(ours):
            part.stack = traceback.StackSummary.from_list(part.stack[ours.index(False) :])
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
    text = "".join(told.format())
    # The longest first: folders of the path lie in each other.
    for folder in sorted((f for f in sys.path if len(f) > 1), key=len, reverse=True):
        text = text.replace(f'File "{folder}/', 'File "')
    return text


def _failure(kind: str, error: BaseException) -> Json:
    try:
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        text = traced(error)
    except Exception:  # an exception of the submission's own may not even print
        message, text = type(error).__name__, ""
    return {
        "ok": False,
        "error": {"kind": kind, "message": message[:_LONGEST], "traceback": text[-_LONGEST:]},
    }


def serve(control: socket.socket, handlers: dict[str, Handler]) -> None:
    """Answers until the driver closes the socket."""
    with control.makefile("rwb") as stream:
        for line in stream:
            reply = json.dumps(answer(handlers, line))
            sys.stdout.flush()
            sys.stderr.flush()
            stream.write(reply.encode() + b"\n")
            stream.flush()


def run(given: list[str] | None = None) -> None:
    """Runs the worker that the arguments ask for until its driver is gone."""
    arguments = parse_arguments(given)
    control = socket.socket(fileno=arguments.control_fd)
    if arguments.role == "template":
        from . import template

        template.preload(arguments.dsl, trusted=not arguments.sandboxed)
        template.serve(control, sandboxed=arguments.sandboxed)
    else:
        serve(control, make_handlers(arguments))


if __name__ == "__main__":
    run()
