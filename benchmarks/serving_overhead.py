"""What our process costs beside vLLM's own server: the same engine and load behind each, in turns.

    .venv/bin/python benchmarks/serving_overhead.py [--rounds 40]

Both servers run at once with the demo model; only one is asked at a time, first one then the other, in short
rounds, so that whatever else the machine does hits both. Medians over the rounds go to results/serving.jsonl,
a row for each server. Where rounds scatter by more than the cost that is looked for, the API process's CPU
time tells more: all that differs between the two is done there.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import httpx
import psutil
from load import Load, Measured, run_load
from rows import append_row

from lorikeet.serve.demo.arguments import demo_arguments
from lorikeet.serve.demo.smollm2 import DEMO_NAME
from lorikeet.serve.engine_defaults import ENVIRONMENT
from lorikeet.serve.settings import Settings

PORTS = {"lorikeet": 8471, "vllm": 8472}
LOAD = Load(
    ("pirate", "json", DEMO_NAME), concurrency=8, num_requests=8, prompt="word " * 32, output_tokens=16
)
READY_S = 600


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    servers = start_servers()
    measured: dict[str, list[Measured]] = {name: [] for name in PORTS}
    cpu_s = dict.fromkeys(PORTS, 0.0)
    try:
        for name, server in servers.items():
            wait_until_ready(name, server)
        for number in range(rounds + 1):  # the first warms up
            for name in sorted(PORTS, reverse=bool(number % 2)):
                cpu_before_s = cpu_seconds(servers[name])
                result = run_load(f"http://127.0.0.1:{PORTS[name]}", LOAD)
                if number:
                    measured[name].append(result)
                    cpu_s[name] += cpu_seconds(servers[name]) - cpu_before_s
                print(f"{'warm-up' if not number else f'round {number}'} {name}: {result}", flush=True)
    finally:
        for server in servers.values():
            server.terminate()
            server.wait(60)
    num_tokens = rounds * LOAD.num_requests * LOAD.output_tokens
    for name, results in measured.items():
        write_row(name, results, api_cpu_ms_per_token=1000 * cpu_s[name] / num_tokens)
    pairs = zip(measured["lorikeet"], measured["vllm"], strict=True)
    ratio = median(ours.tokens_per_s / theirs.tokens_per_s for ours, theirs in pairs)
    print(f"throughput of lorikeet over vllm, median of {rounds} pairs: {ratio:.4f}")


def start_servers() -> dict[str, subprocess.Popen[bytes]]:
    model, *arguments = demo_arguments(Settings().cache_dir)
    arguments += ["--enable-lora", "--max-loras", "8", "--enable-request-id-headers"]
    arguments += ["--disable-uvicorn-access-log"]
    commands = {
        "lorikeet": [str(Path(sys.executable).with_name("lorikeet")), "serve", model],
        "vllm": [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", "--model", model],
    }
    env = dict(os.environ) | ENVIRONMENT | {"PYTHONSAFEPATH": "1", "HF_HUB_OFFLINE": "1"}
    return {
        name: subprocess.Popen([*commands[name], *arguments, "--port", str(port)], env=env)
        for name, port in PORTS.items()
    }


def wait_until_ready(name: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end and server.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{PORTS[name]}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass  # vLLM's own server does not listen before it is ready
        time.sleep(1)
    sys.exit(f"{name} ended or was not ready after {READY_S} s")


def cpu_seconds(server: subprocess.Popen[bytes]) -> float:
    """CPU time of the server's first process, which is the API process."""
    times = psutil.Process(server.pid).cpu_times()
    return times.user + times.system


def write_row(name: str, results: list[Measured], api_cpu_ms_per_token: float) -> None:
    append_row(
        "serving.jsonl",
        shape=DEMO_NAME,
        rank="4 and 8",
        implementation=name,
        adapters=2,
        concurrency=LOAD.concurrency,
        prompt_tokens=results[0].prompt_tokens,
        output_tokens=LOAD.output_tokens,
        ttft_ms=round(median(result.ttft_ms for result in results), 2),
        tpot_ms=round(median(result.tpot_ms for result in results), 3),
        tokens_per_s=round(median(result.tokens_per_s for result in results), 2),
        api_cpu_ms_per_token=round(api_cpu_ms_per_token, 3),
        repeats=len(results),
    )


if __name__ == "__main__":
    main()
