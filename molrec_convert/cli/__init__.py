"""The command line: `mrec`, also installed as `molrec-convert`.

Commands are thin: they parse arguments, call one function of the package, and print. Results go to stdout; reports,
warnings and progress to stderr. Nothing is imported before the command that needs it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

import click

from molrec_convert.cli.app import App
from molrec_convert.cli.output import (
    BROKEN_PIPE,
    DONE,
    FAULT,
    INTERRUPTED,
    USAGE,
    exit_code,
    print_error,
    sentence,
    show_warning,
)

__all__ = ["main", "run"]

#: Set to see the traceback behind an error.
TRACEBACK = "MOLREC_TRACEBACK"


def main() -> NoReturn:
    """Run the command line the program was started with, and exit."""
    # Threads that parse and compress take turns with the one that writes: with turns of 5 ms they wait for each other.
    sys.setswitchinterval(0.0005)
    warnings.showwarning = show_warning
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; every error is one sentence on stderr."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The program was started with this stream closed: nobody reads it.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left in the buffer must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _run(arguments: list[str]) -> int:
    app = App()
    try:
        with app.make_context("mrec", arguments or ["--help"]) as context:
            result = app.invoke(context)
            return result if isinstance(result, int) else DONE
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "mrec"
        print_error(f"{error.format_message().rstrip('.')}; see '{command} --help'")
        return USAGE
    except click.ClickException as error:
        print_error(error.format_message().rstrip("."))
        return FAULT
    except (KeyboardInterrupt, click.Abort):
        print_error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        print_error(sentence(error, ", ".join(filter(os.path.exists, arguments))))
        return exit_code(error)
