"""Time starts of stock vLLM and of `lorikeet serve`, cold and warm; append rows to results/startup.jsonl.

    python benchmarks/startup.py --out FOLDER [--shape llama-8b] [--rank 16] [--adapters 8] [--commit ID]
    python benchmarks/startup.py --demo --out FOLDER      the demo model, on a CPU

One server after the other, since vLLM measures the whole GPU's free memory while it starts: stock cold, ours
cold, stock warm, ours warm. Cold is a start with empty caches, warm the next one with what that left; the
files of Python packages are in memory in all of them. After each start every model is asked five times, one
request after the other: the first must not be much slower than the fifth, or users wait for what a start left
out.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from pathlib import Path
from typing import Any

from dummy_model import SHAPES, write_adapter, write_model
from rows import RESULTS, append_line
from startup_servers import StartingServer

PORT = 8491
NUM_REQUESTS = 5
PROMPT_WORDS = {True: 1, False: 512}  # with the demo on a CPU, LoRA takes a quarter second a token
BASE = "base"
STARTS = ("vllm-cold", "lorikeet-cold", "vllm-warm", "lorikeet-warm")
DEMO = "smollm2-135m"


def main() -> None:
    args = parse_arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind
    folder = Path(tempfile.mkdtemp(prefix="startup-"))
    model, adapters = demo_model() if args.demo else dummy_model(args, folder)
    read_packages()
    totals: dict[tuple[str, str], float] = {}
    end = time.monotonic() + args.limit_s
    for implementation, start in (name.split("-") for name in args.starts):
        if time.monotonic() > end:
            print(f"out of time before {implementation} {start}", flush=True)
            continue
        server = StartingServer(
            implementation, folder / f"{implementation}-{start}", folder / f"caches-{implementation}",
            args.port, [str(model), *server_arguments(args, adapters)],
        )  # fmt: skip
        server.start()
        try:
            totals[implementation, start] = measure(args, server, start, [BASE, *adapters])
        finally:
            server.stop()
            keep_log(args, server, start)
    report(totals)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="llama-8b")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--demo", action="store_true", help="the demo model and its two adapters")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--arguments", default="", help="more arguments of both servers, in one text")
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS, help="which, in which order")
    parser.add_argument("--ready-s", type=float, default=280, help="a start may take so long")
    parser.add_argument("--limit-s", type=float, default=400, help="no new start is begun after so long")
    parser.add_argument("--commit", help="what was measured, where git can't tell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args(argv)


def dummy_model(args: argparse.Namespace, folder: Path) -> tuple[Path, dict[str, Path]]:
    write_model(SHAPES[args.shape], folder / "model")
    adapters = {f"adapter-{number}": folder / f"adapter-{number}" for number in range(args.adapters)}
    for number, path in enumerate(adapters.values()):
        write_adapter(SHAPES[args.shape], args.rank, path, seed=number)
    return folder / "model", adapters


def demo_model() -> tuple[Path, dict[str, Path]]:
    from lorikeet.serve.demo.adapter_paths import adapter_paths
    from lorikeet.serve.demo.smollm2 import prepare
    from lorikeet.serve.settings import Settings

    return prepare(Settings().cache_dir / DEMO), adapter_paths()


def server_arguments(args: argparse.Namespace, adapters: dict[str, Path]) -> list[str]:
    """What both servers get. No prefix cache, so that every request computes its prompt."""
    arguments = [
        *("--served-model-name", BASE, "--no-enable-prefix-caching", "--max-model-len", "2048"),
        *("--enable-lora", "--max-loras", "8", "--max-lora-rank", str(args.rank)),
        *("--lora-modules", *(f"{name}={path}" for name, path in adapters.items())),
    ]
    if args.demo:
        return [*arguments, "--kv-cache-memory-bytes", str(2**29), *args.arguments.split()]
    return [*arguments, "--load-format", "dummy", *args.arguments.split()]


def read_packages() -> None:
    """Import vLLM once, so that no start reads its files from the disk before the others."""
    modules = "vllm.v1.engine.async_llm, vllm.entrypoints.launchers.app, vllm.v1.worker.gpu_worker"
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", f"import {modules}"], check=True, capture_output=True)
    print(f"imported vLLM once in {time.monotonic() - begin:.1f} s", flush=True)


def measure(args: argparse.Namespace, server: StartingServer, start: str, models: list[str]) -> float:
    """Write the rows of one start; returns the seconds to ready."""
    total_s = server.wait_until_ready(args.ready_s)
    write_row(args, server, start, phase="total", seconds=round(total_s, 2))
    for phase, seconds in server.phases().items():
        write_row(args, server, start, phase=phase, seconds=round(seconds, 3))
    for model in models:
        prompts = [words(number, PROMPT_WORDS[args.demo]) for number in range(NUM_REQUESTS)]
        times_s = [time_to_first_token(server.url, model, prompt) for prompt in prompts]
        write_row(
            args, server, start, phase="first_request", model=model,
            seconds=round(times_s[0], 4), fifth_seconds=round(times_s[-1], 4),
        )  # fmt: skip
    if server.implementation == "lorikeet":
        autotune = server.status()["kernels"]["autotune"]
        write_row(args, server, start, phase="autotune_decision", seconds=None, decision=autotune)
    return total_s


def words(number: int, length: int) -> str:
    """A prompt that no other request has, of the dummy models' words."""
    return " ".join(f"t{3 + (number * 37 + word) % 2000}" for word in range(length))


def time_to_first_token(url: str, model: str, prompt: str) -> float:
    """Send one streamed completion and read it to the end."""
    body = {"model": model, "prompt": prompt, "max_tokens": 2, "temperature": 0, "stream": True}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    begin = time.perf_counter()
    first_s = None
    with urllib.request.urlopen(request, timeout=120) as answer:
        for line in answer:
            if first_s is None and line.startswith(b"data: {"):
                first_s = time.perf_counter() - begin
    if first_s is None:
        raise RuntimeError(f"{model} wrote nothing")
    return first_s


def write_row(args: argparse.Namespace, server: StartingServer, start: str, **row: Any) -> None:
    whole = {
        "shape": DEMO if args.demo else args.shape,
        "rank": args.rank,
        "implementation": server.implementation,
        "start": start,
        "one_after_the_other": True,
    } | row
    print(json.dumps(whole), flush=True)
    append_line(args.out / "startup.jsonl", whole, args.commit)


def keep_log(args: argparse.Namespace, server: StartingServer, start: str) -> None:
    for line in server.log_lines("autotune", "startup plan", "jit", "error", "aot")[-12:]:
        print(f"[{server.implementation} {start}] {line[:200]}", flush=True)
    if args.out != RESULTS:
        args.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(server.log, args.out / f"startup-{server.implementation}-{start}.log")


def report(totals: dict[tuple[str, str], float]) -> None:
    """The ratios that matter."""
    for (ours, theirs), name in {
        ("warm", "cold"): "our warm start / stock's cold one",
        ("warm", "warm"): "our warm start / stock's warm one",
        ("cold", "cold"): "our cold start / stock's cold one",
    }.items():
        if ("lorikeet", ours) in totals and ("vllm", theirs) in totals:
            print(f"{name}: {totals['lorikeet', ours] / totals['vllm', theirs]:.3f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
