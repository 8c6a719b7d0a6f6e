"""Two at one target: a command in another process that waits just before its result takes its name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from molrec_convert.cli import run
from molrec_convert.files import staging


@contextmanager
def about_to_commit(*arguments: object) -> Iterator[int]:
    """Run a command in a child process up to its first commit; it goes on, and has to succeed, when this is left."""
    (ready, reached), (told, go) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(go)
        taking, waited = staging.take_place, []

        def take_place(*names: Any) -> None:
            if not waited:
                waited.append(True)
                os.write(reached, b"x")
                os.read(told, 1)
            taking(*names)

        staging.take_place = take_place
        os._exit(run([str(word) for word in arguments]))
    os.close(reached)
    os.close(told)
    try:
        assert os.read(ready, 1) == b"x", "the command ended before it had something to commit"
        yield child
    finally:
        os.close(go)
        os.close(ready)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0


def second_is_refused(first: Sequence[object], second: Sequence[object], capfd: pytest.CaptureFixture[str]) -> None:
    """Check that a command is refused while another one writes the same target, with who that is, and exit code 2."""
    with about_to_commit(*first) as child:
        capfd.readouterr()
        assert run([str(word) for word in second]) == 2
        said = capfd.readouterr().err.strip()
    host = re.escape(os.uname().nodename)
    told = rf"mrec: \S+ is being written by process {child} on {host} \(.+, since \d\d:\d\d:\d\d\)"
    assert re.fullmatch(f"{told}: wait for it, or name another target", said), said
