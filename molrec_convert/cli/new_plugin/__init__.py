"""`mrec new-plugin`: writes the project of a plugin that works, from the files beside this one.

The files are a plugin for a format called "points"; only its name is changed on the way.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import click

from molrec_convert.cli.options import PATH, examples
from molrec_convert.cli.output import print_lines
from molrec_convert.errors import UsageError

__all__ = ["new_plugin_command"]

#: Template beside this file → where it goes; `writer` and `sample` follow the name of the plugin.
_FILES = {
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
    "plugin.py.txt": "src/molrec_points/__init__.py",
    "reader.py.txt": "src/molrec_points/reader.py",
    "writer.py.txt": "src/molrec_points/writer.py",
    "test.py.txt": "tests/test_points.py",
    "sample.txt": "tests/sample.points",
}
#: Lines that end in this are for a plugin with a writer.
_WRITER = "  # with a writer"


@click.command(
    "new-plugin",
    epilog=examples(
        "mrec new-plugin gromos              molrec-gromos/, a plugin that reads *.gromos",
        "mrec new-plugin gromos --writer     one that writes them, too",
        "mrec new-plugin gromos -o work/gromos",
        "cd molrec-gromos && pip install -e '.[test]' && pytest",
    ),
)
@click.argument("name")
@click.option("-o", "--output", type=PATH, metavar="DIR", help="The directory to make; default: molrec-NAME.")
@click.option("--writer", is_flag=True, help="Add a writer.")
def new_plugin_command(name: str, output: Path | None, writer: bool) -> None:
    """Write a plugin for the new format NAME: a project that installs and passes its tests.

    It reads, frame by frame, a simple text format that you replace with your own. The tests are the conformance tests
    of molrec_convert.testing, which check whatever the reader becomes.
    """
    _check_name(name)
    folder = Path(f"molrec-{name}") if output is None else output
    if folder.exists():
        raise UsageError(f"{folder} exists already: name another directory with -o")
    written = []
    for template, place in _FILES.items():
        if template.startswith("writer") and not writer:
            continue
        path = folder / _renamed(place, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (files(__name__) / template).read_text(encoding="utf-8").splitlines()
        kept = [line.removesuffix(_WRITER) for line in lines if writer or not line.endswith(_WRITER)]
        path.write_text("".join(f"{_renamed(line, name)}\n" for line in kept), encoding="utf-8")
        written.append(str(path))
    print_lines([*written, "", f"next: cd {folder} && pip install -e '.[test]' && pytest"])


def _check_name(name: str) -> None:
    from molrec_convert.plugins import formats

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UsageError(f"{name!r} is no name for a format: use lower-case letters, digits and single hyphens")
    if name in formats():
        raise UsageError(f"there is a format {name!r} already; 'mrec formats {name}' describes it")


def _renamed(text: str, name: str) -> str:
    """Return a text of the template with `points` replaced by the name, as a module, a class or a word."""
    module, words = name.replace("-", "_"), "".join(word.capitalize() for word in name.split("-"))
    forms = {"points": name, "Points": words, "points_": f"{module}_"}
    return re.sub(
        r"(?<!entry-)(molrec_|test_|)(points_|points|Points)", lambda m: m[1] + (module if m[1] else forms[m[2]]), text
    )
