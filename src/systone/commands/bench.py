"""`systone bench`: measure latency and throughput of a server, or of a model served for the run.

TARGET is a URL (any server of POST /v1/systemone), a model as `systone serve` takes it (with the
flags of serve), or one of:
  audit PATH    recompute the figures of a run, or of evidence, from its records; check its hashes
  evidence DIR  write DIR.json, the summary of the runs in DIR
  plot DIR...   draw runs into --out
  peers DIR     the same requests through transformers, in this process
The last line of standard output is one line of JSON. Exit status 1: a request failed, an answer
was not the one --equal-to asks for, or an audit found a difference.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from systone.commands._bench_view import print_report, run_progress
from systone.commands._flags import add_setting_flags
from systone.config import EngineConfig, ModelSettings, ServerConfig
from systone.errors import ConfigError

if TYPE_CHECKING:
    from systone.bench.items import Workload
    from systone.bench.plan import Plan, Target
    from systone.bench.session import Options

_CONCURRENCY = "1,8,16,32,64"
_FIXED = ("host", "port", "log_level")  # serve's flags that a run sets itself


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "target", metavar="TARGET", help="URL, model, audit, evidence, plot or peers"
    )
    parser.add_argument(
        "folders", nargs="*", type=Path, metavar="DIR", help="of audit, evidence, plot, peers"
    )
    add = parser.add_argument_group("measurement").add_argument
    add(
        "--workload",
        default="231-shape",
        help="231-shape (default), jevbench-240, canary, synthetic-N (N tokens) or FILE.jsonl",
    )
    add("--concurrency", metavar="N,...", help="closed loop: requests in flight (1,8,16,32,64)")
    add("--rate", metavar="N,...", help="open loop: requests a second, Poisson arrivals")
    add("--rounds", type=int, default=3, help="times the workload is sent (default: 3)")
    add("--warmups", type=int, default=5, help="requests before each level (default: 5)")
    add("--requests", type=int, metavar="N", help="only the first N requests of the workload")
    add("--max-tokens", type=int, metavar="N", help="only requests with no longer candidate")
    add("--same-levels", action="store_true", help="the same texts at every level, round by round")
    add("--same-texts", action="store_true", help="the same texts every round: answers compare")
    add("--equal-to", type=Path, metavar="DIR", help="answers must equal those of that run")
    add("--against", metavar="URL", help="a second server, in balanced order, with intervals")
    add("--part", type=int, default=33, metavar="N", help="requests a block with --against")
    add("--seed", type=int, default=0, help="of texts, arrivals, order and intervals")
    add("--tokenizer", type=Path, metavar="DIR", help="the served model's (default: built)")
    add("--ask-model", metavar="NAME", help="the model field of requests (default: absent)")
    add("--timeout-s", type=float, default=120.0, help="for one reply (default: 120)")
    add("--commit", help="what is measured (default: the source tree's commit)")
    add("--no-plots", action="store_true", help="records and tables only")
    add("--out", type=Path, metavar="DIR", help="new folder for records, figures and plots")
    add(
        "--random-weights",
        action="store_true",
        help="peers: no weight files; DIR may be a package's name",
    )
    add_setting_flags(parser, ServerConfig, ModelSettings, EngineConfig)


def run(args: argparse.Namespace) -> int:
    if args.target in _OTHERS:
        return _OTHERS[args.target](args)
    if args.folders:
        raise ConfigError(f"{args.folders[0]}: systone bench takes one target")
    from systone.bench.session import is_url, run_http

    flags = _serve_flags(args)
    given = [flag.partition("=")[0] for flag in flags if not flag.startswith("--api-key=")]
    if is_url(args.target) and given:
        raise ConfigError(f"{given[0]} is for a model that is served for the run, not for a URL")
    targets: dict[Target, str] = {"a": args.target}
    if args.against is not None:
        if not is_url(args.against):
            raise ConfigError("--against takes the URL of a running server")
        targets["b"] = args.against
    workload, plan = _prepared(args, args.target, tuple(targets))
    options = _options(args, flags)
    with run_progress(plan.num_requests) as show:
        report = run_http(targets, plan, workload, options, show)
    return print_report(report, options.out)


def _peers(args: argparse.Namespace) -> int:
    (directory,) = _folders(args, "one directory with base/ and package/", 1)
    if _serve_flags(args) or args.against or args.rate:
        raise ConfigError("peers: one request at a time, without flags of serve, --against, --rate")
    args.concurrency = args.concurrency or "1"
    if args.concurrency != "1":
        raise ConfigError("peers: transformers answers one request at a time (--concurrency 1)")
    from systone.bench.session import run_targets

    workload, plan = _prepared(args, str(directory), ("a",))
    options = _options(args, ())
    from systone.bench.peer_transformers import TransformersPeer

    with run_progress(plan.num_requests) as show:
        show("loading", 0)
        peer = TransformersPeer.load(directory, random_weights=args.random_weights)
        report = run_targets(f"transformers {directory.name}", peer, plan, workload, options, show)
    return print_report(report, options.out)


def _audit(args: argparse.Namespace) -> int:
    (folder,) = _folders(args, "one folder", 1)
    from systone.bench.audit import audit

    found = audit(folder)
    for line in found.differences:
        sys.stdout.write(f"differs: {line}\n")
    result = {
        "audit": "red" if found.differences else "green",
        "folder": str(folder),
        "requests": found.requests,
        "figures": found.figures,
        "differences": len(found.differences),
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return 1 if found.differences else 0


def _evidence(args: argparse.Namespace) -> int:
    (folder,) = _folders(args, "one folder of runs", 1)
    from systone.bench.evidence import write
    from systone.bench.evidence_table import markdown

    summary = write(folder)
    sys.stdout.write(markdown(json.loads(summary.read_bytes())))
    sys.stdout.write(json.dumps({"written": str(summary)}) + "\n")
    return 0


def _plot(args: argparse.Namespace) -> int:
    folders = _folders(args, "one folder or more", None)
    from systone.bench.folder import new_folder
    from systone.bench.plots import available, draw, read_series

    if not available():
        raise ConfigError("plots are drawn with matplotlib: pip install systone[bench]")
    series, title = read_series(folders)
    out = new_folder(_out(args))
    sys.stdout.write(json.dumps([str(out / name) for name in draw(out, series, title)]) + "\n")
    return 0


_OTHERS = {"audit": _audit, "evidence": _evidence, "plot": _plot, "peers": _peers}


def _folders(args: argparse.Namespace, what: str, count: int | None) -> list[Path]:
    folders: list[Path] = args.folders
    if not folders or (count is not None and len(folders) != count):
        raise ConfigError(f"systone bench {args.target} takes {what}")
    return folders


def _prepared(
    args: argparse.Namespace, target: str, targets: tuple[Target, ...]
) -> tuple[Workload, Plan]:
    """The workload and the plan of a command line. Raises ConfigError before anything starts."""
    from systone.bench.plan import Level, Plan
    from systone.bench.workloads import load_workload

    for name, least in (("rounds", 1), ("warmups", 0), ("part", 1), ("requests", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise ConfigError(f"--{name}: must be at least {least}")
    closed = args.concurrency or ("" if args.rate else _CONCURRENCY)
    keys = [f"c{n}" for n in _listed(closed)] + [f"r{n}" for n in _listed(args.rate or "")]
    levels = tuple(Level.parse(key) for key in dict.fromkeys(keys))
    _out(args)
    workload = load_workload(
        args.workload, tokenizer=args.tokenizer, target=target, seed=args.seed
    ).limited(args.requests, args.max_tokens)
    plan = Plan(
        items=len(workload.items),
        levels=levels,
        rounds=args.rounds,
        warmups=args.warmups,
        targets=targets,
        part_size=args.part,
        same_texts=args.same_texts or not workload.varies,
        seed=args.seed,
        same_levels=args.same_levels,
    )
    return workload, plan


def _options(args: argparse.Namespace, flags: tuple[str, ...]) -> Options:
    from systone.bench.session import Options

    return Options(
        out=_out(args),
        flags=tuple(flag for flag in flags if not flag.startswith("--api-key=")),
        model=args.ask_model,
        api_key=args.setting_api_key[0] if args.setting_api_key else None,
        timeout_s=args.timeout_s,
        commit=args.commit,
        equal_to=args.equal_to,
        draw=not args.no_plots,
    )


def _serve_flags(args: argparse.Namespace) -> tuple[str, ...]:
    """The flags of serve that were given, as it takes them. Raises ConfigError."""
    given = []
    for name, value in vars(args).items():
        if name.startswith("setting_") and value is not None:
            flag = name.removeprefix("setting_")
            if flag in _FIXED:
                raise ConfigError(f"--{flag.replace('_', '-')}: a run sets this itself")
            text = ",".join(value) if isinstance(value, list) else value
            given.append(f"--{flag.replace('_', '-')}={text}")
    return tuple(given)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _out(args: argparse.Namespace) -> Path:
    if args.out is None:
        raise ConfigError("--out DIR: where the records and figures go")
    out: Path = args.out
    return out
