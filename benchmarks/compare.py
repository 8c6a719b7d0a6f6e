"""Measure this package against its peers, interleaved: `python compare.py DATA PEER_PYTHON [PAIR ...] [--runs N]`.

DATA is the folder `make_inputs.py` filled, PEER_PYTHON an interpreter that has `ovito` and `molcrafts-molrs`. Each
task runs in a process of its own, ours and the peer's in turn; the medians and the ratio peer / ours are printed as a
Markdown table. Only ratios within one run count: the machine's load moves both.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

# name: (our task, the peer's task, ratio to reach). Reads use the store the write before them left.
PAIRS = {
    "melt, all columns to a raw store / ovito's reader": ("convert-all:melt", "ovito-read:melt", 1.2),
    "melt at 1e-3 / molrs dump to .mrec": ("convert-1e-3:melt", "molrs-convert-1e-3:melt", 2.0),
    "small frames at 1e-3 / molrs dump to .mrec": ("convert-1e-3:small", "molrs-convert-1e-3:small", 3.0),
    "data file of 500,000 atoms / ovito's reader": ("read-data:big", "ovito-read-data:big", 1.2),
    "data file of 500,000 atoms / molrs": ("read-data:big", "molrs-read-data:big", 2.0),
    "data file of 500,000 atoms, writing / reading": ("write-data:big", "ours read-data:big", 1.0),
    "store: write raw, large frames": ("write-raw:melt", "write-raw:melt", 2.0),
    "store: random frame, large frames": ("random:melt", "random:melt", 1.0),
    "store: scan, large frames": ("scan:melt", "scan:melt", 1.0),
    "store: write at 1e-3, large frames": ("write-1e-3:melt", "write-1e-3:melt", 1.3),
    "store: random frame at 1e-3, large frames": ("random:melt", "random:melt", 1.0),
    "store: scan at 1e-3, large frames": ("scan:melt", "scan:melt", 1.0),
    "store: write raw, small frames": ("write-raw:small", "write-raw:small", 2.0),
    "store: random frame, small frames": ("random:small", "random:small", 2.0),
    "store: scan, small frames": ("scan:small", "scan:small", 5.0),
    "store: one column of a random frame / three columns, small frames": ("column:small", "random:small", 2.0),
    "store: write at 1e-3, small frames": ("write-1e-3:small", "write-1e-3:small", 1.3),
    "store: random frame at 1e-3, small frames": ("random:small", "random:small", 2.0),
    "store: scan at 1e-3, small frames": ("scan:small", "scan:small", 5.0),
}


def run(python, script, task, data, scratch):
    done = subprocess.run([python, HERE / script, task, data, scratch], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{script} {task} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("peer_python")
    parser.add_argument("pairs", nargs="*", help="parts of the names of the pairs to measure; all when none")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print("| pair | ours, s | peer, s | peer / ours | goal | our peak, MB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name, (ours, theirs, goal) in PAIRS.items():
            if arguments.pairs and not any(part in name for part in arguments.pairs):
                continue
            pairs = []
            for _ in range(arguments.runs):
                mine = run(sys.executable, "ours.py", ours, arguments.data, scratch)
                if theirs.startswith("ours "):  # against another task of ours
                    peer = run(sys.executable, "ours.py", theirs.removeprefix("ours "), arguments.data, scratch)
                else:
                    peer = run(arguments.peer_python, "peers.py", theirs, arguments.data, scratch)
                pairs.append((mine, peer))
            a = statistics.median(mine["seconds"] for mine, _ in pairs)
            b = statistics.median(peer["seconds"] for _, peer in pairs)
            ratio = statistics.median(peer["seconds"] / mine["seconds"] for mine, peer in pairs)
            peak = max(mine["peak_mb"] for mine, _ in pairs)
            print(f"| {name} | {a:.3f} | {b:.3f} | {ratio:.2f} | {goal} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
