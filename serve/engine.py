"""vLLM: its arguments, its engine and its OpenAI application.

Beside this file, only `engine_adapters.py` imports it in the server.
"""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from starlette.types import ASGIApp

from lorikeet.kernels.fingerprint import fingerprint
from lorikeet.serve.capture_sizes import capture_sizes
from lorikeet.serve.engine_defaults import NUM_QUEUED_PER_RUNNING
from lorikeet.serve.errors import StartError

# Arguments of `vllm serve` that need a server of another shape: one process, one TCP socket is ours.
REFUSED = {
    "api_server_count": "one API process serves; remove it",
    "headless": "every node of Lorikeet serves; use vLLM's Ray executor for several nodes",
    "grpc": "only HTTP is served; remove it",
    "grpc_port": "only HTTP is served; remove it",
    "uds": "a TCP port is served; use --host and --port",
    "api_key": "it would show in the process list; set LORIKEET_API_KEY",
    "enable_ssl_refresh": "certificates are read at start; restart to renew them",
    "data_parallel_multi_port_external_lb": "one port is served; remove it",
}


@dataclass(frozen=True)
class Engine:
    """A running engine: vLLM's client to it, the parsed arguments, and what it can do."""

    client: Any  # vllm.v1.engine.async_llm.AsyncLLM
    args: Namespace
    tasks: tuple[str, ...]

    @property
    def model_name(self) -> str:
        """The name that requests to the base model use."""
        names = self.args.served_model_name
        return str(names[0] if names else self.args.model)

    @property
    def model_names(self) -> frozenset[str]:
        """Every name that requests to the base model can use."""
        return frozenset(self.args.served_model_name or [self.args.model])

    @property
    def has_died(self) -> bool:
        return bool(self.client.errored)

    def stop_listening(self) -> None:
        """Stop waiting for the engine's outputs, so that its end is not reported as a death."""
        if self.client.output_handler is not None:
            self.client.output_handler.cancel()

    def shutdown(self, timeout_s: float) -> None:
        """Stop the engine's processes; blocks for at most about `timeout_s`."""
        self.client.shutdown(timeout=timeout_s)


def parse_arguments(argv: list[str]) -> Namespace:
    """Parse `MODEL [any vllm serve argument]` with vLLM's own parser.

    Raises:
        StartError: an argument is unknown, malformed or needs a server of another shape.
    """
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.entrypoints.launchers.launcher import validate_api_server_args
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise StartError(f"{message}; `lorikeet serve --help` lists all arguments")

    parser = make_arg_parser(Parser(prog="lorikeet serve"))
    parser.set_defaults(max_lora_rank=None)  # chosen from the adapters where it isn't given
    args: Namespace = parser.parse_args(argv)
    args.model = args.model_tag or args.model
    for name, remedy in REFUSED.items():
        if getattr(args, name) not in (None, False, 1):
            raise StartError(f"--{name.replace('_', '-')} is not supported: {remedy}")
    for plugin, manager_import in (
        (args.tool_parser_plugin, ToolParserManager.import_tool_parser),
        (args.reasoning_parser_plugin, ReasoningParserManager.import_reasoning_parser),
    ):
        if plugin:
            manager_import(plugin)
    validate_parsed_serve_args(args)
    validate_api_server_args(args)
    return args


def autotune_flag_given(args: Namespace) -> bool:
    """Whether the operator decided on FlashInfer's autotune pass, with either of vLLM's two ways."""
    kernels = args.kernel_config
    given = (
        kernels.get("enable_flashinfer_autotune")
        if isinstance(kernels, dict)
        else (getattr(kernels, "enable_flashinfer_autotune", None))
    )
    return args.enable_flashinfer_autotune is not None or given is not None


def check_model_path(model: str) -> None:
    """Refuse a path that holds no model; names of a model hub pass.

    Raises:
        StartError: `model` is written as a path, or exists as one, and holds no config.json.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        if not any((path / name).exists() for name in ("config.json", "params.json")):
            raise StartError(
                f"no model in {model}: it has no config.json; name the folder that holds the weights"
            )
    elif not path.exists() and (model.startswith(("/", "./", "../", "~")) or model.count("/") > 1):
        raise StartError(f"no such model: {model} doesn't exist; name a folder or a model hub's owner/name")


def create_config(args: Namespace, kernels: str) -> Any:
    """Resolve the arguments to vLLM's configuration; reads the model's config.json, loads no weights.

    `kernels` is how our LoRA kernels are asked for: part of vLLM's cache keys, so that graphs compiled
    around stock operators are never reused with ours.
    """
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import propagate_flash_late_interaction
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.system_utils import set_ulimit

    set_ulimit()  # each connection is a file descriptor
    args.additional_config = {**(args.additional_config or {}), "lorikeet": fingerprint(kernels)}
    engine_args = AsyncEngineArgs.from_cli_args(args)
    _choose_capture_sizes(engine_args)
    propagate_flash_late_interaction(args, engine_args)
    config = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    scheduler = config.scheduler_config
    if scheduler.max_num_queued_reqs is None:
        scheduler.max_num_queued_reqs = NUM_QUEUED_PER_RUNNING * scheduler.max_num_seqs
    return config


def _choose_capture_sizes(engine_args: Any) -> None:
    """Set the sizes of CUDA graphs, unless the operator has said anything that they depend on."""
    from vllm.platforms import current_platform

    compilation = engine_args.compilation_config
    said = (
        engine_args.cudagraph_capture_sizes,
        engine_args.max_cudagraph_capture_size,
        compilation.cudagraph_capture_sizes,
        compilation.max_cudagraph_capture_size,
        engine_args.speculative_config,  # steps are then multiples of the drafts' length
    )
    balanced = engine_args.performance_mode == "balanced"
    if not current_platform.is_cuda() or not balanced or any(value is not None for value in said):
        return
    ceiling = 1024 if current_platform.is_device_capability_family(100) else 512  # as in vLLM
    engine_args.cudagraph_capture_sizes = capture_sizes(
        engine_args.max_num_seqs, engine_args.max_num_batched_tokens, ceiling
    )


def start_client(args: Namespace, config: Any) -> Any:
    """Start the engine's processes and wait until they can serve. Blocks for the whole start-up."""
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_vllm_config(
        vllm_config=config,
        usage_context=UsageContext.OPENAI_API_SERVER,
        enable_log_requests=args.enable_log_requests,
        aggregate_engine_logging=args.aggregate_engine_logging,
        disable_log_stats=args.disable_log_stats,
    )


async def build_openai_app(engine: Engine, client: Any) -> ASGIApp:
    """Build vLLM's OpenAI application on `client`, without the static adapters: the catalogue has them."""
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.app import build_app

    args = Namespace(**vars(engine.args) | {"lora_modules": None})
    if client.vllm_config.lora_config:
        client.vllm_config.lora_config.default_mm_loras = None
    app: Any = build_app(args, engine.tasks, client.model_config)
    await init_app_state(client, app.state, args, engine.tasks)
    return app  # type: ignore[no-any-return]


async def try_one_token(engine: Engine) -> None:
    """Generate one token, so that ready means that a request works and nobody's first one warms up."""
    if "generate" not in engine.tasks:
        return
    from vllm.sampling_params import SamplingParams

    prompt = {"prompt_token_ids": [0]}
    async for _ in engine.client.generate(prompt, SamplingParams(max_tokens=1), "lorikeet-ready"):
        pass
