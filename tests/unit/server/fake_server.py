"""A real server process over a fake model, for tests that need signals and sockets.

usage: python fake_server.py SECONDS_PER_BATCH [--flags of systone serve]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from systone.commands import serve as serve_command
from systone.commands._flags import settings_of
from systone.logs import set_up_logs
from systone.server.lifecycle import serve
from tests.fakes import FakeExecutor, fake_model


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    serve_command.configure(parser)
    args = parser.parse_args()
    settings = settings_of(args)
    set_up_logs(settings.server.log_level)
    executor = FakeExecutor((lambda batch: args.seconds) if args.seconds else None)
    return serve(settings, [fake_model(executor=executor)])


if __name__ == "__main__":
    sys.exit(main())
