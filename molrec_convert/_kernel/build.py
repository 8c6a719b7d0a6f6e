"""Build the kernel: `python -m molrec_convert._kernel.build` puts the library beside its source.

Any C compiler will do: `$CC`, `cc`, `gcc`, `clang`, or that of the PyPI package `ziglang`, which also compiles for
other platforms. This module needs nothing but Python, so that the build of a wheel can load it by its path.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["NAMES", "SOURCES", "build", "compiler", "library_name", "powers"]

SOURCES = ("rows.c", "write.c", "planes.c")
NAMES = {"darwin": "kernel.dylib", "win32": "kernel.dll"}
_HERE = Path(__file__).parent
_FLAGS = ("-std=c99", "-O3", "-shared", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off")


def library_name(platform: str = sys.platform) -> str:
    """Return the file name of the library on a platform, by Python's name for it."""
    return NAMES.get(platform, "kernel.so")


def powers() -> str:
    """Return the C table of the first 128 bits of 10^-342 to 10^324: cut off, of negative powers rounded up."""
    lines = []
    for power in range(-342, 325):
        five = 5 ** abs(power)
        if power < 0:
            bits = (five - 1).bit_length()
            five = (1 << (bits + 127 if power >= -27 else 2 * bits + 128)) // five + 1
        shift = 128 - five.bit_length()
        five = five << shift if shift >= 0 else five >> -shift
        lines.append(f"{{{five >> 64:#x}ULL, {five & (2**64 - 1):#x}ULL}},\n")
    return f"static const uint64_t POWERS[{len(lines)}][2] = {{\n{''.join(lines)}}};\n"


def compiler() -> list[str] | None:
    """Return the command of a C compiler of this machine, None where there is none."""
    named = shlex.split(os.environ.get("CC", ""))
    for command in ([named] if named else []) + [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def build(target: Path, command: Sequence[str] | None = None, flags: Sequence[str] = ()) -> Path | None:
    """Compile the library to the file `target`; None where there is no compiler or it fails (it says why)."""
    command = command or compiler()
    if command is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / target.name
        (Path(scratch) / "powers.h").write_text(powers(), encoding="utf-8")
        sources = [str(_HERE / name) for name in SOURCES]
        position = () if target.suffix == ".dll" else ("-fPIC",)
        arguments = [*command, *_FLAGS, *position, *flags, "-I", scratch, "-I", str(_HERE), *sources, "-o", str(made)]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        except OSError as error:
            print(f"the kernel was not built: {error}", file=sys.stderr)
            return None
        if done.returncode or not made.is_file():
            print(f"the kernel was not built:\n{shlex.join(arguments)}\n{done.stderr}", file=sys.stderr)
            return None
        # one that is in use elsewhere stays as it is: it gives way to the new file as a whole
        waiting = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copyfile(made, waiting)
        waiting.replace(target)
    return target


if __name__ == "__main__":
    found = build(_HERE / library_name())
    print(f"built {found}" if found else "no C compiler was found: install one, or the PyPI package ziglang")
    sys.exit(found is None)
