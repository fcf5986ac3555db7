"""Time stock vLLM and vLLM with our LoRA kernels end to end; append rows to results/serving.jsonl.

    python benchmarks/lora_serving.py --out FOLDER [--shape llama-8b] [--rank 16] [--adapters 8] [--commit ID]
        [--servers lorikeet vllm lorikeet_default vllm_tuned] [--tuned FOLDER]

All servers run at once, on a model of that shape with dummy weights, and only one is asked at a time, cell
by cell in turns: whatever else the machine does hits all. `lorikeet` has measured block sizes where there
are some, `lorikeet_default` never; `vllm_tuned` is stock with the block sizes that `lorikeet tune --stock`
found. It needs vLLM and GPU memory for the servers.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dummy_model import SHAPES, write_adapter, write_model
from light_client import run_load
from load import Load, Measured
from lora_servers import (
    IMPLEMENTATIONS,
    WITH_BLOCK_SIZES,
    LoraServer,
    server_arguments,
    tuned_environment,
)
from rows import RESULTS, append_line

PORT = 8481
READY_S = 330
OUTPUT_TOKENS = 128
LONG_PROMPT_OUTPUT_TOKENS = 4
BASE = "base"
ARRIVALS = ("together", "spread")  # spread: one after the other, as users come
REQUESTS_PER_CLIENT = {1: 8, 8: 6, 32: 6, 128: 3}


@dataclass(frozen=True)
class Cell:
    adapters: int  # 0: the base model, with LoRA enabled
    concurrency: int
    prompt_tokens: int
    output_tokens: int = OUTPUT_TOKENS
    arrival: str = "together"


def cells(counts_of_adapters: list[int], concurrencies: list[int], arrivals: list[str]) -> Iterator[Cell]:
    for num_adapters in sorted(counts_of_adapters):
        for arrival in arrivals:
            for concurrency in concurrencies:
                if concurrency > 1 or arrival == "together":
                    yield Cell(num_adapters, concurrency, 512, arrival=arrival)
        yield Cell(num_adapters, 1, 3000, LONG_PROMPT_OUTPUT_TOKENS)


def main() -> None:
    args = parse_arguments(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="lora-serving-"))
    servers = start_servers(args, folder)
    try:
        write_adapters(args, folder)
        for server in servers:
            server.wait_until_ready(READY_S)
            print(f"{server.implementation} ready after {server.ready_s:.1f} s", flush=True)
        measure(args, servers)
    finally:
        for server in servers:
            report_log(args, server)
            server.stop()


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="llama-8b")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--concurrency", type=int, nargs="+", default=list(REQUESTS_PER_CLIENT))
    parser.add_argument("--kv-gb", type=int, default=14, help="one server's KV cache")
    parser.add_argument(
        "--memory-share", type=float, default=0.4, help="free GPU memory each server asks for"
    )
    parser.add_argument("--asked", type=int, nargs="+", help="how many adapters are asked (0 1 ADAPTERS)")
    parser.add_argument("--servers", nargs="+", choices=WITH_BLOCK_SIZES, default=IMPLEMENTATIONS)
    parser.add_argument("--tuned", type=Path, help="measured block sizes; default: what the package brings")
    parser.add_argument(
        "--arrivals", nargs="+", choices=ARRIVALS, default=ARRIVALS[:1], help="how clients start"
    )
    parser.add_argument(
        "--more", nargs=argparse.REMAINDER, default=[], help="arguments for both servers, the last of all"
    )
    parser.add_argument("--port", type=int, default=PORT, help="of the first server")
    parser.add_argument("--kernels", default="on", help="LORIKEET_KERNELS of our server")
    parser.add_argument("--limit-s", type=float, default=250, help="no new cell is begun after so long")
    parser.add_argument("--commit", help="what was measured, where git can't tell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args(argv)


def adapter_names(args: argparse.Namespace) -> list[str]:
    return [f"adapter-{number}" for number in range(args.adapters)]


def start_servers(args: argparse.Namespace, folder: Path) -> list[LoraServer]:
    write_model(SHAPES[args.shape], folder / "model")
    adapters = {name: folder / name for name in adapter_names(args)}
    arguments = server_arguments(
        folder / "model", adapters, args.rank, args.adapters, args.kv_gb * 10**9, args.memory_share
    )
    arguments += ["--load-format", "dummy", *args.more]
    servers = [
        LoraServer(
            name,
            folder / "servers" / name,
            args.port + number,
            arguments,
            tuned_environment(name, args.tuned, folder / "tuned"),
            kernels=args.kernels,
        )
        for number, name in enumerate(args.servers)
    ]
    for server in servers:
        server.start()
    return servers


def write_adapters(args: argparse.Namespace, folder: Path) -> None:
    """While the servers start: they read adapters last."""
    shape = SHAPES[args.shape]
    for number, name in enumerate(adapter_names(args)):
        write_adapter(shape, args.rank, folder / name, seed=number)


def measure(args: argparse.Namespace, servers: list[LoraServer]) -> None:
    for server in servers:  # every adapter into its slot
        models = (BASE, *adapter_names(args))
        run_load(server.url, Load(models, 8, 2 * len(models), words(512), 16))
    end = time.monotonic() + args.limit_s
    counts = args.asked or [*{0, 1, args.adapters}]
    for number, cell in enumerate(cells(counts, args.concurrency, args.arrivals)):
        for server in servers if number % 2 else servers[::-1]:
            if time.monotonic() > end:
                print(f"out of time before {cell} of {server.implementation}", flush=True)
                continue
            write_row(args, server, cell, run_load(server.url, load_of(args, cell), cell.arrival == "spread"))


def load_of(args: argparse.Namespace, cell: Cell) -> Load:
    models = tuple(adapter_names(args)[: cell.adapters]) or (BASE,)
    per_client = REQUESTS_PER_CLIENT.get(cell.concurrency, 2)
    if cell.output_tokens == LONG_PROMPT_OUTPUT_TOKENS:
        per_client = 10
    num_requests = per_client * cell.concurrency
    return Load(models, cell.concurrency, num_requests, words(cell.prompt_tokens), cell.output_tokens)


def words(num_tokens: int) -> str:
    return " ".join(f"t{3 + number}" for number in range(num_tokens))


def write_row(args: argparse.Namespace, server: LoraServer, cell: Cell, measured: Measured) -> None:
    short = cell.output_tokens == LONG_PROMPT_OUTPUT_TOKENS
    write_line(
        args,
        "serving.jsonl",
        adapters=cell.adapters,
        concurrency=cell.concurrency,
        arrival=cell.arrival,
        prompt_tokens=measured.prompt_tokens,
        output_tokens=cell.output_tokens,
        implementation=server.implementation,
        ttft_ms=round(measured.ttft_ms, 2),
        tpot_ms=None if short else round(measured.tpot_ms, 3),
        itl_ms=None if short else round(measured.itl_ms, 3),
        tokens_per_s=None if short or cell.arrival == "spread" else round(measured.tokens_per_s, 1),
        num_requests=load_of(args, cell).num_requests,
    )


def write_line(args: argparse.Namespace, file: str, **row: Any) -> None:
    print(json.dumps(row), flush=True)
    append_line(args.out / file, {"shape": args.shape, "rank": args.rank} | row, args.commit)


def report_log(args: argparse.Namespace, server: LoraServer) -> None:
    """What the log says of compilation after start and of errors; log and journal go to the results."""
    for line in server.log_lines("during inference", "punica", "error", "lorikeet", "took")[-25:]:
        print(f"[{server.implementation}] {line[:220]}", flush=True)
    if args.out != RESULTS:
        shutil.copy(server.log, args.out / f"{args.shape}-{server.implementation}.log")
        with (args.out / f"{args.shape}-journal.jsonl").open("a") as journal:
            for path in sorted((server.folder / "journal").glob("*.jsonl")):
                journal.write(path.read_text())


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
