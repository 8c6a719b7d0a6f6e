"""The examples as files in one folder: every record, the packed water record, the collection. Commands run there."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from click.testing import CliRunner

from layout_examples.collection import write_conformers
from layout_examples.records import EXAMPLES
from molrec_convert.cli.app import App
from molrec_convert.formats import WriteContext
from molrec_convert.stores.zarr.record_writer import pack, write_record

__all__ = ["output", "write_examples"]


def write_examples(folder: Path) -> Path:
    """Write every example into `folder`. Their documents name no creator and no time but their own."""
    for name, build in EXAMPLES.items():
        write_record(build(), folder / f"{name}.mrec", WriteContext(creator=False))
    pack(folder / "water.mrec", folder / "water.mrec.zip")
    write_conformers(folder / "conformers.mrec.lmdb")
    return folder


def output(folder: Path, command: str) -> list[str]:
    """The lines `mrec ...` prints when it is run in `folder`; it has to succeed."""
    program, *arguments = shlex.split(command)
    if program != "mrec":
        raise ValueError(f"not a command of ours: {command}")
    with contextlib.chdir(folder):
        result = CliRunner().invoke(App(), arguments)
    if result.exit_code != 0:
        raise RuntimeError(f"{command}: {result.output or result.exception}") from result.exception
    return result.stdout.splitlines()
