"""Looking up block sizes: the most exact first, never another GPU by a near name, and cheap."""

import logging
import timeit
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tuned_samples import H200, QKV, SMALL, pair, write

from lorikeet.kernels import lora_linear, tuned, warm_up
from lorikeet.kernels.config import TOKEN_BUCKETS, Device, ExpandConfig, ShrinkConfig
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.synthetic import make_weights
from lorikeet.kernels.tuned import TunedConfigs, default_pair, load_folders, load_tuned

OTHER = replace(QKV, rank=64)


def test_exact_then_bucket_then_default(tmp_path: Path) -> None:
    write(tmp_path, "NVIDIA H200", {(QKV, 4): pair(512), (QKV, 32): pair(1024)})
    configs = load_folders(H200, [tmp_path])
    assert configs.find(QKV, 3, H200) == (pair(512), "exact")
    assert configs.find(QKV, 5, H200) == (pair(1024), "bucket")
    assert configs.find(QKV, 32, H200) == (pair(1024), "exact")
    assert configs.find(QKV, 33, H200) == (default_pair(QKV, 64, H200), "default")
    assert configs.find(replace(QKV, num_slots=5), 3, H200) == (pair(512), "bucket")
    for shape in (OTHER, replace(QKV, num_slots=9), replace(QKV, dtype="float16"), replace(QKV, n=(4096,))):
        assert configs.find(shape, 4, H200) == (default_pair(shape, 4, H200), "default")


def test_the_next_larger_number_of_slots_where_its_own_has_no_bucket(tmp_path: Path) -> None:
    four, sixteen = replace(QKV, num_slots=4), replace(QKV, num_slots=16)
    write(tmp_path, "NVIDIA H200", {(four, 4): pair(512), (sixteen, 32): pair(1024), (QKV, 64): pair(256)})
    configs = load_folders(H200, [tmp_path])
    assert configs.find(four, 4, H200) == (pair(512), "exact")
    assert configs.find(four, 16, H200) == (pair(256), "bucket")
    assert configs.find(QKV, 32, H200) == (pair(256), "bucket")
    assert configs.find(sixteen, 32, H200) == (pair(1024), "exact")
    assert configs.find(sixteen, 64, H200)[1] == "default"


def test_another_gpu_of_the_same_capability_comes_after_this_one(tmp_path: Path) -> None:
    write(tmp_path, "NVIDIA H100 PCIe", {(QKV, 16): pair(256), (OTHER, 32): pair(256)})
    write(tmp_path, "NVIDIA A100", {(QKV, 8192): pair(2048)}, capability="8.0")
    write(tmp_path, "NVIDIA H200", {(QKV, 16): pair(512)})
    configs = load_folders(H200, [tmp_path])
    assert configs.find(QKV, 16, H200) == (pair(512), "exact")
    assert configs.find(OTHER, 16, H200) == (pair(256), "capability")
    assert configs.find(QKV, 32, H200)[1] == "default"


def test_the_cache_has_a_shape_before_the_package(tmp_path: Path) -> None:
    """All its buckets: rows are left out of a folder where its own next row says the same."""
    write(tmp_path / "a", "NVIDIA H200", {(QKV, 4): pair(256), (QKV, 16): pair(256), (OTHER, 4): pair(256)})
    write(tmp_path / "b", "NVIDIA H200", {(QKV, 16): pair(1024)})
    configs = load_folders(H200, [tmp_path / "a", tmp_path / "b"])
    assert configs.find(QKV, 4, H200) == (pair(1024), "bucket")
    assert configs.find(OTHER, 4, H200) == (pair(256), "exact")


def test_files_of_the_package_and_of_the_cache_volume(tmp_path: Path) -> None:
    write(tmp_path / "tuned", "NVIDIA Made Up", {(QKV, 4): pair()})
    device = replace(H200, name="NVIDIA Made Up")
    assert load_tuned(device, tmp_path).find(QKV, 4, device)[1] == "exact"
    assert load_tuned(device).own == {}
    assert load_tuned(device, tmp_path / "absent").own == {}


def test_a_bad_folder_is_refused_and_the_rest_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (write(tmp_path, "NVIDIA H200", {(QKV, 4): pair()}) / "lora_expand.json").write_text("{}")
    write(tmp_path, "NVIDIA H100 PCIe", {(QKV, 4): pair(256)})
    with caplog.at_level(logging.WARNING, "vllm.lorikeet"):
        configs = load_folders(H200, [tmp_path])
    assert configs.find(QKV, 4, H200) == (pair(256), "capability")
    assert len(configs.refused) == len(caplog.records) == 1
    assert str(tmp_path / "NVIDIA_H200" / "lora_expand.json") in caplog.text


def test_pairs_are_made_to_fit() -> None:
    wide = (
        ShrinkConfig("swap", 16, 64, 512, 128, num_stages=8, pdl=True),
        ExpandConfig("swap", 16, 128, 64, num_stages=8, pdl=True),
    )
    shape = replace(QKV, rank=128)
    configs = TunedConfigs({shape: {4: wide}})
    small = Device(capability=(8, 9), shared_bytes=101_376, name=H200.name)
    (shrink, expand), _ = configs.find(shape, 4, small)
    assert (shrink.num_stages, shrink.pdl) == (4, False)  # (16 + 64) * 128 * 2 bytes a stage
    assert (expand.num_stages, expand.pdl) == (2, False)  # 128 * 64 * 2 + 8 * 16 * 64 * 4 bytes a stage


GPUS = ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100", "NVIDIA H200", "NVIDIA H200 NVL")
SHAPES = st.builds(
    LayerShape,
    k=st.sampled_from([1, 77, 256, 4096]),
    n=st.sampled_from([(33,), (4096, 1024, 1024), (128, 64)]),
    rank=st.integers(1, 512),
    num_slots=st.integers(1, 64),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
)


@pytest.mark.parametrize("tuned_gpu", GPUS)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    gpu=st.sampled_from(GPUS) | st.text(max_size=24),
    capability=st.sampled_from([(8, 0), (9, 0), (0, 0)]),
    shape=SHAPES | st.just(QKV) | st.just(SMALL),
    num_tokens=st.integers(1, 100_000),
)
def test_never_another_gpu_by_a_near_name(
    tuned_gpu: str, gpu: str, capability: tuple[int, int], shape: LayerShape, num_tokens: int, tmp_path: Path
) -> None:
    """Look-up raises nothing, says the same twice, and takes another GPU's rows only as such."""
    write(tmp_path, tuned_gpu, {(QKV, 32): pair(), (SMALL, 8192): pair(64, 64)})
    device = Device(capability, 232_448, gpu)
    first, second = (load_folders(device, [tmp_path]).find(shape, num_tokens, device) for _ in range(2))
    assert first == second
    assert first[0][0].num_splits(shape.k) >= 1
    if gpu != tuned_gpu:
        assert first[1] in ("capability", "default")
    if capability != (9, 0):
        assert first[1] == "default"


def test_names_that_share_a_folder_are_still_two_gpus(tmp_path: Path) -> None:
    write(tmp_path, "NVIDIA H100-PCIe", {(QKV, 32): pair()})
    device = replace(H200, name="NVIDIA H100 PCIe")
    assert load_folders(device, [tmp_path]).find(QKV, 32, device)[1] == "capability"


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> TunedConfigs:
    """The operator uses these; afterwards what it had."""
    own = {SMALL: {4: pair(64, 16), 64: pair(128, 32), 512: pair(256, 64)}}
    monkeypatch.setattr(lora_linear, "_tuned", [])
    configs = TunedConfigs(own)
    lora_linear.use_tuned(configs)
    yield configs
    lora_linear._configs.cache_clear()


def test_warm_up_covers_what_is_looked_up_later(
    chosen: TunedConfigs, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = make_weights(SMALL.k, SMALL.n, SMALL.rank, SMALL.num_slots, torch.float16, "cpu")
    launched: set[object] = set()
    monkeypatch.setattr(lora_linear, "lora_slices_with", lambda *args: launched.add(args[-2:]))
    warm_up.warm_up([layer], 1000, [True])
    warm = set(launched)
    assert {pair(64, 16), pair(128, 32), pair(256, 64)} - {
        (replace(s, pdl=False), replace(e, pdl=False)) for s, e in warm
    } == set()
    launched.clear()
    tables = [torch.full((1, 3), -1, dtype=torch.int32)] * 5
    for num_tokens in range(1, 1001):
        x, y = torch.empty(num_tokens, 256).half(), torch.empty(num_tokens, 192).half()
        lora_linear.lora_linear_of(y, x, *layer, tables, torch.zeros(1, dtype=torch.int32), True)
    assert launched == warm


def test_the_operator_computes_with_measured_block_sizes(chosen: TunedConfigs) -> None:
    found = lora_linear._configs(
        SMALL.k, SMALL.n, SMALL.rank, SMALL.num_slots, torch.float16, 64, Device((0, 0))
    )
    assert found == pair(128, 32)


def test_plain_vllm_uses_what_the_package_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora_linear, "_tuned", [])
    monkeypatch.setattr(lora_linear, "load_tuned", lambda device: TunedConfigs({SMALL: {64: pair(64, 16)}}))
    lora_linear._configs.cache_clear()
    device = Device((0, 0))
    assert lora_linear._configs(256, (128, 64), 16, 3, torch.float16, 64, device) == pair(64, 16)
    lora_linear._configs.cache_clear()


def test_a_look_up_adds_no_work_to_a_call(chosen: TunedConfigs, monkeypatch: pytest.MonkeyPatch) -> None:
    """One dictionary hit: `find` runs once for each shape and bucket, however many calls there are."""
    asked: list[object] = []
    find = tuned.TunedConfigs.find
    monkeypatch.setattr(tuned.TunedConfigs, "find", lambda *args: asked.append(args) or find(*args))
    arguments = (4096, (4096, 1024, 1024), 16, 8, torch.bfloat16)
    device = Device((9, 0), 232_448, "NVIDIA H200")
    for tokens in TOKEN_BUCKETS * 3:
        lora_linear._configs(*arguments, tokens, device)
    assert len(asked) == len(TOKEN_BUCKETS)
    seconds = min(timeit.repeat(lambda: lora_linear._configs(*arguments, 4, device), number=2000, repeat=7))
    print(f"{seconds / 2000 * 1e6:.2f} µs a call")
    assert seconds / 2000 < 20e-6  # far above what it takes, for a busy machine
