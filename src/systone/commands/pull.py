"""`systone pull`: fetch a known model from a model hub, pinned, verified and resumable."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from systone.weights.progress import progress_bar

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    from systone.pull.hub import PUBLIC_HUB
    from systone.pull.table import MODELS

    parser.description = "Fetch a model's files; run it again to resume. Known: " + ", ".join(
        MODELS
    )
    parser.add_argument(
        "name", metavar="NAME[@rev]", help="a known model, or any repository as OWNER/REPO@rev"
    )
    parser.add_argument("--out", type=Path, help="directory (default: models/NAME)")
    parser.add_argument(
        "--from",
        dest="hub",
        default=PUBLIC_HUB,
        metavar="URL",
        help="base URL of the hub (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Raises ConfigError: one line naming the file or repository."""
    from systone.pull.hub import Hub
    from systone.pull.model import pull
    from systone.pull.table import find

    model = find(args.name)
    out = args.out or Path("models", model.name)
    with Hub(args.hub) as hub, progress_bar() as report:
        pulled = pull(model, out, hub, report)
    for repo, commit in pulled.commits.items():
        sys.stdout.write(f"{repo}@{commit}\n")
    sys.stdout.write(
        f"{model.name} ({model.licence}) in {out}: {pulled.num_files} files, "
        f"{pulled.num_bytes:,} bytes, verified\nserve it: systone serve --model {out}\n"
    )
    return 0
