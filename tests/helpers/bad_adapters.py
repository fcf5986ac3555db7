"""Makes broken adapters out of a good one, one for each way that an adapter can be broken.

python tests/helpers/bad_adapters.py FOLDER    writes them all, and says for what each is refused
"""

import json
import shutil
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

GOOD = Path(__file__).parents[2] / "serve" / "demo" / "adapters" / "json"  # rank 4, SmolLM2-135M
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A folder's name, the reason that it must be refused for, and how to break a good copy."""

    name: str
    reason: str
    spoil: Callable[[Path], None]


def config(**changes) -> Callable[[Path], None]:
    """Change the configuration's values; None removes one."""

    def spoil(folder: Path) -> None:
        values = json.loads((folder / CONFIG).read_text()) | changes
        kept = {name: value for name, value in values.items() if value is not REMOVED}
        (folder / CONFIG).write_text(json.dumps(kept))

    return spoil


REMOVED = object()


def tensors(change: Callable[[Tensors], Tensors]) -> Callable[[Path], None]:
    """Change the tensors, a dictionary of all."""

    def spoil(folder: Path) -> None:
        changed = change(load_file(folder / WEIGHTS))
        save_file({name: tensor.contiguous() for name, tensor in changed.items()}, folder / WEIGHTS)

    return spoil


def each(change: Callable[[str, torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    return tensors(lambda all_: {name: change(name, tensor) for name, tensor in all_.items()})


def renamed(change: Callable[[str], str]) -> Callable[[Path], None]:
    return tensors(lambda all_: {change(name): tensor for name, tensor in all_.items()})


def one(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    """Change a single tensor in the middle of the file."""

    def spoil(all_: Tensors) -> Tensors:
        name = sorted(all_)[len(all_) // 2]
        return {**all_, name: change(all_[name])}

    return tensors(spoil)


def with_value(value: float) -> Callable[[Path], None]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        tensor.view(-1)[tensor.numel() // 2] = value
        return tensor

    return one(change)


def raw_weights(content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / WEIGHTS).write_bytes(content) and None


def raw_config(content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / CONFIG).write_bytes(content) and None


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def truncated(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) * 2 // 3])


def pickled(suffix: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        torch.save(load_file(folder / WEIGHTS), folder / f"adapter_model.{suffix}")
        (folder / WEIGHTS).unlink()

    return spoil


def linked_outside(folder: Path) -> None:
    """The weights are a link to a file beside all adapters."""
    outside = folder.parent.parent / f"outside-{folder.parent.name}.safetensors"
    shutil.copyfile(folder / WEIGHTS, outside)
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to(outside)


def linked_nowhere(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("/no/such/file")


def weights_are_a_folder(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()


def extra(name: str, *shape: int) -> Callable[[Path], None]:
    return tensors(lambda all_: {**all_, name: torch.zeros(*shape, dtype=torch.bfloat16)})


def smaller_base(all_: Tensors) -> Tensors:
    """What a model of half the width would have: it fits in a corner of the real one's."""
    return {n: t[:, : t.shape[1] // 2] if ".lora_A." in n else t[: t.shape[0] // 2] for n, t in all_.items()}


def twice_as_wide(name: str, tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor, tensor], dim=1 if ".lora_A." in name else 0)


def a_layer_less(all_: Tensors) -> Tensors:
    return {name: tensor for name, tensor in all_.items() if ".layers.7." not in name}


PREFIX = "base_model.model.model.layers"
HEADER_LENGTH = struct.pack("<Q", 2**62)

CASES = [
    Case("rank-above-the-limit", "rank", config(r=1024)),
    Case("rank-zero", "rank", config(r=0)),
    Case("rank-negative", "rank", config(r=-4)),
    Case("rank-text", "rank", config(r="4")),
    Case("rank-missing", "rank", config(r=REMOVED)),
    Case("rank-above-its-tensors", "shapes", config(r=8)),
    Case("rank-below-its-tensors", "shapes", config(r=2)),
    Case("rank-pattern-wrong", "shapes", config(rank_pattern={"q_proj": 8})),
    Case("rank-pattern-hostile", "config", config(rank_pattern={"(a+)+b": 4})),
    Case("alpha-zero", "config", config(lora_alpha=0)),
    Case("alpha-text", "config", config(lora_alpha="8")),
    Case("alpha-infinite", "config", raw_config(b'{"r": 4, "lora_alpha": Infinity}')),
    Case("targets-missing", "config", config(target_modules=REMOVED)),
    Case("targets-unknown", "tensors", config(target_modules=["q_proj", "no_such_proj"])),
    Case("targets-without-tensors", "tensors",
         config(target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "down_proj", "up_proj"])),
    Case("dora", "feature", config(use_dora=True)),
    Case("bias", "feature", config(bias="all")),
    Case("lora-bias", "feature", config(lora_bias=True)),
    Case("modules-to-save", "feature", config(modules_to_save=["lm_head"])),
    Case("layer-replication", "feature", config(layer_replication=[[0, 15], [10, 30]])),
    Case("pissa", "feature", config(init_lora_weights="pissa")),
    Case("not-lora", "feature", config(peft_type="IA3")),
    Case("config-missing", "config", removed(CONFIG)),
    Case("config-broken", "config", raw_config(b'{"r": 4,')),
    Case("config-a-list", "config", raw_config(b"[]")),
    Case("config-not-text", "config", raw_config(b"\xff\xfe\x00")),
    Case("config-deep", "config", raw_config(b"[" * 100_000)),
    Case("config-huge", "config", raw_config(b" " * (1024**2 + 1))),
    Case("weights-missing", "format", removed(WEIGHTS)),
    Case("weights-empty", "format", raw_weights(b"")),
    Case("weights-random", "format", raw_weights(bytes(range(256)) * 64)),
    Case("weights-truncated", "format", truncated),
    Case("weights-a-folder", "format", weights_are_a_folder),
    Case("header-huge", "format", raw_weights(HEADER_LENGTH + b"{}")),
    Case("header-no-json", "format", raw_weights(struct.pack("<Q", 8) + b"nonsense")),
    Case("pickle-bin", "format", pickled("bin")),
    Case("pickle-pt", "format", pickled("pt")),
    Case("no-tensors", "tensors", tensors(lambda all_: {})),
    Case("empty-tensors", "shapes", each(lambda name, tensor: tensor[:0])),
    Case("only-a", "tensors", tensors(lambda all_: {n: t for n, t in all_.items() if ".lora_A." in n})),
    Case("only-b", "tensors", tensors(lambda all_: {n: t for n, t in all_.items() if ".lora_B." in n})),
    Case("a-lost-layer", "tensors", tensors(a_layer_less)),
    Case("a-layer-too-many", "tensors", renamed(lambda name: name.replace(".layers.7.", ".layers.99."))),
    Case("prefix-renamed", "tensors", renamed(lambda name: name.replace("model.layers", "transformer.h"))),
    Case("prefix-doubled", "tensors", renamed(lambda name: "base_model.model." + name)),
    Case("adapter-name-inside", "tensors", renamed(lambda name: name.replace(".weight", ".default.weight"))),
    Case("unknown-module", "tensors", renamed(lambda name: name.replace("q_proj", "query"))),
    Case("unknown-tensor", "tensors", extra(f"{PREFIX}.0.self_attn.q_proj.lora_C.weight", 4, 4)),
    Case("dora-tensor", "feature", extra(f"{PREFIX}.0.self_attn.q_proj.lora_magnitude_vector", 576)),
    Case("bias-tensor", "feature", extra(f"{PREFIX}.0.self_attn.q_proj.lora_B.bias", 576)),
    Case("wider-base", "shapes", each(twice_as_wide)),
    Case("smaller-base", "shapes", tensors(smaller_base)),
    Case("transposed", "shapes", each(lambda name, tensor: tensor.T)),
    Case("three-dimensional", "shapes", one(lambda tensor: tensor[None])),
    Case("whole-numbers", "dtype", each(lambda name, tensor: tensor.to(torch.int8))),
    Case("not-a-number", "values", with_value(float("nan"))),
    Case("infinity", "values", with_value(float("inf"))),
    Case("minus-infinity", "values", with_value(float("-inf"))),
]  # fmt: skip

# A path, not its content, is what is wrong here: the server's sources refuse these, a plain check does not.
LINKS = [
    Case("linked-outside", "path", linked_outside),
    Case("linked-nowhere", "path", linked_nowhere),
]


def make(case: Case, parent: Path) -> Path:
    """Write the broken adapter below `parent`; returns its folder."""
    folder = parent / case.name
    shutil.copytree(GOOD, folder)
    case.spoil(folder)
    return folder


if __name__ == "__main__":
    for case in [*CASES, *LINKS]:
        make(case, Path(sys.argv[1]))
        print(f"{case.reason:8} {case.name}")
