"""What our layers add to vLLM's GPU image, built on a stand-in: an image with vLLM's packages and pip."""

import subprocess
from collections.abc import Iterator

import pytest
from docker_cli import ROOT, builder, docker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

STAND_IN = "lorikeet-test:vllm"
IMAGE = "lorikeet-test:gpu"
MAX_ADDED_BYTES = 60e6
# vLLM's own packages, as its image has them; of ours, nothing.
DOCKERFILE = """
FROM {cpu_image}
USER 0
RUN python3 -m ensurepip && python3 -m pip uninstall --yes lorikeet-serve && rm -r /cache /usr/bin/tini
ENTRYPOINT ["vllm", "serve"]
"""


@pytest.fixture(scope="module")
def gpu_image(cpu_image: str) -> Iterator[str]:
    subprocess.run(
        ["docker", "build", "--tag", STAND_IN, "-"],
        input=DOCKERFILE.format(cpu_image=cpu_image), text=True, check=True,
        env=builder(), capture_output=True,
    )  # fmt: skip
    build = ("build", "--network", "host", "--build-arg", f"BASE_IMAGE={STAND_IN}", "--tag", IMAGE, str(ROOT))
    docker(*build, timeout=900)
    yield IMAGE
    docker("rmi", "--force", IMAGE, STAND_IN)


def test_our_layers_are_small(gpu_image: str) -> None:
    base, ours = (int(docker("inspect", "--format", "{{.Size}}", image)) for image in (STAND_IN, gpu_image))
    print(f"our layers add {(ours - base) / 1e6:.1f} MB")
    assert 0 < ours - base < MAX_ADDED_BYTES


def test_lorikeet_is_what_it_runs(gpu_image: str) -> None:
    shown = docker("run", "--rm", "--network", "none", "--read-only", gpu_image)
    assert "lorikeet serve MODEL" in shown


def test_every_module_is_in_it(gpu_image: str) -> None:
    """The wheel names its packages one by one."""
    code = "import lorikeet.serve as s, pathlib; print(*pathlib.Path(s.__file__).parents[1].rglob('*.py'))"
    shown = docker("run", "--rm", "--entrypoint", "python3", gpu_image, "-c", code)
    installed = {path.rpartition("/lorikeet/")[2] for path in shown.split()}
    sources = {
        str(path.relative_to(ROOT))
        for folder in ("serve", "kernels", "tuned_configs")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert installed == sources
