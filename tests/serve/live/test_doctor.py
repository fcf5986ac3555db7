"""`lorikeet doctor` on the demo model, with a good adapter and a broken one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import bad_adapters


def doctor(*arguments: str, cache: Path, **environment: str) -> tuple[int, dict[str, dict]]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LORIKEET_", "VLLM_"))}
    env |= {"LORIKEET_CACHE_DIR": str(cache), "HF_HUB_OFFLINE": "1", **environment}
    command = [str(Path(sys.executable).with_name("lorikeet")), "doctor", *arguments, "--json"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert ran.stdout.startswith("{"), ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    assert report["ok"] is (ran.returncode == 0)
    return ran.returncode, {finding["subject"]: finding for finding in report["findings"]}


def test_a_broken_adapter_fails_and_a_good_one_does_not(model_dir: Path, tmp_path: Path) -> None:
    (watched := tmp_path / "watched").mkdir()
    bad = bad_adapters.make(next(c for c in bad_adapters.CASES if c.name == "not-a-number"), watched)
    code, said = doctor(
        *(str(model_dir), "--lora-modules", f"json={bad_adapters.GOOD}", f"bad name={bad_adapters.GOOD}"),
        cache=tmp_path / "cache",
        LORIKEET_ADAPTERS=str(watched),
    )
    assert code == 1
    assert said["adapter json"]["verdict"] == "ok"
    assert said[f"adapter {bad.name}"]["verdict"] == "fails"
    assert "NaN or infinity" in said[f"adapter {bad.name}"]["text"]
    assert "choose another" in said["adapter bad name"]["text"]
    assert said["model"]["details"]["architecture"] == "LlamaForCausalLM"
    assert said["kept"]["details"] == {"startup_plan": False, "autotune": False, "compiled_models": 0}


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    code, said = doctor("/no/such/model", cache=tmp_path)
    assert code == 1
    assert "name a folder" in said["model"]["text"]


def test_an_argument_that_vllm_refuses(model_dir: Path, tmp_path: Path) -> None:
    code, said = doctor(str(model_dir), "--no-such-argument", cache=tmp_path)
    assert code == 1
    assert "--no-such-argument" in said["model"]["text"]
