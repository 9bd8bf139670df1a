"""A template forks workers that work as ones started alone do."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from driver import PYTHON

KERNEL = """import torch
def solve(n):
    x = torch.arange(n, device="cuda")
    return (x * x).sum().item()
"""


class Template:
    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", "mkb_worker", "template"]
        self.process = subprocess.Popen(
            [*command, "--control-fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": str(PYTHON)},
        )
        theirs.close()

    def fork(self, role: str) -> tuple[socket.socket, int]:
        """The worker's control socket, and its process's number."""
        ours, theirs = socket.socketpair()
        arena, tape, output = (os.memfd_create(name) for name in ("arena", "tape", "output"))
        os.ftruncate(arena, 1 << 30)
        arguments = {"role": role, "dsl": None}
        request = {
            "op": "fork",
            "arguments": arguments,
            "fds": ["control", "arena", "tape", "output"],
        }
        fds = [theirs.fileno(), arena, tape, output]
        socket.send_fds(self.socket, [json.dumps(request).encode() + b"\n"], fds)
        theirs.close()
        for fd in (arena, tape, output):
            os.close(fd)
        return ours, self.answer()["pid"]

    def end(self, pid: int) -> dict:
        self.socket.sendall(json.dumps({"op": "end", "pid": pid}).encode() + b"\n")
        return self.answer()

    def answer(self) -> dict:
        with self.socket.makefile("rb", buffering=0) as stream:
            return json.loads(stream.readline())


def ask(control: socket.socket, **request: object) -> dict:
    control.sendall(json.dumps(request).encode() + b"\n")
    with control.makefile("rb") as stream:
        return json.loads(stream.readline())


def test_forked_workers_work_and_end_alone(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(KERNEL)
    template = Template()
    workers = []
    for n in (10, 20):
        control, pid = template.fork("submission")
        assert ask(control, op="import", path=str(kernel))["ok"]
        ask(control, op="place", inputs=[{"t": "int", "v": n}])
        answer = ask(control, op="call")
        assert answer["outputs"] == {"t": "int", "v": sum(i * i for i in range(n))}
        workers.append((control, pid))
    assert template.end(workers[0][1]) == {"ok": True, "signal": signal.SIGKILL}
    # The other one and the template go on.
    control, pid = workers[1]
    assert ask(control, op="place", inputs=[{"t": "int", "v": 3}])["ok"]
    third, _ = template.fork("reference")
    assert not ask(third, op="nonsense")["ok"]
    pidfd = os.pidfd_open(pid)
    template.socket.close()
    assert template.process.wait(20) == 0
    assert select.select([pidfd], [], [], 10)[0], "a worker outlives its template"


def test_how_a_worker_ended_is_told(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import os\nos._exit(7)\n")
    template = Template()
    control, pid = template.fork("submission")
    control.sendall(json.dumps({"op": "import", "path": str(kernel)}).encode() + b"\n")
    assert control.recv(1) == b""
    assert template.end(pid) == {"ok": True, "code": 7}
    template.socket.close()
    assert template.process.wait(20) == 0
