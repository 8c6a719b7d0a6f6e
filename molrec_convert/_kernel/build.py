"""Build the kernel: `python -m molrec_convert._kernel.build` puts the library beside its source.

Any C compiler will do: `$CC`, `cc`, `gcc`, `clang`, or that of the PyPI package `ziglang`, which also compiles for
other platforms. This module needs nothing but Python, so that the build of a wheel can load it by its path.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

__all__ = ["TARGETS", "build", "compiler", "library_name", "platform_tag", "powers", "requirements"]

SOURCES = ("rows.c", "write.c", "planes.c")
#: Platforms wheels are made for: the tag of the wheel, and what the compiler of ziglang calls it.
TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}
_HERE = Path(__file__).parent
_FLAGS = ("-std=c99", "-O3", "-shared", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off")
_ZIG = [sys.executable, "-m", "ziglang", "cc", "-s"]


def library_name(target: str | None = None) -> str:
    """Return the file name of the library on a platform, by the tag of its wheels (None: this one)."""
    target = target or sys.platform
    return f"kernel.{'dll' if target.startswith('win') else 'dylib' if target.startswith(('mac', 'darwin')) else 'so'}"


def platform_tag(target: str | None = None) -> str:
    """Return the tag of the wheels of a platform (None: this one)."""
    if target:
        return target
    if sys.platform == "darwin":
        return f"macosx_11_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


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
    return _ZIG if importlib.util.find_spec("ziglang") is not None else None


def requirements(target: str | None = None) -> list[str]:
    """Return the PyPI packages a build needs: a compiler, where there is none and one is to be had."""
    machine = platform.machine().lower()
    known = sys.platform in ("linux", "darwin", "win32") and machine in ("x86_64", "amd64", "arm64", "aarch64")
    return ["ziglang"] if target or (known and compiler() is None) else []


def build(made: Path, target: str | None = None) -> Path | None:
    """Compile the library for a platform (None: this one) to the file `made`; None where that fails (it says why)."""
    command = [*_ZIG, "-target", TARGETS[target]] if target else compiler()
    if command is None:
        print("the kernel was not built: there is no C compiler", file=sys.stderr)
        return None
    position = [] if made.suffix == ".dll" else ["-fPIC"]
    if sys.platform == "darwin" and not target:
        position.append("-mmacosx-version-min=11.0")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / made.name
        (Path(scratch) / "powers.h").write_text(powers(), encoding="utf-8")
        sources = [str(_HERE / name) for name in SOURCES]
        arguments = [*command, *_FLAGS, *position, "-I", scratch, "-I", str(_HERE), *sources, "-o", str(out)]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        except OSError as error:
            print(f"the kernel was not built: {error}", file=sys.stderr)
            return None
        if done.returncode or not out.is_file():
            print(f"the kernel was not built:\n{shlex.join(arguments)}\n{done.stderr}", file=sys.stderr)
            return None
        # a library that is in use stays as it is: the new one takes its place as a whole
        waiting = made.with_name(f"{made.name}.{os.getpid()}")
        shutil.copyfile(out, waiting)
        waiting.replace(made)
    return made


if __name__ == "__main__":
    found = build(_HERE / library_name())
    print(f"built {found}" if found else "install a C compiler, or the PyPI package ziglang")
    sys.exit(found is None)
