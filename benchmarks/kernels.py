"""Time stock vLLM's LoRA operators and ours in one process; append rows to results/kernels.jsonl.

    python benchmarks/kernels.py --cells bars|grid|phi [--commit ID] [--workers N] [--out FILE]

Both run as vLLM calls them, shrink and expand of one linear layer together, in replays of a CUDA graph
whose launches use different weights, more than the L2 cache holds. Every cell is compared with the
reference before it is timed. It needs vLLM and an NVIDIA GPU.
"""

import argparse
import datetime
import json
import multiprocessing
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton

from lorikeet.kernels.synthetic import Problem, Step, Weights, make_step, make_weights
from lorikeet.kernels.timing import time_graph_us
from lorikeet.kernels.warm_up import warm_up

LLAMA_8B = {
    "qkv": (4096, (4096, 1024, 1024)),
    "o": (4096, (4096,)),
    "gate_up": (4096, (14336, 14336)),
    "down": (14336, (4096,)),
}
PHI_4_MULTIMODAL = {
    "phi4mm_qkv": (3072, (3072, 1024, 1024)),
    "phi4mm_o": (3072, (3072,)),
    "phi4mm_gate_up": (3072, (8192, 8192)),
    "phi4mm_down": (8192, (3072,)),
}
LAYERS = {**LLAMA_8B, **PHI_4_MULTIMODAL}
GRID_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 8192)
DTYPE = torch.bfloat16
DEVICE = "cuda"
L2_BYTES = 130e6  # weights that one graph touches at least, twice an H200's L2 cache
MAX_COPIES = 64
BYTES_PER_US = 4.3e6  # a large copy on the device, H200, 2026-10-28
MAX_ERROR = 0.02
REPEATS = 11


@dataclass(frozen=True)
class Cell:
    rank: int
    num_adapters: int
    num_tokens: int


CELLS = {
    "bars": [Cell(rank, 8, tokens) for rank in (16, 64) for tokens in (1, 8, 32, 256, 2048)],
    "phi": [Cell(320, 1, 1), Cell(320, 8, 8), Cell(320, 8, 32), Cell(320, 8, 256), Cell(320, 8, 2048)],
    "grid": [
        Cell(rank, adapters, tokens)
        for rank in (8, 16, 32, 64, 128, 256, 320)
        for adapters in (1, 2, 8, 32)
        for tokens in reversed(GRID_TOKENS)
    ],
}


def main() -> None:
    args = arguments()
    layers = PHI_4_MULTIMODAL if args.cells == "phi" else LLAMA_8B
    cells = CELLS[args.cells]
    versions = describe_host(args.commit)
    compile_ahead(layers, {cell.rank for cell in cells}, args.workers)
    sums: dict[Cell, dict[str, float]] = {cell: {} for cell in cells}
    with args.out.open("a", encoding="utf-8") as out:
        for layer in layers:
            base_us: dict[int, float] = {}
            for cell, weights in with_weights(layer, cells):
                base_us.setdefault(cell.num_tokens, time_base(layer, cell.num_tokens))
                for row in measure(layer, cell, weights, base_us[cell.num_tokens]):
                    out.write(json.dumps({**versions, **row}) + "\n")
                    out.flush()
                    implementation = row["implementation"]
                    sums[cell][implementation] = sums[cell].get(implementation, 0.0) + row["us"]
    print_sums(sums)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", choices=CELLS, default="bars")
    parser.add_argument("--commit", default="", help="commit under test, where git cannot say")
    parser.add_argument("--workers", type=int, default=4, help="processes that compile")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "kernels.jsonl")
    return parser.parse_args()


def describe_host(commit: str) -> dict[str, Any]:
    import vllm

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    driver = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()
    return {
        "date": datetime.date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "vllm": vllm.__version__,
        "commit": commit or run_git("rev-parse", "--short", "HEAD"),
        "repeats": REPEATS,
    }


def run_git(*args: str) -> str:
    return subprocess.run(["git", *args], check=True, capture_output=True, text=True).stdout.strip()


def compile_ahead(layers: dict[str, Any], ranks: set[int], num_workers: int) -> None:
    """Compile the variants of both in parallel; Triton's cache on disk hands them to this process."""
    tasks = [(layer, rank) for layer in layers for rank in sorted(ranks)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context) as pool:
        list(pool.map(compile_layer, tasks))


def compile_layer(task: tuple[str, int]) -> None:
    layer, rank = task
    for num_slots in (1, 2, 8, 32):
        k, widths = LAYERS[layer]
        weights = make_weights(k, widths, rank, num_slots, DTYPE, DEVICE)
        warm_up([weights], max(GRID_TOKENS), [True])
        for num_tokens in (1, 2, 16, 128):  # vLLM's kernels are specialised on the number itself
            cell = Cell(rank, num_slots, num_tokens)
            x = torch.zeros(num_tokens, k, dtype=DTYPE, device=DEVICE)
            y = torch.zeros(num_tokens, sum(widths), dtype=DTYPE, device=DEVICE)
            stock(make_step(draw_slots(cell), num_slots, DEVICE), cell)(y, x, *weights)


def with_weights(layer: str, cells: list[Cell]) -> Iterator[tuple[Cell, list[Weights]]]:
    """Each cell with as many copies of the layer's weights as keep the cache cold."""
    k, widths = LAYERS[layer]
    kept: tuple[int, int] | None = None
    pool: list[Weights] = []
    for cell in cells:
        slot_bytes = cell.rank * (k * len(widths) + sum(widths)) * DTYPE.itemsize
        touched = slot_bytes * min(cell.num_adapters, cell.num_tokens)
        copies = max(2, min(MAX_COPIES, int(L2_BYTES / touched) + 1))
        if kept != (cell.rank, cell.num_adapters):
            pool, kept = [], (cell.rank, cell.num_adapters)
        while len(pool) < copies:
            pool.append(make_weights(k, widths, cell.rank, cell.num_adapters, DTYPE, DEVICE))
        yield cell, pool[:copies]


def time_base(layer: str, num_tokens: int) -> float:
    """The layer's own product."""
    k, widths = LAYERS[layer]
    width = sum(widths)
    copies = max(2, int(L2_BYTES / (k * width * DTYPE.itemsize)) + 1)
    weights = [torch.randn(width, k, dtype=DTYPE, device=DEVICE) * k**-0.5 for _ in range(copies)]
    x = torch.randn(num_tokens, k, dtype=DTYPE, device=DEVICE)
    y = torch.empty(num_tokens, width, dtype=DTYPE, device=DEVICE)
    launches = [lambda w=w: torch.mm(x, w.T, out=y) for w in weights]
    return time_graph_us(launches, REPEATS)


def measure(layer: str, cell: Cell, weights: list[Weights], base_us: float) -> Iterator[dict[str, Any]]:
    k, widths = LAYERS[layer]
    slots = draw_slots(cell)
    step = make_step(slots, cell.num_adapters, DEVICE)
    x = torch.randn(cell.num_tokens, k, dtype=DTYPE, device=DEVICE)
    y = torch.randn(cell.num_tokens, sum(widths), dtype=DTYPE, device=DEVICE)
    active = len(set(slots))
    moved = active * cell.rank * (k * len(widths) + sum(widths)) + cell.num_tokens * (k + 2 * sum(widths))
    for name, implementation in (("vllm", stock(step, cell)), ("lorikeet", ours(step))):
        error = relative_error(implementation, Problem(torch.randn_like(y), x, *weights[0], step))
        if not error <= MAX_ERROR:
            print(
                f"{name} on {layer}, {cell}: relative error {error:.4f} > {MAX_ERROR}, not timed", flush=True
            )
            continue
        launches = [lambda w=w, f=implementation: f(y, x, *w) for w in weights]
        yield {
            "layer": layer,
            "k": k,
            "n": list(widths),
            "rank": cell.rank,
            "num_adapters": cell.num_adapters,
            "num_tokens": cell.num_tokens,
            "implementation": name,
            "us": round(time_graph_us(launches, REPEATS), 2),
            "floor_us": round(moved * DTYPE.itemsize / BYTES_PER_US, 2),
            "base_us": round(base_us, 2),
        }


def draw_slots(cell: Cell) -> list[int]:
    """Every adapter once, then at random, in random order."""
    generator = torch.Generator().manual_seed(cell.num_tokens)
    rest = max(cell.num_tokens - cell.num_adapters, 0)
    slots = torch.randint(0, cell.num_adapters, (rest,), generator=generator).tolist()
    slots += range(min(cell.num_adapters, cell.num_tokens))
    return [slots[i] for i in torch.randperm(len(slots), generator=generator).tolist()]


Implementation = Callable[[torch.Tensor, torch.Tensor, list[torch.Tensor], list[torch.Tensor]], None]


def ours(step: Step) -> Implementation:
    flag = torch.tensor([False])

    def run(y: torch.Tensor, x: torch.Tensor, lora_a: list[torch.Tensor], lora_b: list[torch.Tensor]) -> None:
        torch.ops.lorikeet.lora_linear(y, x, lora_a, lora_b, step.tile_tables, step.rows, flag, True)

    return run


def stock(step: Step, cell: Cell) -> Implementation:
    """As PunicaWrapperGPU.add_lora_linear does it."""
    from vllm.lora.ops.triton_ops import LoRAKernelMeta, lora_expand, lora_shrink, utils

    # It remembers strides by address alone, and weights of another shape may now lie there.
    utils._LORA_A_PTR_DICT.clear()
    utils._LORA_B_PTR_DICT.clear()
    meta = LoRAKernelMeta.make(cell.num_adapters, cell.num_tokens, device=DEVICE)
    meta.prepare_tensors(step.slot_of_token)

    def run(y: torch.Tensor, x: torch.Tensor, lora_a: list[torch.Tensor], lora_b: list[torch.Tensor]) -> None:
        shape = (len(lora_a), x.shape[0], cell.rank)
        buffer = torch.empty(shape, dtype=torch.float32, device=x.device)
        lora_shrink(x, lora_a, buffer, *meta.meta_args(x.shape[0], False), 1.0)
        lora_expand(buffer, lora_b, y, *meta.meta_args(x.shape[0], False), offset_start=0, add_inputs=True)

    return run


def relative_error(implementation: Implementation, problem: Problem) -> float:
    """Of what the implementation adds to y."""
    before = problem.y.float()
    expected = problem.expected()
    implementation(problem.y, problem.x, problem.lora_a, problem.lora_b)
    return ((problem.y.float() - expected).norm() / (expected - before).norm()).item()


def print_sums(sums: dict[Cell, dict[str, float]]) -> None:
    print("rank adapters tokens   vllm us  ours us  ratio   (sum over the layers)")
    for cell, us in sums.items():
        if us.keys() != {"vllm", "lorikeet"}:
            continue  # one of them was wrong
        ratio = us["lorikeet"] / us["vllm"]
        slower = "  SLOWER" if ratio > 1 else ""
        print(
            f"{cell.rank:4} {cell.num_adapters:8} {cell.num_tokens:6} {us['vllm']:9.1f} "
            f"{us['lorikeet']:8.1f} {ratio:6.2f}{slower}"
        )


if __name__ == "__main__":
    main()
