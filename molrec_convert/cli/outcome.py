"""Exit codes, and errors as one sentence on stderr."""

from __future__ import annotations

import errno

from molrec_convert.cli.output import tell
from molrec_convert.errors import ContractError, LossError, MolrecError, PluginError, UnsupportedError, UsageError

__all__ = [
    "BROKEN_PIPE",
    "DONE",
    "FAULT",
    "INTERRUPTED",
    "LOSSY",
    "SOME_FAILED",
    "USAGE",
    "complain",
    "exit_code",
    "sentence",
]

DONE = 0
#: An input, or a record, does not say what it should; or the system refuses (no permission, a full disk).
FAULT = 1
USAGE = 2
#: Refused: something would be lost.
LOSSY = 3
#: Some of several inputs failed, the others are done.
SOME_FAILED = 4
INTERRUPTED = 130
BROKEN_PIPE = 141

#: Letters of a sentence that are shown: what stands in a file may be of any length.
_LONGEST = 2000

_REMEDIES = {
    errno.ENOSPC: "free some space, then {again}",
    errno.EDQUOT: "free some space, then {again}",
    errno.EIO: "check the disk, then {again}",
    errno.EFBIG: "raise the limit of 'ulimit -f', or name a place where files may be larger",
    errno.EACCES: "check its permissions, or name another place",
    errno.EPERM: "check its permissions, or name another place",
    errno.EROFS: "name a place that can be written",
    errno.EMFILE: "raise the limit with 'ulimit -n'",
}


def exit_code(error: BaseException) -> int:
    """The exit code an error ends the program with."""
    if isinstance(error, UsageError):
        return USAGE
    return LOSSY if isinstance(error, LossError) else FAULT


def sentence(error: BaseException, place: str = "", *, again: str = "try again") -> str:
    """An error in one sentence: what is wrong, where, and what to do.

    `place` is where, should the error not say; `again` how to go on when its cause is gone. Of what is wrong inside of
    a record the error says the node only.
    """
    if isinstance(error, Exception) and not isinstance(error, (MolrecError, OSError)):
        from molrec_convert.plugin_faults import plugin_fault

        error = plugin_fault(error) or error
    if isinstance(error, PluginError):
        text = f"{error} (MOLREC_TRACEBACK=1 shows where)"
    elif isinstance(error, MolrecError):
        text = str(error)
        if isinstance(error, (ContractError, UnsupportedError)) and not any(name in text for name in place.split(", ")):
            text = f"{place}: {text}"
    elif isinstance(error, OSError) and error.errno is not None:
        where = error.filename2 or error.filename or place
        reason = (error.strerror or "the system refuses").lower()
        text = f"{where}: {reason}" if where else reason
        remedy = _REMEDIES.get(error.errno)
        text = f"{text}; {remedy.format(again=again)}" if remedy else text
    elif isinstance(error, MemoryError):
        text = f"{place or 'this'} needs more memory than there is"
    elif isinstance(error, OSError):
        text = str(error)
    else:
        text = (
            f"an error in this program, please report it: {type(error).__name__}: {error} "
            "(MOLREC_TRACEBACK=1 shows where)"
        )
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def complain(text: str) -> None:
    """One sentence on stderr."""
    tell(f"mrec: {' '.join(text.split())}")
