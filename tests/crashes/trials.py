"""A piece of work in a process that is forked off for it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crashes import shim

#: Seconds after which a process counts as hanging.
PATIENCE = 60

#: Says what is promised from this moment on: so many frames, so many records.
Promise = Callable[[int], None]
Work = Callable[[Promise], int | None]


@dataclass
class Outcome:
    """How a process ended.

    `signal`: what killed it, 0 for none; `code`: its exit code; `promises`: in their order; `said`: its standard
    streams; `raised`: the error it ended by, as text, `expected` where that is one a caller has to reckon with;
    `result`: what it returned, `counts`: operations of each kind, `modules`: what it imported.
    """

    signal: int = 0
    code: int = 0
    promises: list[int] = field(default_factory=list)
    said: str = ""
    raised: str = ""
    expected: bool = False
    result: Any = None
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    modules: list[str] = field(default_factory=list)

    @property
    def promised(self) -> int:
        """The most that was promised."""
        return max(self.promises, default=0)


def worked(work: Work, folder: Path, mode: int = shim.OFF, **armed: Any) -> Outcome:
    """Do a piece of work in `folder`, by a process that is forked off, with the shim armed."""

    def inside(tell: Callable[..., None]) -> int:
        def promise(number: int) -> None:
            shim.mark(str(number))
            tell(promise=number)

        before = set(sys.modules)
        os.chdir(folder)
        if mode != shim.OFF:
            shim.arm(mode, folder, **armed)
        try:
            code = work(promise) or 0
            if mode == shim.LOG:
                shim.mark("done")
            return code
        finally:
            counts = [shim.count(kind) for kind in (shim.ANY, shim.ROOM, shim.WRITES)]
            shim.disarm()
            if mode == shim.COUNT:
                tell(counts=counts, modules=[name for name in sys.modules if name not in before])

    return _forked(inside)


def apart(function: Callable[[], Any]) -> Outcome:
    """Call a function in a process that is forked off; what it returns, as JSON, is the outcome's `result`."""

    def inside(tell: Callable[..., None]) -> int:
        tell(result=function())
        return 0

    return _forked(inside)


def _forked(inside: Callable[[Callable[..., None]], int]) -> Outcome:
    told, tells = os.pipe()
    said, says = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(told)
        os.close(said)
        os._exit(_in_child(inside, tells, says))
    os.close(tells)
    os.close(says)
    texts = _drained(pid, told, said)
    _, status = os.waitpid(pid, 0)
    outcome = Outcome(said=texts[said].decode(errors="replace"))
    if os.WIFSIGNALED(status):
        outcome.signal = os.WTERMSIG(status)
    else:
        outcome.code = os.WEXITSTATUS(status)
    for line in texts[told].splitlines():
        for name, value in json.loads(line).items():
            if name == "promise":
                outcome.promises.append(value)
            else:
                setattr(outcome, name, value)
    return outcome


def _in_child(inside: Callable[[Callable[..., None]], int], tells: int, says: int) -> int:
    from molrec_convert.errors import MolrecError

    def tell(**what: Any) -> None:
        os.write(tells, json.dumps(what).encode() + b"\n")

    try:
        signal.alarm(PATIENCE)
        for stream in (1, 2):
            os.dup2(says, stream)
        sys.stdout, sys.stderr = (open(stream, "w", closefd=False) for stream in (1, 2))  # noqa: SIM115
        code = inside(tell)
        sys.stdout.flush()
        sys.stderr.flush()
        return code
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        tell(raised=f"{type(error).__name__}: {error}", expected=isinstance(error, (MolrecError, OSError)))
        os.write(2, text[-2000:].encode())
        return 99


def _drained(pid: int, *pipes: int) -> dict[int, bytes]:
    """Read pipes until all are closed; a process that hangs is killed."""
    texts = dict.fromkeys(pipes, b"")
    end = time.monotonic() + PATIENCE + 5
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(1):
                data = os.read(key.fd, 1 << 16)
                texts[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                break
    for pipe in pipes:
        os.close(pipe)
    return texts
