"""A start with damaged caches: ready all the same, with one warning, and the entries made anew."""

import json
from pathlib import Path

MODEL_INFO = "vllm/modelinfos/vllm-model_executor-models-llama-LlamaForCausalLM.json"
DAMAGED = {
    MODEL_INFO: '{"hash": "',
    "vllm/startup_plan/startup_plan_0123456789abcdef.json": "[]",
    "triton/ABCDEF/kernel.json": '{"name',
    "triton/ABCDEF/kernel.cubin": "",
}


def test_a_start_with_damaged_caches(launch, model_dir: Path, tmp_path: Path) -> None:
    for name, content in DAMAGED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    server = launch(
        *("serve", str(model_dir), "--max-model-len", "512", "--kv-cache-memory-bytes", str(2**29)),
        LORIKEET_CACHE_DIR=str(tmp_path),
    )
    server.wait_until_ready()
    log = server.log.read_text()
    assert log.count("damaged cache entries") == 1
    assert "removed 3 damaged cache entries" in log
    assert json.loads((tmp_path / MODEL_INFO).read_text())["hash"]
    assert not (tmp_path / "triton/ABCDEF").exists()
    server.stop()
