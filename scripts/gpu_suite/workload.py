"""Runs the workload on this machine over HTTP and keeps its evidence, part by part.

One server a model stays up for all its runs; a part that fails, or has no time left, is named in
set.json and doesn't stop the others. After every part $OUT holds all that is done so far:
gpu_workload.tar, for docs/evidence: the folder, and at the end its summary gpu_workload.json.

python3 -m scripts.gpu_suite.workload --commit HASH --seconds N [--smoke] [PART...]
"""

from __future__ import annotations

import argparse
import json
import time
import traceback

from scripts.gpu_suite.workload_parts import FULL, PARTS, SMOKE, TINY
from scripts.gpu_suite.workload_session import BEGAN, Session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--smoke", action="store_true", help="every part, little of each")
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU: a dry run")
    parser.add_argument("--without", default="", metavar="RUN,...", help="runs to leave out")
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    args = parser.parse_args()
    scale = TINY if args.tiny else SMOKE if args.smoke else FULL
    session = Session(args.commit, args.seconds, scale.device, args.without.split(","))
    for name in args.parts:
        try:
            PARTS[name](session, scale)
        except Exception as error:  # a server that doesn't start: the other parts still run
            traceback.print_exc(limit=-4)
            session.not_run(name, str(error)[:200])
    session.close()
    left_out = session.set["not_run"]
    print(json.dumps({"not_run": left_out, "seconds": round(time.monotonic() - BEGAN, 1)}))
    raise SystemExit(bool(left_out))


if __name__ == "__main__":
    main()
