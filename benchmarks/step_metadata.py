"""Time what vLLM's LoRA wrapper does before each step, stock and ours; append rows to results/metadata.jsonl.

    python benchmarks/step_metadata.py [--device cuda|cpu] [--commit ID] [--out FOLDER]

Both wrappers are called as the model runner calls them, with a new mapping each time, in turns. The time is
the caller's: the step's first kernel can't be launched before it has ended. It needs vLLM.
"""

import argparse
import json
import random
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import torch
from rows import RESULTS, append_line
from vllm.lora.layers import LoRAMapping
from vllm.lora.ops.triton_ops.lora_kernel_metadata import LoRAKernelMeta
from vllm.lora.punica_wrapper import punica_gpu

from lorikeet.kernels.punica_wrapper import LorikeetPunicaWrapper

NUM_ADAPTERS = 8
MAX_TOKENS = 8192
MAX_REQUESTS = 256
VOCABULARY = 128_256
CASES = {"decode": (32, 1), "mixed": (2048, 64), "prefill": (8192, 512)}  # tokens, tokens a request
REPEATS = 50


def main() -> None:
    args = parse_arguments()
    punica_gpu.LoRAKernelMeta = LoRAKernelMeta  # vLLM imports it on GPUs only
    config = SimpleNamespace(max_loras=NUM_ADAPTERS, specialize_active_lora=False)
    wrappers = {
        name: kind(MAX_TOKENS, MAX_REQUESTS, args.device, lora_config=config)
        for name, kind in (("vllm", punica_gpu.PunicaWrapperGPU), ("lorikeet", LorikeetPunicaWrapper))
    }
    for case, (num_tokens, tokens_per_request) in CASES.items():
        took_us: dict[str, list[float]] = {name: [] for name in wrappers}
        for repeat in range(-5, REPEATS):
            mapping = make_mapping(num_tokens, tokens_per_request, seed=repeat)
            for name, wrapper in wrappers.items():
                us = time_update(wrapper, mapping, args.device)
                if repeat >= 0:
                    took_us[name].append(us)
        for name, values in took_us.items():
            row = {"case": case, "num_tokens": num_tokens, "implementation": name}
            row |= {"us": round(median(values), 1), "device": args.device}
            write_row(args, row)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--commit", help="what was measured, where git can't tell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def make_mapping(num_tokens: int, tokens_per_request: int, seed: int) -> LoRAMapping:
    """Requests of random adapters, some of the base model."""
    draw = random.Random(seed)
    requests = [draw.randint(0, NUM_ADAPTERS) for _ in range(num_tokens // tokens_per_request)]
    tokens = [adapter for adapter in requests for _ in range(tokens_per_request)]
    return LoRAMapping(tuple(tokens), tuple(requests), is_prefill=True)


def time_update(wrapper: punica_gpu.PunicaWrapperGPU, mapping: LoRAMapping, device: str) -> float:
    """Microseconds until the caller can go on; what it put on the device has ended before it starts."""
    if device != "cpu":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    wrapper.update_metadata(mapping, list(range(1, NUM_ADAPTERS + 1)), NUM_ADAPTERS, VOCABULARY)
    return 1e6 * (time.perf_counter() - begin)


def write_row(args: argparse.Namespace, row: dict[str, object]) -> None:
    print(json.dumps(row), flush=True)
    append_line(args.out / "metadata.jsonl", row | {"repeats": REPEATS}, args.commit)


if __name__ == "__main__":
    main()
