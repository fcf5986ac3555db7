"""What a real model writes with stock LoRA kernels and with ours, judged by transformers and PEFT in float32.

    python benchmarks/real_text.py ask --model FOLDER --texts FOLDER      # a machine with a GPU
    python benchmarks/real_text.py judge --model FOLDER --texts FOLDER    # any machine with PEFT

`ask` serves the demo's SmolLM2-135M-Instruct with three adapters, with both kernels and in both types they
support, and keeps the greedy tokens and the adapter that it drew at random. `judge` appends rows to
results/text.jsonl. Half-precision kernels that add in another order may choose the other of two nearly equal
tokens: how near they are in the reference says whether a difference is one of rounding.
"""

import argparse
import json
import shutil
import sys
import tempfile
import traceback
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from dummy_model import Shape, write_adapter
from lora_servers import IMPLEMENTATIONS, LoraServer, server_arguments
from rows import RESULTS, append_line, provenance

from lorikeet.serve.demo.adapter_paths import adapter_paths

SMOLLM2 = Shape(576, 1536, 30, 9, 3, 49152, head_dim=64)
RANDOM_RANK = 16
RANDOM_STD = 0.1
DTYPES = ("float16", "bfloat16")
PORT = 8681
READY_S = 300
NUM_TOKENS = 64
BASE = "base"
TEXTS = "texts.jsonl"
WRITTEN_ON = "written_on.json"
QUESTIONS = (
    "What is the capital of France?",
    "How do I boil an egg?",
    "Name three colours of the rainbow.",
    "Why is the sky blue?",
    "Write a short poem about the sea.",
    "What is 12 plus 30?",
    "Explain what a computer is to a child.",
    "Give me advice for a rainy day.",
    "Who wrote Romeo and Juliet?",
    "List four animals that can fly.",
)


def main() -> None:
    args = parse_arguments()
    (ask if args.do == "ask" else judge)(args)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["ask", "judge"])
    parser.add_argument("--model", type=Path, required=True, help="the demo model's folder")
    parser.add_argument("--texts", type=Path, required=True, help="what `ask` writes and `judge` reads")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--kernels", default="on", help="LORIKEET_KERNELS of our servers")
    parser.add_argument("--commit", help="what was run, where git can't tell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def adapters(texts: Path) -> dict[str, Path]:
    """The demo's two and the random one."""
    return {**adapter_paths(), "random": texts / "random"}


def ask(args: argparse.Namespace) -> None:
    paths = adapters(args.texts)
    write_adapter(SMOLLM2, RANDOM_RANK, paths["random"], seed=0, delta_std=RANDOM_STD)
    folder = Path(tempfile.mkdtemp(prefix="real-text-"))
    common = server_arguments(args.model, paths, RANDOM_RANK, len(paths), 10**9, 0.03, max_num_seqs=64)
    common[common.index("--max-model-len") + 1] = "2048"
    servers = {}
    for number, (dtype, name) in enumerate(product(args.dtypes, IMPLEMENTATIONS)):
        servers[dtype, name] = LoraServer(
            name, folder / str(number), PORT + number, [*common, "--dtype", dtype], kernels=args.kernels
        )
        servers[dtype, name].start()
    try:
        texts = []
        for (dtype, name), server in servers.items():
            server.wait_until_ready(READY_S)
            for text in ask_server(server, args.model, [BASE, *paths]):
                texts.append({"dtype": dtype, "implementation": name, **text})
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(folder)
    (args.texts / TEXTS).write_text("".join(json.dumps(text) + "\n" for text in texts))
    (args.texts / WRITTEN_ON).write_text(json.dumps(provenance() | {"commit": args.commit}))
    print(f"{len(texts)} texts")


def ask_server(server: LoraServer, model: Path, names: list[str]) -> list[dict[str, Any]]:
    """Every question of the base model and every adapter, all at once."""
    asked = [(name, tokens) for tokens in prompts(model) for name in names]

    def complete(name: str, prompt: list[int]) -> dict[str, Any]:
        body = {
            "model": name,
            "prompt": prompt,
            "max_tokens": NUM_TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        request = urllib.request.Request(
            f"{server.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return {"adapter": name, "prompt": prompt, "tokens": json.load(answer)["choices"][0]["token_ids"]}

    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(lambda pair: complete(*pair), asked))


def prompts(model: Path) -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    return [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        for question in QUESTIONS
    ]


def judge(args: argparse.Namespace) -> None:
    texts = [json.loads(line) for line in (args.texts / TEXTS).read_text().splitlines()]
    reference = Reference(args.model, adapters(args.texts))
    for dtype in args.dtypes:
        by_name = {
            name: [text for text in texts if (text["dtype"], text["implementation"]) == (dtype, name)]
            for name in IMPLEMENTATIONS
        }
        for name, of in by_name.items():
            margins = list(margins_of_differences(reference, of))
            write(args, dtype=dtype, compared=f"{name} with the reference", texts=len(of), **summary(margins))
        pairs = list(zip(by_name["lorikeet"], by_name["vllm"], strict=True))
        margins = [
            reference.margin(ours, at) for ours, stock in pairs for at in first_difference(ours, stock)
        ]
        write(args, dtype=dtype, compared="lorikeet with vllm", texts=len(pairs), **summary(margins))


class Reference:
    """The float32 model with its adapters."""

    def __init__(self, model: Path, paths: dict[str, Path]) -> None:
        from peft import PeftModel
        from transformers import AutoModelForCausalLM

        first, *others = paths
        base = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
        self.model = PeftModel.from_pretrained(base, paths[first], adapter_name=first)
        for name in others:
            self.model.load_adapter(paths[name], adapter_name=name)
        self.model.eval()

    def logits(self, text: dict[str, Any]) -> Any:
        """[NUM_TOKENS, vocabulary], each position after the text's own tokens before it."""
        import torch

        ids = torch.tensor([text["prompt"] + text["tokens"]])
        with torch.inference_mode():
            if text["adapter"] == BASE:
                with self.model.disable_adapter():
                    logits = self.model(ids).logits[0]
            else:
                self.model.set_adapter(text["adapter"])
                logits = self.model(ids).logits[0]
        return logits[len(text["prompt"]) - 1 : -1]

    def margin(self, text: dict[str, Any], position: int) -> float:
        """How far the reference's best two tokens are apart there."""
        best, second = self.logits(text)[position].topk(2).values.tolist()
        return float(best - second)


def first_difference(left: dict[str, Any], right: dict[str, Any]) -> list[int]:
    """Where two texts part, at most one place; what comes after has another past."""
    assert (left["adapter"], left["prompt"]) == (right["adapter"], right["prompt"])
    pairs = zip(left["tokens"], right["tokens"], strict=True)
    return [at for at, (mine, other) in enumerate(pairs) if mine != other][:1]


def margins_of_differences(reference: Reference, texts: list[dict[str, Any]]) -> Iterator[float]:
    """For each text that leaves the reference's greedy path, by how much its token is worse there."""
    for text in texts:
        logits = reference.logits(text)
        for position, token in enumerate(text["tokens"]):
            worse = (logits[position].max() - logits[position, token]).item()
            if worse > 0:
                yield worse
                break


def summary(margins: list[float]) -> dict[str, Any]:
    margins = sorted(round(margin, 4) for margin in margins)
    return {"different": len(margins), "margins": margins, "max_margin": max(margins, default=0.0)}


def write(args: argparse.Namespace, **row: Any) -> None:
    print(json.dumps(row), flush=True)
    written_on = json.loads((args.texts / WRITTEN_ON).read_text())
    append_line(
        args.out / "text.jsonl", {"shape": "smollm2-135m", **row, "written_on": written_on}, args.commit
    )


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
