"""`lorikeet tune MODEL`: measure the LoRA kernels' block sizes for a model on this machine's GPU."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lorikeet.serve.errors import LorikeetError
from lorikeet.serve.settings import read_settings

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what --max-lora-rank may be
PACKAGE_SET = "package"  # in MODEL's place: every shape that the package brings block sizes for


class TuneError(LorikeetError):
    """The tuner cannot start; says why and what to do."""


def tune_command(argv: Sequence[str]) -> int:
    """Run it and return the exit code: 0 measured, 1 not all (or drift with --check), 2 a wrong command."""
    args = _parser().parse_args(argv)
    from lorikeet.kernels.tuned_file import TunedFileError
    from lorikeet.kernels.tuner.measurer import MeasurerError
    from lorikeet.kernels.tuner.model_shapes import ModelShapesError

    signal.signal(signal.SIGTERM, _interrupt)
    out = args.out or read_settings().cache_dir / "tuned"
    try:
        return _check(args, out) if args.check else _tune(args, out)
    except (MeasurerError, ModelShapesError, TunedFileError) as exc:
        raise TuneError(str(exc)) from exc


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lorikeet tune", description=__doc__)
    parser.add_argument(
        "model",
        help="a folder or config.json, a model hub's name, a model of the package "
        "(llama-3.1-8b …), or `package` for all of those",
    )
    parser.add_argument("--ranks", type=_numbers, help="values of --max-lora-rank to tune for (16)")
    parser.add_argument("--slots", type=_numbers, default=[8], help="values of --max-loras (8)")
    parser.add_argument("--adapters", type=Path, help="take the rank from the adapters in this folder")
    parser.add_argument("--tp", type=int, default=1, help="GPUs that share the model (1)")
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after these")
    parser.add_argument("--out", type=Path, help="folder of the files (LORIKEET_CACHE_DIR/tuned)")
    parser.add_argument("--workers", type=int, help="processes that compile (one for each core but one)")
    parser.add_argument("--check", action="store_true", help="measure the files' rows again, write nothing")
    parser.add_argument("--stock", action="store_true", help="tune vLLM's own kernels, into vLLM's own files")
    parser.add_argument("--list", action="store_true", help="print what would be measured, and end")
    return parser


def _tune(args: argparse.Namespace, out: Path) -> int:
    cells = _cells(args)
    if args.list:
        print("\n".join(map(str, cells)))
        return 0
    from lorikeet.kernels.tuner.run import LORA, STOCK, run

    with _Progress() as progress:
        report = run(STOCK if args.stock else LORA, cells, out, args.seconds, args.workers, progress)
    print("\n".join(report.lines()))
    return 0 if report.done else 1


def _check(args: argparse.Namespace, out: Path) -> int:
    from lorikeet.kernels.tuner.drift import drift_lines, measure_drift
    from lorikeet.kernels.tuner.run import LORA

    if args.stock:
        raise TuneError("--check with --stock: vLLM's files hold no times to compare with; leave one out")
    with _Progress() as progress:
        found, problems = measure_drift(LORA.make_tools, out, _cells(args), progress)
    print("\n".join(drift_lines(found, problems)))
    return 1 if problems or any(row.is_far for row in found) else 0


def _cells(args: argparse.Namespace) -> list:  # type: ignore[type-arg]
    from lorikeet.kernels.tuner.cells import cells_of
    from lorikeet.kernels.tuner.model_shapes import read_model_shapes
    from lorikeet.kernels.tuner.stored_shapes import package_cells, stored_models

    if args.model == PACKAGE_SET:
        return package_cells()
    stored = stored_models().get(args.model, {})
    if args.tp in stored:
        layers = stored[args.tp]
    else:
        layers = [(layer.k, layer.n) for layer in read_model_shapes([args.model], args.tp)[0]]
    ranks = args.ranks or ([_rank_of(args.adapters)] if args.adapters else [16])
    return cells_of(layers, ranks, args.slots, dtype=args.dtype)


def _rank_of(folder: Path) -> int:
    """The smallest --max-lora-rank that takes every adapter below `folder`.

    Raises:
        TuneError: there is no adapter, or one that vLLM takes at no rank.
    """
    ranks = []
    for path in sorted(folder.rglob("adapter_config.json")):
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            ranks.append(
                max(int(config["r"]), *(int(r) for r in (config.get("rank_pattern") or {}).values()), 0)
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise TuneError(f"{path}: no rank can be read from it ({exc}); give --ranks instead") from exc
    if not ranks:
        raise TuneError(f"{folder}: no adapter_config.json below it; give --ranks instead")
    fitting = [rank for rank in VLLM_RANKS if rank >= max(ranks)]
    if not fitting:
        raise TuneError(f"{folder}: rank {max(ranks)} > {VLLM_RANKS[-1]}, the most that vLLM takes")
    return fitting[0]


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be numbers of at least 1, as in 16,64")
    return numbers


class _Progress:
    """A bar on standard error."""

    def __enter__(self) -> Callable[[int, int, str], None]:
        from tqdm import tqdm  # type: ignore[import-untyped]

        self._bar = tqdm(unit="cell", file=sys.stderr, dynamic_ncols=True)
        return self._show

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def _show(self, num_done: int, num_all: int, text: str) -> None:
        self._bar.total = num_all
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(num_done - self._bar.n)


def _interrupt(*_: object) -> None:
    """SIGTERM is treated as Ctrl-C: what was measured is kept."""
    raise KeyboardInterrupt
