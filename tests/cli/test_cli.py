"""The command line but for `convert`: help, start-up, exit codes, output of every command."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import hand_built as hand
import pytest
from hand_stores import ragged, regular, snapshots

from molrec_convert import __version__
from molrec_convert.cli import run
from molrec_convert.cli.app import COMMANDS
from molrec_convert.cli.options import human_size
from molrec_convert.cli.output import FAULT, LOSSY, USAGE, exit_code, sentence
from molrec_convert.errors import ContractError, FormatError, LossError, UnsupportedError, UsageError

HEAVY = ("numpy", "zarr", "pandas", "pyarrow", "rich", "numcodecs")
MREC = [sys.executable, "-c", "from molrec_convert.cli import main; main()"]


def mrec(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*MREC, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300, check=False
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["convert", "--help"], ["formats", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
        import sys
        from molrec_convert.cli import run
        code = run({arguments!r})
        print([name for name in {HEAVY!r} if name in sys.modules], code)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_examples(command: str, capsys: Any) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: mrec {command} ")
    assert "Examples:\n" in text
    assert f"    mrec {command} " in text


def test_help_lists_all_commands(capsys: Any) -> None:
    assert run([]) == 0
    text = capsys.readouterr().out
    for command, (_, words) in COMMANDS.items():
        assert command in text
        assert words.split(",")[0] in text
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"molrec-convert {__version__}\n"


def check_sentence(text: str) -> None:
    """One sentence on one line: where and what, no traceback, no full stop, no shouting."""
    assert text.count("\n") == 1, text
    assert text.startswith("mrec: "), text
    assert not text.rstrip().endswith((".", "!")), text
    assert "Traceback" not in text


USAGE_ERRORS = [
    (["confert"], "there is no command 'confert', did you mean 'convert'?; see 'mrec --help'"),
    (["zzz"], "there is no command 'zzz', there are convert, migrate, info, tree"),
    (["tree"], "see 'mrec tree --help'"),
    (["tree", "/nonexistent"], "there is no file or directory /nonexistent"),
    (["info", "/nonexistent"], "there is no file or directory /nonexistent"),
    (["validate", "/nonexistent"], "there is no file or directory /nonexistent"),
    (["diff", "/nonexistent", "/nonexistent"], "there is no file or directory /nonexistent"),
    (["pack", "/nonexistent"], "there is no file or directory /nonexistent"),
    (["unpack", "/nonexistent.zip"], "there is no file or directory /nonexistent.zip"),
    (["unpack", "/nonexistent"], "does not end with .zip: name the target"),
    (["tree", ".", "--files", "--no-zarr"], "leave out sections and --no-zarr"),
    (["tree", ".", "--quux"], "--quux; see 'mrec tree --help'"),
    (["formats", "nothing"], "there is no format 'nothing'; there are "),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE_ERRORS, ids=[" ".join(case[0]) for case in USAGE_ERRORS])
def test_usage_errors(arguments: list[str], message: str, capsys: Any) -> None:
    missing = message.startswith("there is no file or directory")
    assert run(arguments) == (FAULT if missing else USAGE)
    out, err = capsys.readouterr()
    assert out == ""
    assert message.replace("--quux;", "'--quux';") in err.replace("--quux;", "'--quux';")
    check_sentence(err)


def test_errors_and_exit_codes() -> None:
    assert exit_code(UsageError("x")) == USAGE
    assert exit_code(LossError("x")) == LOSSY
    for error in (FormatError("f"), ContractError("n", "r"), UnsupportedError("x"), OSError(), ValueError()):
        assert exit_code(error) == FAULT
    assert sentence(PermissionError(13, "Permission denied", "/a/b")) == (
        "/a/b: permission denied; check its permissions, or name another place"
    )
    assert sentence(OSError(28, "No space left on device"), "/t") == (
        "/t: no space left on device; free some space, then try again"
    )
    assert sentence(FormatError("a", "line 3", found="x\ny", expected="z")) == "a, line 3: found x y, expected z"
    assert sentence(MemoryError(), "run.mrec") == "run.mrec needs more memory than there is"
    assert "please report it: KeyError: 'x'" in sentence(KeyError("x"))
    assert sentence(ContractError("frame/atoms", "r"), "a.mrec, b") == "a.mrec, b: frame/atoms: r"
    assert sentence(UnsupportedError("a.mrec: no"), "a.mrec, b") == "a.mrec: no"


def test_what_is_wrong_inside_of_a_record_is_told_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = snapshots(tmp_path / "a.mrec")
    hand.edit_json(path / "frame" / "atoms" / "x", lambda document: document.update(shape=1))
    for arguments in (["info", path], ["convert", path, tmp_path / "b.xyz"]):
        assert run([*map(str, arguments)]) == FAULT
        assert capsys.readouterr().err.startswith(f"mrec: {path}: frame/atoms/x: ")


def test_an_error_of_ours_shows_no_traceback_unless_asked(tmp_path: Path) -> None:
    plugin = tmp_path / "boom.py"
    plugin.write_text(
        "import molrec_convert\n\n@molrec_convert.hookimpl\ndef molrec_commands(app):\n"
        "    @app.command('boom')\n    def boom():\n        raise ZeroDivisionError('oops')\n"
    )
    info = tmp_path / "boom-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boom\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[molrec_convert]\nboom = boom\n")
    done = mrec("boom", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "an error in the plugin 'boom', please report it to its authors: ZeroDivisionError: oops" in done.stderr
    check_sentence(done.stderr)
    done = mrec("boom", PYTHONPATH=str(tmp_path), MOLREC_TRACEBACK="1")
    assert "Traceback" in done.stderr


def test_a_broken_plugin_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no\\nluck')\n")
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[molrec_convert]\nbroken = broken\n")
    for arguments in (["--help"], ["formats"]):
        done = mrec(*arguments, PYTHONPATH=str(tmp_path))
        assert done.returncode == 0
        assert done.stderr == "warning: the plugin 'broken' (broken) is skipped: RuntimeError: no luck\n"


def test_a_plugin_whose_commands_fail_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cmd.py").unlink(missing_ok=True)
    (tmp_path / "badcmd.py").write_text(
        "import molrec_convert\n\n@molrec_convert.hookimpl\ndef molrec_commands(app):\n    raise ValueError('no')\n"
    )
    info = tmp_path / "badcmd-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: badcmd\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[molrec_convert]\nbadcmd = badcmd\n")
    done = mrec("--help", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == "warning: the plugin 'badcmd' adds no commands: ValueError: no\n"


def test_tree(tmp_path: Path, capsys: Any) -> None:
    path = snapshots(tmp_path / "r.mrec")
    assert run(["tree", str(path)]) == 0
    assert capsys.readouterr().out.startswith("r.mrec/\n \\-- meta/\n")
    assert run(["tree", str(path), "status", "--no-zarr"]) == 0
    assert capsys.readouterr().out == 'r.mrec/\n \\-- status/\n      +-- state: "succeeded"\n'
    assert run(["tree", str(path), "--files"]) == 0
    assert "  status/zarr.json                            group metadata\n" in capsys.readouterr().out


def test_tree_of_what_is_no_record(tmp_path: Path, capsys: Any) -> None:
    assert run(["tree", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err == f"mrec: {tmp_path}: found no zarr.json, expected a MolRec record, whose root is a Zarr V3 group\n"


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "many.mrec")
    hand.group(path / "frame")
    for number in range(600):
        hand.group(path / "frame" / f"block{number}", count=0, note="x" * 50)
    process = subprocess.Popen(
        [*MREC, "tree", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


def test_validate(tmp_path: Path, capsys: Any) -> None:
    path = regular(tmp_path / "r.mrec")
    assert run(["validate", str(path)]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{path}: valid, 0 errors, 0 warnings\n")
    hand.group(path / "plots")
    assert run(["validate", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out == "warning: plots: this version does not know the group, it is kept as it is\n"
    hand.edit_json(path / "trajectory/atoms", lambda document: document["attributes"].pop("dense_updates"))
    assert run(["validate", str(path)]) == 1
    out, err = capsys.readouterr()
    assert "error: trajectory/atoms: uniform_rows without the other marker of a regular block\n" in out
    assert err == f"{path}: not valid, 1 error, 1 warning\n"
    assert run(["validate", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["errors"] == 1
    assert document["findings"][0]["severity"] == "warning"


def test_validate_what_is_no_record(tmp_path: Path, capsys: Any) -> None:
    junk = tmp_path / "junk.mrec.zip"
    junk.write_bytes(os.urandom(1000))
    assert run(["validate", str(junk)]) == 1
    assert "no readable zip file" in capsys.readouterr().out


def test_diff(tmp_path: Path, capsys: Any) -> None:
    a, b = ragged(tmp_path / "a.mrec"), ragged(tmp_path / "b.mrec")
    assert run(["diff", str(a), str(b)]) == 0
    assert capsys.readouterr().out == ""
    hand.array(b / "trajectory/meta/pe", [1.0, 2.0, 3.5, 4.0], meta_dtype="f64")
    assert run(["diff", str(a), str(b)]) == 1
    assert capsys.readouterr().out == "trajectory/meta/pe, frame 2: 3.0 against 3.5\n"
    assert run(["diff", str(a), str(b), "-q"]) == 1
    assert capsys.readouterr().out == ""


def test_pack_and_unpack(tmp_path: Path, capsys: Any) -> None:
    path = regular(tmp_path / "r.mrec")
    assert run(["pack", str(path)]) == 0
    packed = tmp_path / "r.mrec.zip"
    assert capsys.readouterr().err == f"{packed}: {human_size(packed.stat().st_size)}\n"
    assert run(["diff", str(path), str(packed)]) == 0
    assert run(["pack", str(path)]) == 2
    check_sentence(capsys.readouterr().err)
    assert run(["pack", str(path), "--overwrite"]) == 0
    assert run(["unpack", str(packed)]) == 2
    assert "exists already" in capsys.readouterr().err
    other = tmp_path / "other.mrec"
    assert run(["unpack", str(packed), str(other)]) == 0
    assert run(["diff", str(path), str(other)]) == 0
    assert run(["unpack", str(packed), str(other), "--overwrite"]) == 0


def test_info(tmp_path: Path, capsys: Any) -> None:
    path = regular(tmp_path / "r.mrec")
    assert run(["info", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("record      r.mrec, MolRec 1, ")
    assert "trajectory  3 frames, step -5 to 15 every 10, time 0.0 to 1.0 every 0.5\n" in out
    assert "box       5 × 5 × 5, periodic in xy, in the first frame\n" in out
    assert "id u64, " in out or "id u64\n" in out
    assert "y f64 (precision 0.5)" in out
    assert "pe: 1.0 → 3.0\n" in out
    assert "\x1b" not in out
    assert run(["info", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["trajectory"]["step"] == {"first": -5, "last": 15, "stride": 10}


def test_info_reads_no_column_of_a_trajectory(tmp_path: Path, capsys: Any) -> None:
    """Columns whose chunks are broken do not matter to it."""
    path = regular(tmp_path / "r.mrec")
    for name in ("x", "y", "id"):
        (path / "trajectory/atoms" / name / "c/0").write_bytes(b"broken")
    assert run(["info", str(path)]) == 0
    assert "3 frames" in capsys.readouterr().out


def test_formats(capsys: Any) -> None:
    assert run(["formats"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["name", "title", "reads", "writes", "files"]
    assert any(line.split()[0] == "mrec-zip" and "*.mrec.zip" in line for line in out.splitlines()[1:])
    assert run(["formats", "--json"]) == 0
    document = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert document["mrec"]["carries"]["trajectory"] == {"read": "exact", "write": "exact"}
    assert document["mrec"]["write_options"]["--compression"]
    assert run(["formats", "mrec"]) == 0
    assert "writing: --compression" in capsys.readouterr().out


def on_terminal(*arguments: object) -> str:
    """What a command writes when its stdout and stderr are a terminal."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*MREC, *map(str, arguments)], stdout=slave, stderr=slave, stdin=slave, env=environment, close_fds=True
    )
    os.close(slave)
    chunks = []
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(master)
    process.wait(60)
    return b"".join(chunks).decode()


def test_terminals_get_colours(tmp_path: Path) -> None:
    path = regular(tmp_path / "r.mrec")
    shown = on_terminal("info", path)
    assert "\x1b[" in shown
    assert "3 frames, step -5 to 15 every 10" in shown
    shown = on_terminal("formats")
    assert "\x1b[" in shown
    assert "MolRec record" in shown


def test_progress_is_for_terminals(tmp_path: Path) -> None:
    path = regular(tmp_path / "r.mrec")
    shown = on_terminal("convert", path, tmp_path / "a.mrec")
    assert "a.mrec: 3 frames, " in shown
    done = mrec("convert", path, tmp_path / "b.mrec")
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_output_survives_a_narrow_encoding(tmp_path: Path) -> None:
    path = snapshots(tmp_path / "r.mrec")
    done = subprocess.run(
        [*MREC, "tree", str(path)], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert done.returncode == 0
    assert b"bytes \\u2192 crc32c" in done.stdout


def test_sizes() -> None:
    assert [human_size(n) for n in (0, 999, 1000, 123456, 5e6, 2.5e9, 7e12)] == [
        *("0 B", "999 B", "1.0 kB", "123 kB", "5.0 MB", "2.5 GB", "7.0 TB"),
    ]
