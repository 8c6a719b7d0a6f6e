"""Pairs of tasks measured in turn, each in a process of its own: what the scripts for one format share.

A script calls itself again with `--one TASK DATA SCRATCH` and answers with a line of JSON: `seconds`, `processor` and
`peak_mb`. The medians and the ratios peer / ours are printed as a Markdown table.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def answer(seconds, processor):
    """Print what one task took."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "processor": processor, "peak_mb": peak}))


def main(script, text, pairs, one, prepare=lambda data: None):
    """Be `script`: run one task, or measure `pairs` (name → our task, the peer's, goal) after `prepare(data)`."""
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("peer_python")
    parser.add_argument("pairs", nargs="*", help="parts of the names of the pairs to measure; all when none")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    prepare(arguments.data)
    print("| pair | ours, s | peer, s | peer / ours | processor, peer / ours | goal | our peak, MB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name, (ours, theirs, goal) in pairs.items():
            if arguments.pairs and not any(part in name for part in arguments.pairs):
                continue
            sides = ((sys.executable, ours), (arguments.peer_python, theirs))
            turns = [
                [run(python, script, task, arguments.data, scratch) for python, task in sides]
                for _ in range(arguments.runs)
            ]
            middle = [statistics.median(turn[side]["seconds"] for turn in turns) for side in (0, 1)]
            ratios = [
                statistics.median(peer[what] / mine[what] for mine, peer in turns) for what in ("seconds", "processor")
            ]
            peak = max(mine["peak_mb"] for mine, _ in turns)
            numbers = [*(f"{value:.3f}" for value in middle), *(f"{value:.2f}" for value in ratios)]
            print(f"| {name} | {' | '.join(numbers)} | {goal} | {peak:.0f} |", flush=True)


def run(python, script, task, data, scratch):
    done = subprocess.run([python, script, "--one", task, data, scratch], capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise SystemExit(f"{task} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])
