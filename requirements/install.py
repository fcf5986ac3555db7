#!/usr/bin/env python3
"""Make `.venv` hold one of the pinned sets: requirements/install.py cpu|gpu|test [--packages].

Runs on any Python 3.11 or later with nothing installed. It installs with uv, which downloads in parallel,
and reads pip's settings (index, wheel folders, certificate, proxy) for it. Extra indexes are left out:
one that can't be reached costs seconds for each package. Only torch's CPU build may need one, which uv
knows by itself. A set that is in place already is left alone, in about 0.1 s. With --packages Lorikeet
itself is left out: images install its wheel.
"""

import ast
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = "uv==0.13.9"
TORCH_CPU = "torch==2.13.0+cpu"
SETS = {"cpu": "cpu.txt", "gpu": "gpu.txt", "test": "test.txt"}
# pip's setting → the variable that means the same to uv.
UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}


def main() -> None:
    name, *options = sys.argv[1:] or [""]
    if name not in SETS or options not in ([], ["--packages"]):
        sys.exit(f"usage: install.py {'|'.join(SETS)} [--packages]")
    lock = ROOT / "requirements" / SETS[name]
    stamp = VENV / f".lorikeet-{name}"
    ours = [] if options else [ROOT / "pyproject.toml"]
    wanted = digest(lock, Path(__file__), *ours)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing the {name} set into .venv: several minutes the first time, 3 GB (gpu: 10 GB)")
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", str(VENV))
    pip = pip_settings()
    run(str(PYTHON), "-m", "pip", "install", "--quiet", UV, env=pip_environment(pip))
    uv_environment = environment(pip)
    uv_install("--no-deps", "--require-hashes", "-r", str(lock), env=uv_environment)
    if name != "gpu":
        install_cpu_torch(uv_environment)
    if ours:
        uv_install("--no-deps", "-e", str(ROOT), env=uv_environment)
    stamp.write_text(wanted)


def install_cpu_torch(env: dict[str, str]) -> None:
    """From the wheel folders or the index that pip is set to use, else from PyTorch's own CPU index."""
    try:
        uv_install("--no-deps", TORCH_CPU, env=env, quietly=True)
    except subprocess.CalledProcessError:
        uv_install("--no-deps", "--torch-backend", "cpu", TORCH_CPU, env=env)


def uv_install(*arguments: str, env: dict[str, str], quietly: bool = False) -> None:
    uv = str(VENV / "bin" / "uv")
    # Compiled now, since every process of every start imports thousands of these files.
    command = (uv, "pip", "install", "--compile-bytecode", "--python", str(PYTHON), *arguments)
    run(*command, env=env, stderr=subprocess.DEVNULL if quietly else None)


def pip_settings() -> dict[str, str]:
    """pip's settings as `pip config list` joins them from its files and the environment, later ones last."""
    listed = subprocess.run(
        [str(PYTHON), "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = {}
    for line in listed.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            settings[key.rpartition(".")[2]] = str(ast.literal_eval(value)).strip()
    return settings


def pip_environment(settings: dict[str, str]) -> dict[str, str]:
    """An environment in which pip keeps `settings` but looks at no extra index."""
    env = {name: value for name, value in os.environ.items() if name != "PIP_EXTRA_INDEX_URL"}
    kept = {f"PIP_{key.replace('-', '_').upper()}": settings[key] for key in UV_VARIABLES if key in settings}
    return env | {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | kept


def environment(settings: dict[str, str]) -> dict[str, str]:
    """An environment in which uv uses the same index, folders, certificate and proxy as pip does."""
    env = dict(os.environ)
    for key, variable in UV_VARIABLES.items():
        if key in settings:
            env.setdefault(variable, ",".join(settings[key].split()))
    for variable in ("UV_EXTRA_INDEX_URL", "UV_INDEX"):
        env.pop(variable, None)
    return env | {"UV_LINK_MODE": env.get("UV_LINK_MODE", "copy"), "UV_HTTP_TIMEOUT": "120"}


def digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def run(*command: str, env: dict[str, str] | None = None, stderr: int | None = None) -> None:
    subprocess.run(command, env=env, stderr=stderr, check=True)


def say(text: str) -> None:
    print(f"install: {text}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as exc:
        sys.exit(f"install: `{' '.join(map(str, exc.cmd[:6]))} …` failed with exit code {exc.returncode}")
