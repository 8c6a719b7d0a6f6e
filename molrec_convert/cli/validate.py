"""`mrec validate`."""

from __future__ import annotations

from pathlib import Path

import click

from molrec_convert.cli.common import PATH, examples, stored
from molrec_convert.cli.outcome import DONE, FAULT
from molrec_convert.cli.output import print_json, print_lines, tell

__all__ = ["validate_command"]


@click.command(
    "validate",
    epilog=examples("mrec validate run.mrec", "mrec validate run.mrec.zip --json", "mrec validate all.mrec.lmdb"),
)
@click.argument("path", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def validate_command(path: Path, as_json: bool) -> int:
    """Check the stored record, or the collection, PATH against every rule of the contract, and list all findings.

    An error is what readers refuse: exit code 1. A warning is what they cope with: exit code 0.
    """
    from molrec_convert.inspect.validation import Severity, validate

    findings = validate(stored(path))
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    if as_json:
        print_json(
            {
                "path": str(path),
                "errors": errors,
                "warnings": warnings,
                "findings": [{"severity": f.severity.value, "node": f.node, "message": f.message} for f in findings],
            }
        )
    else:
        print_lines(map(str, findings))
    verdict = "valid" if not errors else "not valid"
    tell(f"{path}: {verdict}, {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    return FAULT if errors else DONE


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
