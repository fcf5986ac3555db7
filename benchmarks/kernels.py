"""Time stock vLLM's LoRA operators and ours in one process; append rows to results/kernels.jsonl.

    python benchmarks/kernels.py --cells bars|grid|phi|tuned [--tuned FOLDER] [--commit ID] [--out FILE]

Both run as vLLM calls them, shrink and expand of one linear layer together, in replays of a CUDA graph
whose launches use different weights, more than the L2 cache holds. Every cell is compared with the
reference before it is timed. `lorikeet` has measured block sizes where there are some; with `--cells tuned`
it is compared with its defaults (`lorikeet_default`) and with stock that has what `lorikeet tune --stock`
measured (`vllm_tuned`). It needs vLLM and an NVIDIA GPU.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton

from lorikeet.kernels.lora_linear import device_of, use_tuned
from lorikeet.kernels.synthetic import Problem, Step, Weights, make_step, make_weights
from lorikeet.kernels.timing import time_graph_us
from lorikeet.kernels.tuned import TunedConfigs, load_folders
from lorikeet.kernels.tuner.stored_shapes import stored_models
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
# What models' layers really are; equal ones stand under the first model that has them.
STORED = {
    shape: f"{model}:{number}"
    for model in reversed(("llama-3.1-8b", "llama-3.2-3b", "qwen3-8b", "phi-4-multimodal"))
    for number, shape in enumerate(stored_models()[model][1])
}
STORED_LAYERS = {name: shape for shape, name in sorted(STORED.items(), key=lambda item: item[1])}
LAYERS = {**LLAMA_8B, **PHI_4_MULTIMODAL, **STORED_LAYERS}
SETS = {"bars": LLAMA_8B, "grid": LLAMA_8B, "phi": PHI_4_MULTIMODAL, "tuned": STORED_LAYERS}
PACKAGE_TUNED = Path(__file__).parents[1] / "tuned_configs"
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
    "tuned": [Cell(rank, 8, tokens) for rank in (16, 64) for tokens in (1, 8, 32)],
}


def main() -> None:
    args = arguments()
    layers, cells = SETS[args.cells], CELLS[args.cells]
    versions = describe_host(args.commit)
    compile_ahead(layers, cells, args.workers)
    sums: dict[Cell, dict[str, float]] = {cell: {} for cell in cells}
    with args.out.open("a", encoding="utf-8") as out:
        for layer in layers:
            base_us: dict[int, float] = {}
            for cell, weights in with_weights(layer, cells):
                base_us.setdefault(cell.num_tokens, time_base(layer, cell.num_tokens))
                for row in measure(args, layer, cell, weights, base_us[cell.num_tokens]):
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
    parser.add_argument("--tuned", type=Path, default=PACKAGE_TUNED, help="folder of measured block sizes")
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


def compile_ahead(layers: dict[str, Any], cells: list[Cell], num_workers: int) -> None:
    """Compile the variants of both in parallel; Triton's cache on disk hands them to this process."""
    tasks = [
        (layer, rank, sorted({cell.num_adapters for cell in cells}))
        for layer in layers
        for rank in sorted({cell.rank for cell in cells})
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context) as pool:
        list(pool.map(compile_layer, tasks))


def compile_layer(task: tuple[str, int, list[int]]) -> None:
    layer, rank, all_slots = task
    for num_slots in all_slots:
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


def measure(
    args: argparse.Namespace, layer: str, cell: Cell, weights: list[Weights], base_us: float
) -> Iterator[dict[str, Any]]:
    k, widths = LAYERS[layer]
    slots = draw_slots(cell)
    step = make_step(slots, cell.num_adapters, DEVICE)
    x = torch.randn(cell.num_tokens, k, dtype=DTYPE, device=DEVICE)
    y = torch.randn(cell.num_tokens, sum(widths), dtype=DTYPE, device=DEVICE)
    active = len(set(slots))
    moved = active * cell.rank * (k * len(widths) + sum(widths)) + cell.num_tokens * (k + 2 * sum(widths))
    for name, implementation in implementations(args, step, cell):
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


def implementations(
    args: argparse.Namespace, step: Step, cell: Cell
) -> Iterator[tuple[str, "Implementation"]]:
    """Each one set up when it is its turn: block sizes are chosen for a whole process."""
    yield "vllm", stock(step, cell)
    if args.cells == "tuned":
        with stock_block_sizes(args.tuned):
            yield "vllm_tuned", stock(step, cell)
        use_tuned(TunedConfigs())
        yield "lorikeet_default", ours(step)
    use_tuned(load_folders(device_of(torch.device(DEVICE)), [args.tuned]))
    yield "lorikeet", ours(step)


@contextmanager
def stock_block_sizes(tuned: Path) -> Iterator[None]:
    """Stock kernels with what `lorikeet tune --stock` wrote below `tuned`, read by vLLM's own loader."""
    from vllm.lora.ops.triton_ops import utils

    (folder,) = tuned.glob("*/vllm")
    os.environ["VLLM_TUNED_CONFIG_FOLDER"] = str(folder)
    utils.load_lora_op_config.cache_clear()
    try:
        yield
    finally:
        del os.environ["VLLM_TUNED_CONFIG_FOLDER"]
        utils.load_lora_op_config.cache_clear()


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
        if not {"vllm", "lorikeet"} <= us.keys():
            continue  # one of them was wrong
        ratio = us["lorikeet"] / us["vllm"]
        slower = "  SLOWER" if ratio > 1 else ""
        print(
            f"{cell.rank:4} {cell.num_adapters:8} {cell.num_tokens:6} {us['vllm']:9.1f} "
            f"{us['lorikeet']:8.1f} {ratio:6.2f}{slower}"
            + "".join(f"  {name} {us[name]:.1f}" for name in ("vllm_tuned", "lorikeet_default") if name in us)
        )


if __name__ == "__main__":
    main()
