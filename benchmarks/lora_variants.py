"""Whether vLLM writes the same with our LoRA kernels as with its own, in each way it can run them.

    python benchmarks/lora_variants.py --out FOLDER [--commit ID] [--only NAME …]

One small model with random weights, a server for each variant, all at once; each is asked the same prompts
for the base model and both adapters in one batch, and compared with stock vLLM as it comes. Ours fail on a
kernel that is compiled after start. Then an adapter of NaN is asked beside the base model, whose texts must
stay, and ours are started on the graphs that stock vLLM compiled. Rows go to outputs.jsonl. It needs vLLM.
"""

import argparse
import json
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dummy_model import SHAPES, write_adapter, write_model, write_weights
from lora_outputs import Output, ask, collect, compare, make_prompts
from lora_servers import LoraServer, server_arguments
from rows import RESULTS, append_line

PORT = 8491
READY_S = 300
RANK = 16
KV_BYTES = 2 * 10**9
MEMORY_SHARE = 0.04
SHAPE = "small"
ADAPTERS = ("adapter-0", "adapter-1")
MODELS = ("base", *ADAPTERS)
NAN = "nan"
REFERENCE = "vllm"
SPECIALISED = ", specialize-active-lora"
STRICT = ["--jit-monitor-mode", "error"]
# name → (implementation, arguments, environment)
VARIANTS: dict[str, tuple[str, list[str], dict[str, str]]] = {
    REFERENCE: ("vllm", [], {}),
    "lorikeet": ("lorikeet", STRICT, {}),
    "lorikeet, V1 runner": ("lorikeet", STRICT, {"VLLM_USE_V2_MODEL_RUNNER": "0"}),
    "lorikeet, dual stream": ("lorikeet", STRICT, {"VLLM_LORA_ENABLE_DUAL_STREAM": "1"}),
    "lorikeet, eager": ("lorikeet", [*STRICT, "--enforce-eager"], {}),
    "lorikeet, piecewise graphs": ("lorikeet", [*STRICT, "-cc.cudagraph_mode=PIECEWISE"], {}),
    f"lorikeet{SPECIALISED}": ("lorikeet", [*STRICT, "--specialize-active-lora"], {}),
    f"vllm{SPECIALISED}": ("vllm", ["--specialize-active-lora"], {}),
}
Outputs = dict[tuple[str, int], Output]


def main() -> None:
    args = parse_arguments()
    folder = Path(tempfile.mkdtemp(prefix="lora-variants-"))
    servers = start_servers(args, folder)
    try:
        with ThreadPoolExecutor(len(servers)) as pool:
            found = dict(zip(servers, pool.map(outputs_of, servers.values()), strict=True))
        for name, outputs in found.items():
            if isinstance(outputs, str):
                print(f"{name}: {outputs}", flush=True)
            elif not isinstance(found[REFERENCE], str):
                write_line(args, variant=name, compared_with=REFERENCE, **compare(outputs, found[REFERENCE]))
        report_specialised(args, found)
        report_repeats(args, servers, found)
        for name in (REFERENCE, "lorikeet"):
            if not isinstance(found.get(name, ""), str):
                check_nan(args, name, servers[name])
        if not isinstance(found[REFERENCE], str):
            check_cache(args, folder, servers[REFERENCE], found[REFERENCE])
    finally:
        for name, server in servers.items():
            for line in server.log_lines("during inference", "using punica", "using lorikeet", "traceback")[
                -8:
            ]:
                print(f"[{name}] {line[:220]}", flush=True)
            server.stop()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", default="on", help="LORIKEET_KERNELS of our servers")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--commit", help="what was run, where git can't tell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def start_servers(args: argparse.Namespace, folder: Path) -> dict[str, LoraServer]:
    shape = SHAPES[SHAPE]
    write_model(shape, folder / "model")
    write_weights(shape, folder / "model")
    adapters = {name: folder / name for name in (*ADAPTERS, NAN)}
    for number, path in enumerate(adapters.values()):
        write_adapter(shape, RANK, path, seed=number, value=float("nan") if path.name == NAN else None)
    shared = server_arguments(
        folder / "model", adapters, RANK, len(ADAPTERS), KV_BYTES, MEMORY_SHARE, max_num_seqs=16
    )
    servers = {}
    for number, name in enumerate(args.only):
        implementation, arguments, environment = VARIANTS[name]
        servers[name] = LoraServer(
            implementation,
            folder / "servers" / str(number),
            PORT + number,
            [*shared, *arguments],
            environment,
            kernels=args.kernels,
        )
        servers[name].start()
    return servers


def outputs_of(server: LoraServer) -> Outputs | str:
    """What the server writes, or why it doesn't."""
    try:
        server.wait_until_ready(READY_S)
        collect(server.url, MODELS, prompts()[:1])  # adapters into their slots
        return collect(server.url, MODELS, prompts())
    except (RuntimeError, OSError) as exc:
        return f"{type(exc).__name__}: {exc}"


def prompts() -> list[str]:
    """Short ones, and one that is too long for a graph."""
    vocabulary = SHAPES[SHAPE].vocabulary
    return make_prompts(8, 40, vocabulary) + make_prompts(1, 777, vocabulary)


def report_specialised(args: argparse.Namespace, found: dict[str, Outputs | str]) -> None:
    """Each implementation against itself: with the flag stock loses an adapter in batches with base rows."""
    for name in ("lorikeet", "vllm"):
        outputs, plain = found.get(f"{name}{SPECIALISED}", ""), found.get(name, "")
        if not isinstance(outputs, str) and not isinstance(plain, str):
            write_line(args, variant=f"{name}{SPECIALISED}", compared_with=name, **compare(outputs, plain))


def report_repeats(
    args: argparse.Namespace, servers: dict[str, LoraServer], found: dict[str, Outputs | str]
) -> None:
    """What differs when the same server is asked again, and how far adapters are from the base model."""
    reference = found[REFERENCE]
    if isinstance(reference, str):
        return
    again = collect(servers[REFERENCE].url, MODELS, prompts())
    write_line(
        args, variant=f"{REFERENCE}, asked again", compared_with=REFERENCE, **compare(again, reference)
    )
    adapted = {key: output for key, output in reference.items() if key[0] != "base"}
    base = {(model, number): reference["base", number] for model, number in adapted}
    write_line(args, variant="adapters", compared_with="base", **compare(adapted, base))


def check_nan(args: argparse.Namespace, name: str, server: LoraServer) -> None:
    """Base texts before, beside and after an adapter of NaN."""
    before = ask_each(server, "base")
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(ask_each, server, NAN)
        beside = ask_each(server, "base")
        asked.result()
    for moment, texts in (("beside", beside), ("after", ask_each(server, "base"))):
        write_line(
            args,
            variant=f"{name}, base {moment} NaN",
            compared_with=f"{name}, base before",
            texts=len(before),
            same_text=sum(left == right for left, right in zip(texts, before, strict=True)),
            failed=texts.count(None),
        )


def check_cache(args: argparse.Namespace, folder: Path, stock: LoraServer, reference: Outputs) -> None:
    """Ours on the graphs that stock vLLM compiled: keyed by our fingerprint they are compiled anew.

    Without the key the graphs are stock's, which never call our kernels, and the start must fail.
    """
    servers = {
        keyed: LoraServer(
            "lorikeet", folder / f"cached-{keyed}", PORT + 20 + keyed, stock.arguments,
            kernels=args.kernels, cache=stock.folder / "cache", keyed=keyed,
        )
        for keyed in (True, False)
    }  # fmt: skip
    for server in servers.values():
        server.start()
    try:
        for keyed, server in servers.items():
            outputs = outputs_of(server)
            write_line(
                args,
                variant=f"lorikeet on stock's graphs, {'with' if keyed else 'without'} our key",
                ready=not isinstance(outputs, str),
                refused=bool(server.log_lines("kernelsbypassederror")),
                **({} if isinstance(outputs, str) else compare(outputs, reference)),
            )
    finally:
        for server in servers.values():
            server.stop()


def ask_each(server: LoraServer, model: str) -> list[tuple[str, ...] | None]:
    """The text for each prompt, None where the answer is an error, as log-probabilities of NaN are."""
    texts: list[tuple[str, ...] | None] = []
    for prompt in prompts():
        try:
            texts.append(ask(server.url, model, prompt).tokens)
        except OSError:
            texts.append(None)
    return texts


def write_line(args: argparse.Namespace, **row: Any) -> None:
    print(json.dumps(row), flush=True)
    append_line(args.out / "outputs.jsonl", {"shape": SHAPE, "rank": RANK} | row, args.commit)


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
