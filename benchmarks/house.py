"""Print how large and how tangled the code is: `python house.py [--json] [--install] [--speed DATA PEER_PYTHON]`.

Of the package and its plugins, without tests: lines of code (docstrings, comments and blank lines are not counted),
files, the largest folder, circles of imports, and the files of the project through which one coordinate of a dump goes
on its way from the command line to the disk. Imports are read from the syntax tree, those inside functions too;
those under `TYPE_CHECKING`, which no running program makes, are counted in circles of their own.

`--install` builds a wheel, installs it into new environments (an index of packages is needed) and prints what the core
and `[all]` take with everything they need. `--speed` runs the scripts of this folder against their peers.
"""

import argparse
import ast
import collections
import io
import json
import os
import subprocess
import sys
import tempfile
import tokenize
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
GOALS = {
    "lines of code": 50_000,
    "files": 240,
    "files in the largest folder": 14,
    "circles of imports": 0,
    "circles of folders": 0,
    "files a coordinate passes": 25,
    "core install, MB": 120,
    "[all] install, MB": 350,
}
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
#: The scripts that measure against peers; {data} and {peer} are what `--speed` names.
SPEED = (
    "compare.py {data} {peer} --runs 5",
    "xyz_speed.py {data} {peer} extxyz fifteen .mrec --runs 5",
    "pdb_speed.py {data} {peer} biotite gemmi --runs 5",
    "migration.py {data} {peer}",
    "collection_store.py --records 2000 --runs 3",
    "collection_scale.py --seconds 2 --runs 1",
)


def sources():
    """Return module name → file of the package and the plugins."""
    found = {}
    for base in (ROOT, ROOT / "plugins"):
        for path in sorted(base.glob("mol*/**/*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def lines_of_code(path):
    """Return how many lines of a file hold code."""
    text = path.read_text(encoding="utf-8")
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


class Imports(ast.NodeVisitor):
    """The modules a module imports: `always` and, under `TYPE_CHECKING`, for `types` only."""

    def __init__(self, module, path, modules):
        self.module, self.modules = module, modules
        self.package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        self.always, self.types = set(), set()
        self.into = self.always
        self.visit(ast.parse(path.read_text(encoding="utf-8")))

    def visit_If(self, node):
        test = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        if test == "TYPE_CHECKING":
            before, self.into = self.into, self.types
            for entry in node.body:
                self.visit(entry)
            self.into = before
            for entry in node.orelse:
                self.visit(entry)
        else:
            self.generic_visit(node)

    def visit_Import(self, node):
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node):
        base = node.module or ""
        if node.level:
            stem = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
            base = ".".join([*stem, *([base] if base else [])])
        for alias in node.names:
            self.add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in self.modules else base)

    def add(self, name):
        while name and name not in self.modules:
            name = name.rpartition(".")[0]
        if name and name != self.module:
            self.into.add(name)


def circles(graph):
    """Return the sets of nodes that reach each other (strongly connected components of more than one)."""
    numbers, low, stack, found = {}, {}, [], []
    sys.setrecursionlimit(10_000)

    def walk(node):
        numbers[node] = low[node] = len(numbers)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in numbers:
                walk(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], numbers[other])
        if low[node] == numbers[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in numbers:
            walk(node)
    return found


def folder_of(module, modules):
    """Return the folder a module lies in."""
    return str(modules[module].parent.relative_to(ROOT))


def circles_of_folders(graph, modules):
    """Return the circles between folders that lie side by side; what is inside one counts as that one.

    A folder and the one it lies in are no circle: a package's own modules may use its parts and hand on to them.
    """
    found = []
    parents = {str(path.parent.relative_to(ROOT)) for path in modules.values()}
    tops = sorted({str(Path(parent).parent) for parent in parents} | parents)
    for top in tops:
        inside = collections.defaultdict(set)
        for module, others in graph.items():
            first = _child(folder_of(module, modules), top)
            for other in others:
                second = _child(folder_of(other, modules), top)
                if first and second and first != second:
                    inside[first].add(second)
        found += circles(inside)
    return found


def _child(folder, top):
    """Return the folder right under `top` in which a folder is; None where it is not under it."""
    relative = os.path.relpath(folder, top)
    return None if relative.startswith("..") or relative == "." else os.path.join(top, relative.split(os.sep)[0])


def ties(circle, graph):
    """Return the imports inside a circle, a line each."""
    return [f"{a} -> {b}" for a in circle for b in sorted(graph.get(a, ())) if b in circle]


#: Converts a dump twice, the second time with a look at what each function of the project holds when it returns.
PASSING = """
import struct, sys
import numpy as np
from molrec_convert.cli import run

root, source, target = sys.argv[1:4]
TEXT, NUMBER = b"7.123456789", struct.pack("<d", 7.123456789)
OPAQUE = (str, int, float, bool, type(None), type, type(sys), type(run))
runs, holds = set(), set()

def holding(value, depth):
    if isinstance(value, OPAQUE):
        return False
    if isinstance(value, np.ndarray) and value.dtype != np.uint8:
        return value.dtype.kind == "f" and NUMBER in value.tobytes()
    if isinstance(value, (bytes, bytearray, memoryview, np.ndarray)) or type(value).__name__ == "mmap":
        return depth > 3 and any(part in bytes(value) for part in (TEXT, NUMBER))
    if not depth:
        return False
    if isinstance(value, dict):
        return any(holding(entry, depth - 1) for entry in list(value.values())[:50])
    if isinstance(value, (list, tuple)):
        return any(holding(entry, depth - 1) for entry in value[:50])
    slots = getattr(type(value), "__slots__", ())
    names = getattr(value, "__dict__", None) or {name: getattr(value, name, None) for name in slots}
    return type(value).__module__.startswith("molrec") and any(holding(e, depth - 1) for e in names.values())

def look(frame, event, result):
    name = frame.f_code.co_filename
    if event != "return" or not name.startswith(root) or frame.f_code.co_name == "<module>":
        return
    runs.add(name)
    if name not in holds and any(holding(value, 4) for value in (*frame.f_locals.values(), result)):
        holds.add(name)

for number in range(2):
    import threading
    if number:
        threading.setprofile(look)
        sys.setprofile(look)
    code = run(["convert", source, f"{target}{number}.mrec", "--columns", "x", "-q"])
    sys.setprofile(None)
    assert code == 0
print(*sorted(holds), "", *sorted(runs), sep="\\n")
"""


def passed_files():
    """Return the files of the project that hold the x of a dump on its way to a record, and those whose code runs.

    A file holds it where one of its functions has it in an argument, a variable or its result when it returns: as
    text, in an array, or in a few levels of containers and objects around that.
    """
    with tempfile.TemporaryDirectory() as scratch:
        dump = Path(scratch) / "one.lammpstrj"
        frames = (
            f"ITEM: TIMESTEP\n{10 * k}\nITEM: NUMBER OF ATOMS\n2\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\n"
            f"ITEM: ATOMS id type x y z\n1 1 7.123456789 2 3\n2 1 {k}.5 5 6\n"
            for k in range(3)
        )
        dump.write_text("".join(frames))
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"}
        command = [sys.executable, "-c", PASSING, str(ROOT), str(dump), str(Path(scratch) / "made")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    holds, _, runs = done.stdout.strip().partition("\n\n")
    return tuple([os.path.relpath(name, ROOT) for name in names.split("\n")] for names in (holds, runs))


def installed():
    """Return the megabytes of new environments with the core and with `[all]`, and those of their largest folders."""
    found, largest = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        pip = [sys.executable, "-m", "pip", "-q"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", place, ROOT], check=True)
        (wheel,) = place.glob("*.whl")
        for name, extra in (("core install, MB", ""), ("[all] install, MB", "[all]")):
            environment = place / name.split(",")[0]
            venv.create(environment, with_pip=False)
            python = environment / "bin" / "python"
            subprocess.run([*pip, "--python", python, "install", f"{wheel}{extra}"], check=True)
            (packages,) = environment.glob("lib/python*/site-packages")
            sizes = collections.Counter()
            for path in packages.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    sizes[path.relative_to(packages).parts[0]] += path.stat().st_size
            found[name] = round(sizes.total() / 1e6)
            largest[name] = {folder: round(size / 1e6, 1) for folder, size in sizes.most_common(12)}
    return found, largest


def speeds(data, peer):
    """Run the scripts that measure peers; return script → what it printed."""
    found = {}
    for line in SPEED:
        script, *words = line.format(data=data, peer=peer).split()
        done = subprocess.run([sys.executable, HERE / script, *words], stdout=subprocess.PIPE, text=True, check=True)
        found[line.partition(" ")[0]] = done.stdout.splitlines()
    return found


def measured():
    """Return the figures, and what stands behind them."""
    modules = sources()
    imports = {name: Imports(name, path, modules) for name, path in modules.items()}
    running = {name: entry.always for name, entry in imports.items()}
    typed = {name: entry.always | entry.types for name, entry in imports.items()}
    folders = collections.Counter(folder_of(name, modules) for name in modules)
    lines = {name: lines_of_code(path) for name, path in modules.items()}
    largest, count = folders.most_common(1)[0]
    passed, running_files = passed_files()
    module_circles, folder_circles = circles(running), circles_of_folders(running, modules)
    figures = {
        "lines of code": sum(lines.values()),
        "files": len(modules),
        "files in the largest folder": count,
        "circles of imports": len(module_circles),
        "circles of imports, those for types too": len(circles(typed)),
        "circles of folders": len(folder_circles),
        "circles of folders, those for types too": len(circles_of_folders(typed, modules)),
        "files a coordinate passes": len(passed),
        "files whose code runs meanwhile": len(running_files),
    }
    behind = {
        "largest folder": largest,
        "folders of more than 14 files": {name: n for name, n in folders.most_common() if n > 14},
        "longest files": dict(collections.Counter(lines).most_common(5)),
        "circles of imports": {" ".join(circle): ties(circle, running) for circle in module_circles},
        "circles of imports, those for types too": [" ".join(circle) for circle in circles(typed)],
        "circles of folders": [" ".join(circle) for circle in folder_circles],
        "files a coordinate passes": passed,
        "files whose code runs meanwhile": running_files,
    }
    return figures, behind


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print everything as JSON, what is behind the figures too")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what is behind the figures, too")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--speed", nargs=2, metavar=("DATA", "PEER_PYTHON"))
    arguments = parser.parse_args()
    figures, behind = measured()
    if arguments.install:
        sizes, behind["installed"] = installed()
        figures |= sizes
    tables = speeds(*arguments.speed) if arguments.speed else {}
    if arguments.json:
        print(json.dumps({"figures": figures, "goals": GOALS, "behind": behind, "speed": tables}, indent=1))
        return
    print("| figure | now | goal |\n|---|---|---|")
    for name, value in figures.items():
        print(f"| {name} | {value:,} | {f'{GOALS[name]:,}' if name in GOALS else ''} |")
    for script, lines in tables.items():
        print(f"\n{script}\n", *lines, sep="\n")
    if arguments.verbose:
        print(json.dumps(behind, indent=1))


if __name__ == "__main__":
    main()
