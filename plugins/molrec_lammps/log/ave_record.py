"""Files of averages as sections of a record: curves for averages of single values, observables for columns.

| mode | record |
|---|---|
| scalar | metrics `ave_time/<fix>/<column>`, by step |
| vector | observables `<fix>.<column>`, f64[outputs, rows], and `<fix>.step`, i64[outputs] |
| vector, rows that change | `<fix>.<column>`, f64[all rows], and `<fix>.rows`, i64[outputs], how many each output has |
| chunk, histo, correlate | as vector; what an output has as a whole (`Total-count`) as `<fix>.<name>`, f64[outputs] |

`<fix>` is the ID of the fix; where neither the file nor a script tells it, the name of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.formats import ReadContext
from molrec_convert.model import Metrics, Observable, Observables, Record, Series
from molrec_convert.model.names import escape_name, name_fault
from molrec_convert.report import Report
from molrec_lammps.log.ave_commands import AveCommand
from molrec_lammps.log.ave_time import AveTime, join_outputs, read_ave_time_file
from molrec_lammps.log.metrics import curve, report_unstated

__all__ = ["Averages", "averages_of", "read_ave_time"]

_UNKNOWN = {"state": "unknown", "message": "files of averages do not say how the run ended"}


@dataclass(frozen=True)
class Averages:
    """The curves and the observables of some files."""

    curves: dict[str, Series]
    observables: dict[str, Observable]


def read_ave_time(paths: Sequence[Path], context: ReadContext) -> Record:
    """Read files of averages by themselves: a record of metrics and observables."""
    found = averages_of([Path(path) for path in paths], {}, context.report)
    metrics = Metrics.from_series(found.curves) if found.curves else None
    report_unstated(metrics, context.report)
    return Record(
        metrics=metrics,
        observables=Observables(found.observables) if found.observables else None,
        status=dict(_UNKNOWN),
    )


def averages_of(paths: Sequence[Path], commands: Mapping[Path, AveCommand], report: Report) -> Averages:
    """What files hold; `commands` are those that wrote them, where a script tells."""
    fixes: dict[str, list[AveTime]] = {}
    named: dict[str, AveCommand] = {}
    for path in paths:
        command = commands.get(path)
        output = read_ave_time_file(path, None if command is None else command.vector)
        if output.truncated is not None:
            report.truncated(output.truncated)
        if not len(output.steps):
            report.warn(f"{path}: holds no output")
            continue
        fix = output.fix or (path.name if command is None else command.id)
        fixes.setdefault(fix, []).append(output)
        if command is not None:
            named[fix] = command
    curves: dict[str, Series] = {}
    observables: dict[str, Observable] = {}
    for fix, parts in fixes.items():
        output = join_outputs(parts)
        latest = output.latest()
        gone = len(output.steps) - len(latest.steps)
        if gone:
            report.dropped(f"{gone} outputs of fix {fix}", "the same steps come again later: the later output counts")
        names = _names(latest, named.get(fix))
        title = f"fix {_style(latest, named.get(fix))} {fix}"
        if latest.vector:
            observables |= _observables(fix, title, names, latest)
            report.carried(title, f"{len(latest.steps)} outputs of {' '.join(names)}, in observables as {_node(fix)}.*")
        else:
            for number, name in enumerate(names):
                curves[f"ave_time/{fix}/{name}"] = curve(latest.steps, latest.values[:, number])
            report.carried(title, f"{len(latest.steps)} outputs of {' '.join(names)}, in metrics as ave_time/{fix}/*")
    return Averages(curves, observables)


def _names(output: AveTime, command: AveCommand | None) -> list[str]:
    """The columns: as the titles name them, else as the command does, else by number; no name twice."""
    count = output.values.shape[1]
    names = list(output.names)
    if len(names) != count and command is not None and len(command.values) == count:
        names = list(command.values)
    if len(names) != count:
        names = [f"column_{number}" for number in range(1, count + 1)]
    return [name if name not in names[:place] else f"{name}_{place + 1}" for place, name in enumerate(names)]


def _style(output: AveTime, command: AveCommand | None) -> str:
    """The style of the fix, as far as the command or the titles tell."""
    return command.style if command is not None else output.style


def _observables(fix: str, title: str, names: Sequence[str], output: AveTime) -> dict[str, Observable]:
    base = _node(fix)
    even = len(set(output.rows.tolist())) == 1
    what = f"by {title}"
    others: dict[str, Any] = {"sampling": f"at the steps in {base}.step", "steps": f"{base}.step"}
    found = {
        f"{base}.step": Observable.of(output.steps, "vector", f"steps of the outputs {what}", axes=["output"]),
    }
    if not even:
        others["rows"] = f"{base}.rows"
        found[f"{base}.rows"] = Observable.of(output.rows, "vector", f"rows of each output {what}", axes=["output"])
    for name, values in output.whole.items():
        found[f"{base}.{_node(name)}"] = Observable.of(
            values, "vector", f"{name} of each output {what}", axes=["output"]
        )
    for number, name in enumerate(names):
        values = output.values[:, number]
        key = f"{base}.{_node(name)}"
        if key in found:
            key = f"{key}_{number + 1}"
        found[key] = Observable.of(
            np.ascontiguousarray(values.reshape(len(output.steps), -1) if even else values),
            "vector",
            f"{name} {what}",
            axes=["output", "row"] if even else ["row"],
            **others,
        )
    return found


def _node(name: str) -> str:
    return escape_name(name) if "%" in name or name_fault(name) is not None else name
