"""The worker class given to vLLM as `--worker-cls`: the platform's own with its phases journalled."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from vllm.platforms import current_platform

from lorikeet.kernels.adapter_modules import place_of
from lorikeet.kernels.autotune import Autotune
from lorikeet.kernels.block_sizes import Tune, settle_block_sizes
from lorikeet.kernels.choice_recorder import Period
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.lora_layers import (
    check_called,
    our_layers,
    warm_up_inherited_layers,
    warm_up_layers,
    watch_logits_layer,
)
from lorikeet.kernels.tuned import TunedConfigs
from lorikeet.kernels.vllm_plugin import (
    autotune_mode,
    cache_folder,
    measured_are_ignored,
    run_folder,
    tune_seconds,
)

if TYPE_CHECKING:
    from vllm.v1.worker.gpu_worker import Worker as PlatformWorker
elif current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as PlatformWorker
else:
    from vllm.v1.worker.gpu_worker import Worker as PlatformWorker

# Calls of the model runner that are phases inside a worker's own phase, and what they are evidence of.
RUNNER_PHASES: dict[str, tuple[str, Period]] = {
    "profile_cudagraph_memory": ("graph_profile", "graph_profile"),
    "capture_model": ("graph_capture", "capture"),
}


class JournalMixin:
    """Journals the phases of the worker class that stands after it in the inheritance order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._journal = Journal(run_folder(), "worker", self.rank)  # type: ignore[attr-defined]
        self._journal.write("end", "engine_spawn")
        self._autotune = Autotune(self, autotune_mode(), self._journal, run_folder())

    def init_device(self) -> None:
        with self._journal.phase("device"):
            super().init_device()  # type: ignore[misc]
            self._autotune.install()
        for method, (phase, period) in RUNNER_PHASES.items():
            self._journal_runner_call(method, phase, period)

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        with self._journal.phase("weights"):
            loaded = super().load_model(*args, **kwargs)  # type: ignore[misc]
        model, config = self.get_model(), self.vllm_config  # type: ignore[attr-defined]
        watch_logits_layer(model)
        settle_block_sizes(
            our_layers(model, config),
            config.scheduler_config.max_num_batched_tokens,
            cache_folder(),
            _share,
            self._journal,
            is_first_rank=self.rank == 0,  # type: ignore[attr-defined]
            tune=_tune_for(tune_seconds()),
            ignore_measured=measured_are_ignored(),
        )
        return loaded

    def determine_available_memory(self) -> int:
        with self._journal.phase("profile"), self._autotune.recorder.during("profile"):
            return super().determine_available_memory()  # type: ignore[misc, no-any-return]

    def initialize_from_config(self, *args: Any, **kwargs: Any) -> Any:
        with self._journal.phase("kv_cache"):
            return super().initialize_from_config(*args, **kwargs)  # type: ignore[misc]

    def compile_or_warm_up_model(self) -> Any:
        with self._journal.phase("kernel_warmup"):
            model, config = self.get_model(), self.vllm_config  # type: ignore[attr-defined]
            layers = our_layers(model, config)
            with self._journal.phase("lora_warmup"):
                num_launches = warm_up_layers(layers, config) + warm_up_inherited_layers(model, config)
            self._autotune.decide()
            with self._autotune.applied():
                times = super().compile_or_warm_up_model()  # type: ignore[misc]
            self._autotune.finish()
            num_calls = check_called(layers)
        self._journal.write("note", "lora_kernels", launches=num_launches, calls=num_calls)
        self._journal.write("note", "compile", seconds=getattr(times, "language_model", None))
        return times

    def place_of_adapter(self, lora_id: int) -> tuple[list[str], list[str]]:
        """See `adapter_modules.py`; the server calls it after each load."""
        return place_of(self.get_model().lora_manager, lora_id)  # type: ignore[attr-defined]

    def _journal_runner_call(self, method: str, phase: str, period: Period) -> None:
        """Replace one bound method of this worker's own model runner by one that journals it."""
        runner = self.model_runner  # type: ignore[attr-defined]
        call: Callable[..., Any] | None = getattr(runner, method, None)
        if call is None:  # the CPU runners capture no graphs
            return

        def journalled(*args: Any, **kwargs: Any) -> Any:
            with self._journal.phase(phase), self._autotune.recorder.during(period):
                return call(*args, **kwargs)

        setattr(runner, method, journalled)


def _tune_for(seconds: float | None) -> Tune | None:
    """What measures at this start, if anything."""
    if seconds is None:
        return None
    from lorikeet.kernels.tuner.startup import tune_at_startup

    return partial(tune_at_startup, seconds=seconds)


def _share(tuned: TunedConfigs) -> TunedConfigs:
    """What the first rank read: files can change between two reads."""
    from vllm.distributed import get_world_group

    group = get_world_group()
    return tuned if group.world_size == 1 else group.broadcast_object(tuned, src=0)


class Worker(JournalMixin, PlatformWorker):  # type: ignore[misc]
    """`--worker-cls lorikeet.kernels.vllm_worker.Worker`."""
