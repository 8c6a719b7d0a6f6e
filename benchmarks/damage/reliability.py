"""Interrupt all kinds of work, and count what is lost: nothing may be.

    python reliability.py all                     # everything below, one after the other
    python reliability.py kills                   # processes killed before an operation, or in the middle of a write
    python reliability.py failing                 # full disks, quotas, failing calls, short writes
    python reliability.py power                   # states of a disk whose power went, of two models
    python reliability.py mutants                 # 100,000 damaged inputs: mutants.py
    python reliability.py power --only convert --points 500

Each state has to open, or be absent; hold what was promised, and of the rest what is whole and right; the old target or
the new one; and be as if nothing had happened when the work is done again. Needs a C compiler.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "plugins"), str(ROOT / "tests")]

from crashes.harness import Harness  # noqa: E402
from crashes.workloads import WORKLOADS  # noqa: E402

#: What is tried of each workload: how it is asked for, and at how many points.
KINDS: dict[str, tuple[int, list[dict[str, Any]]]] = {
    "kills": (40, [{}]),
    "failing": (4, [{}]),
    "power": (100, [{"guard": True}, {"guard": False}]),
}
UNITS = {"kills": "kills", "failing": "failing calls and short writes", "power": "crash states"}

Results = dict[str, dict[str, dict[str, Any]]]


def experiments(kind: str, name: str, points: int | None) -> Iterator[dict[str, Any]]:
    """What is asked of a workload."""
    usual, ways = KINDS[kind]
    for way in ways:
        yield way | {"states" if kind == "power" else "most": points or usual}


def tried(harness: Harness, name: str, arguments: argparse.Namespace, kinds: list[str]) -> dict[str, dict[str, Any]]:
    """Try a workload: counts by kind."""
    found: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        total: dict[str, Any] = {"tried": 0, "distinct": 0, "wrong": 0, "faults": {}}
        for how in experiments(kind, name, arguments.points):
            counts = harness.run(kind, name, seed=arguments.seed, **how)
            for key, value in counts.items():
                total[key] = total[key] | value if key == "faults" else total[key] + value
        found[kind] = total
    told = "  ".join(f"{kind} {c['tried']:4}, {c['wrong']} wrong" for kind, c in found.items())
    print(f"{name:24} {told}", flush=True)
    for kind, counts in found.items():
        for fault, times in counts["faults"].items():
            print(f"    {kind}, {times} times: {fault}", flush=True)
    return found


def interrupt(arguments: argparse.Namespace, kinds: list[str]) -> Results:
    """Try all workloads, some of them side by side."""
    names = [name for name in WORKLOADS if arguments.only is None or arguments.only in name]
    parts = [names[i :: arguments.jobs] for i in range(arguments.jobs)]

    def work(part: list[str]) -> Results:
        with Harness() as harness:
            return {name: tried(harness, name, arguments, kinds) for name in part}

    with ThreadPoolExecutor(arguments.jobs) as pool:
        return {name: found for results in pool.map(work, filter(None, parts)) for name, found in results.items()}


def summary(results: Results) -> list[str]:
    """Return the totals in words."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for found in results.values():
        for kind, counts in found.items():
            for place, key in enumerate(("tried", "distinct", "wrong")):
                totals[kind][place] += counts[key]
    return [
        f"{n:,} {UNITS[kind]} over {len(results)} workloads ({different:,} different), {wrong or 'none'} wrong"
        for kind, (n, different, wrong) in totals.items()
    ]


def main() -> None:
    """Parse arguments, try, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*KINDS, "mutants", "all"], help="what to try")
    parser.add_argument("--points", type=int, metavar="N", help="of each workload (40 kills, 4 a way, 100 states)")
    parser.add_argument("--mutants", type=int, default=100_000, metavar="N", help="damaged inputs to try (100,000)")
    parser.add_argument("--only", metavar="NAME", help="workloads whose name has this in it")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other points (1)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the counts of each workload as JSON")
    arguments = parser.parse_args()
    begun, failed = time.monotonic(), False
    if arguments.what != "mutants":
        results = interrupt(arguments, list(KINDS) if arguments.what == "all" else [arguments.what])
        print(*summary(results), f"{time.monotonic() - begun:.0f} s", sep="\n", flush=True)
        failed = any(counts["wrong"] for found in results.values() for counts in found.values())
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(results, indent=1))
    if arguments.what in ("mutants", "all"):
        script = Path(__file__).with_name("mutants.py")
        options = [f"--count={arguments.mutants}", f"--seed={arguments.seed}", f"--jobs={arguments.jobs}"]
        failed |= bool(subprocess.run([sys.executable, script, *options]).returncode)
    sys.exit(failed)


if __name__ == "__main__":
    main()
