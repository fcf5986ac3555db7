"""The command line: `lorikeet serve MODEL [any vllm serve argument]` and `lorikeet demo [the same]`."""

import os
import sys
import tempfile
import traceback
from pathlib import Path

from lorikeet.serve.adapters.check_command import check_command
from lorikeet.serve.caches import usable_folder
from lorikeet.serve.demo.arguments import demo_arguments
from lorikeet.serve.doctor.command import doctor_command
from lorikeet.serve.engine import check_model_path, parse_arguments
from lorikeet.serve.engine_defaults import set_environment
from lorikeet.serve.errors import LorikeetError
from lorikeet.serve.launch import Launch
from lorikeet.serve.listen import bind, read_address
from lorikeet.serve.settings import read_settings
from lorikeet.serve.timeline import process_start_mono
from lorikeet.serve.tune_command import tune_command
from lorikeet.serve.writable import check_run_dir

USAGE = """usage: lorikeet serve MODEL [any vllm serve argument] [--debug]
       lorikeet demo [any vllm serve argument] [--debug]
       lorikeet check ADAPTER [MODEL] [--max-lora-rank N]
       lorikeet doctor [MODEL [any vllm serve argument]] [--json]
       lorikeet tune MODEL [--ranks N,…] [--slots N,…] [--seconds S]

serve    serve MODEL, a folder or a model hub's name, on --host and --port (8000)
demo     serve SmolLM2-135M-Instruct with two adapters, `pirate` and `json`
check    say whether the adapter in a folder can be served on MODEL; exit code 0 if it can, 1 if not
doctor   say what a start would find and decide on this machine, without one; exit code 1 if it would fail
tune     measure the LoRA kernels' block sizes for a model on this machine's GPU; `lorikeet tune --help`

`lorikeet serve --help` lists vLLM's arguments; LORIKEET_* settings are in docs/settings.md.
"""


def main() -> None:
    """Entry point of the console script."""
    command, *argv = sys.argv[1:] or ["--help"]
    try:
        if command in ("serve", "demo"):
            sys.exit(_serve(command, argv))
        if command == "doctor":
            sys.exit(doctor_command(argv))
        if command == "check":
            sys.exit(check_command(argv))
        if command == "tune":
            sys.exit(tune_command(argv))
        print(USAGE, end="", file=sys.stdout if command in ("-h", "--help") else sys.stderr)
        sys.exit(0 if command in ("-h", "--help") else 2)
    except LorikeetError as exc:
        print(f"lorikeet: {exc}", file=sys.stderr)
        sys.exit(1)


def _serve(command: str, argv: list[str]) -> int:
    start_mono = process_start_mono()
    if "--debug" in argv:
        argv.remove("--debug")
        os.environ["LORIKEET_DEBUG"] = "1"
    settings = read_settings()
    caches = usable_folder(settings.cache_dir, chosen="cache_dir" in settings.model_fields_set)
    settings = settings.model_copy(update={"cache_dir": caches})
    set_environment(os.environ, caches)
    if {"-h", "--help"} & set(argv) or any(argument.startswith("--help=") for argument in argv):
        parse_arguments(argv)  # prints, and exits
    if command == "serve" and argv and not argv[0].startswith("-"):
        check_model_path(argv[0])  # before the seconds that vLLM's import takes
    check_run_dir(settings.run_dir)
    address = read_address(argv)

    def arguments() -> list[str]:
        """vLLM's arguments; called after the socket answers, since the demo's model takes a while to make."""
        return [*demo_arguments(settings.cache_dir), *argv] if command == "demo" else argv

    with bind(address) as sock, tempfile.TemporaryDirectory(prefix="start-", dir=settings.run_dir) as folder:
        os.environ["LORIKEET_RUN_DIR"] = folder  # where this start's processes write their journals
        os.environ["LORIKEET_CACHE_DIR"] = str(settings.cache_dir)
        launch = Launch(arguments, settings, Path(folder), start_mono, address, sock)
        code = _run(launch)
    sys.stdout.flush()
    sys.stderr.flush()
    # A start that was cut short leaves a thread inside vLLM, which an ordinary exit would wait for.
    os._exit(code)


def _run(launch: Launch) -> int:
    # FastAPI takes a second to import: the socket listens by now, and holds what comes meanwhile.
    import uvloop

    from lorikeet.serve.log import set_up_logging
    from lorikeet.serve.processes import kill_descendants
    from lorikeet.serve.server import Server

    set_up_logging(launch.settings.access_log)
    try:
        return uvloop.run(Server(launch).run())
    except LorikeetError as exc:
        if launch.settings.debug:
            traceback.print_exc()
        print(f"lorikeet: {exc}", file=sys.stderr)
        return 1
    finally:
        if num_left := kill_descendants():
            print(f"lorikeet: ended {num_left} processes of the engine", file=sys.stderr)
