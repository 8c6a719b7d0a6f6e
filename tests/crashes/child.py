"""The process in which work is interrupted: `python -m crashes.child FOLDER`, loaded with `shim.c`.

It reads requests, a line of JSON each, and answers each with a line: the counts, or what went wrong.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    folder = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed is for people
    # Loaded before processes are forked off, so that each of them does not do it again.
    import lmdb  # noqa: F401

    import molrec_convert.cli.collections
    import molrec_convert.cli.convert
    import molrec_convert.cli.migrate  # noqa: F401
    from crashes import experiments
    from crashes.workloads import commit_often
    from molrec_convert.plugins import formats

    commit_often()
    formats()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = experiments.run(folder=folder, **request)
        except Exception as error:
            answer = {"failed": "".join(traceback.format_exception(error))}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
