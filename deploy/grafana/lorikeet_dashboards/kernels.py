"""Panels of which kernels run, why, and how well they are tuned."""

from lorikeet_dashboards.panels import RED, YELLOW, AnyPanel, bars, facts, latest, lines, number, query
from lorikeet_dashboards.selectors import HERE

GPU_ONLY = "GPU only."  # in the meaning of a panel that has no data elsewhere


def kernels() -> list[AnyPanel]:
    lookups = f"sum by (op, match) (lorikeet_lora_config_lookups_total{{{HERE}}})"
    return [
        facts(
            "LoRA operator",
            "Ours (lorikeet) or vLLM's own, and why. Reason `capability`: no GPU that ours can use.",
            "none",
            f"max by (instance, op, implementation, reason) (lorikeet_lora_kernel{{{HERE}}} == 1)",
            "Value",
            width=12,
        ),
        number(
            "Calls before ready",
            "How often vLLM ran our operator while it started; 0 where its own is in use.",
            "none",
            [latest(f"sum(lorikeet_lora_kernel_calls_total{{{HERE}}})")],
        ),
        number(
            "Broken seams",
            f"Places of vLLM that are not as our kernels expect. {GPU_ONLY}",
            "none",
            [latest(f"sum(lorikeet_kernel_seam_ok{{{HERE}}} == bool 0)")],
            (1, RED),
        ),
        number(
            "Tuned folders refused",
            f"Folders of measured block sizes that could not be used; the log says why. {GPU_ONLY}",
            "none",
            [latest(f"sum(lorikeet_lora_config_folders_refused{{{HERE}}})")],
            (1, YELLOW),
        ),
        bars(
            "Block sizes by how they were found",
            "exact: measured for this GPU, shape and number of tokens; bucket: for more tokens; "
            f"capability: on another GPU of the same kind; default: never measured. {GPU_ONLY}",
            "none",
            [latest(lookups, "{{op}}: {{match}}")],
            width=12,
        ),
        facts(
            "FlashInfer's autotune pass",
            "What was decided for this start, and why; the status page says it in words.",
            "none",
            f"max by (instance, decision, reason) (lorikeet_flashinfer_autotune{{{HERE}}} == 1)",
            "Value",
            width=12,
        ),
        number(
            "Autotune took",
            "Time of FlashInfer's pass in the last start; 0 where it did not run.",
            "s",
            [latest(f"max by (instance) (lorikeet_flashinfer_autotune_seconds{{{HERE}}})", "{{instance}}")],
            width=12,
        ),
        bars(
            "Tunable operators seen while starting",
            f"Calls of FlashInfer's autotuner before ready, by operator and when. {GPU_ONLY}",
            "none",
            [
                latest(
                    f"sum by (op, evidence) (lorikeet_flashinfer_tunable_ops{{{HERE}}})",
                    "{{op}}: {{evidence}}",
                )
            ],
            width=12,
        ),
        lines(
            "Untuned choices while serving",
            f"How often an operator ran untuned since the start. The next start tunes it. {GPU_ONLY}",
            "none",
            [query(f"sum by (op) (lorikeet_flashinfer_untuned_choices_total{{{HERE}}})", "{{op}}")],
            (1, YELLOW),
            width=12,
        ),
    ]
