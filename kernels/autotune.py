"""FlashInfer's autotune pass in one worker's start: evidence, the ranks' decision, the check afterwards."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lorikeet.kernels import autotune_vllm as vllm_side
from lorikeet.kernels.autotune_decision import Decision, Vote, after_the_pass, decide
from lorikeet.kernels.autotune_memory import Memory, memory_file, recall, remember
from lorikeet.kernels.autotune_vote import all_votes
from lorikeet.kernels.choice_recorder import EVIDENCE, ChoiceRecorder, Period, RecorderOffError
from lorikeet.kernels.flashinfer_scan import committed
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.registry import UNKNOWN, label, names_in_use, tuned_families
from lorikeet.kernels.untuned_choices import UntunedWatch

PASS = "flashinfer_autotune"  # the journal's phase of the pass and of the decision on it
LATE: tuple[Period, ...] = ("warm_up", "capture")
_logger = logging.getLogger("vllm.lorikeet")


class Autotune:
    """What one worker does about the pass.

    `mode` is auto, vllm (never touch it) or operator (a flag was given); `folder` is this start's run folder.
    """

    def __init__(self, worker: Any, mode: str, journal: Journal, folder: Path | None) -> None:
        self.recorder = ChoiceRecorder()
        self.decision: Decision | None = None
        self._worker, self._mode, self._journal, self._folder = worker, mode, journal, folder
        self._vote = Vote(rank=worker.rank)
        self._off = ""
        self._unknown: tuple[str, str] | None = None
        self._memory: Memory | None = None
        self._memory_file: Path | None = None  # None: vLLM's folder can't be written

    def install(self) -> None:
        """Begin to count; call it when the worker has its device. FlashInfer is imported here, if used."""
        self._off = vllm_side.why_off(self._worker.vllm_config, self._mode)
        if self._off and self._off != "optimization_level":
            return
        try:
            self.recorder.install(*vllm_side.autotuner())
        except RecorderOffError as exc:
            self._unknown = exc.reason, str(exc)
        except Exception as exc:  # a FlashInfer that doesn't import: vLLM decides what that means
            self._unknown = "flashinfer_signature", f"{type(exc).__name__}: {exc}"

    def decide(self) -> None:
        """Decide with the other ranks, and switch vLLM's pass off where it has nothing to do."""
        self._vote = self._make_vote()
        group, size = vllm_side.ranks()
        self.decision = decide(all_votes(self._vote, group, size))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """vLLM's warm-up with the decision in force, its pass timed and its calls counted."""
        assert self.decision is not None
        kernels = self._worker.vllm_config.kernel_config
        flag = kernels.enable_flashinfer_autotune
        if self.decision.runs is False:
            kernels.enable_flashinfer_autotune = False
        try:
            with self.recorder.during("warm_up"), vllm_side.watched_pass(self._off, self._around_pass):
                yield
        finally:
            kernels.enable_flashinfer_autotune = flag

    def finish(self) -> None:
        """Compare what capture reached with the evidence, remember it, and say what was decided."""
        assert self.decision is not None
        num_tuned, num_loaded = vllm_side.num_measured() if self.decision.runs else (0, 0)
        decision = self.decision = after_the_pass(self.decision, num_tuned, num_loaded)
        missed = self._missed() if decision.outcome == "skipped" else []
        self._remember(missed)
        self._journal.write(
            "decision",
            PASS,
            outcome=decision.outcome,
            reason=decision.reason,
            text=decision.text,
            operators=self._operators(),
            families=list(self._vote.families),
            tuned=num_tuned,
            loaded=num_loaded,
            missed=missed,
        )
        if self._worker.rank == 0:
            _logger.info("%s. %d shapes measured, %d loaded.", decision.text, num_tuned, num_loaded)
        if missed:
            _logger.warning("graph capture reached %s, not seen before: the next start tunes", missed)
        self.recorder.serve()
        self._watch_serving(decision)

    def _watch_serving(self, decision: Decision) -> None:
        """Report untuned choices from now on; where the pass was left out, the next start then tunes."""
        if self._unknown is None and not self._off:
            on_new = self._mark if decision.outcome == "skipped" else None
            UntunedWatch(self._folder, self._worker.rank, self.recorder, on_new).start()

    @contextmanager
    def _around_pass(self) -> Iterator[None]:
        with self._journal.phase(PASS), self.recorder.during("tuning"):
            yield

    def _make_vote(self) -> Vote:
        """What this rank knows. Whatever goes wrong here is a vote for vLLM's own way, with a reason."""
        worker, rank = self._worker, self._worker.rank
        flag = worker.vllm_config.kernel_config.enable_flashinfer_autotune
        if self._mode == "operator":
            return Vote(rank, operator=bool(flag), families=self._families())
        if self._off:
            return Vote(rank, off=self._off, families=self._families())
        if self._unknown:
            return Vote(rank, unknown=self._unknown[0], explanation=self._unknown[1])
        try:
            facts = vllm_side.facts(worker)
            folder = vllm_side.writable_folder(worker)
            self._memory_file = folder and memory_file(folder, rank)
            memory = self._memory = recall(self._memory_file, committed().version)
            return Vote(
                rank,
                architecture=facts.architecture,
                special=facts.special,
                expected=tuple(family.name for family in tuned_families(facts)),
                seen=tuple(sorted(self.recorder.asked(*EVIDENCE))),
                captured="graph_profile" in self.recorder.periods,
                proven=memory.clean,
                marked=memory.mark,
                cache=vllm_side.checked_cache(worker, folder),
                families=tuple(names_in_use(facts)),
            )
        except Exception as exc:  # not knowing must not stop the start, nor change what vLLM does
            return Vote(rank, unknown="vllm_changed", explanation=f"{type(exc).__name__}: {exc}")

    def _families(self) -> tuple[str, ...]:
        """For the report alone."""
        try:
            return tuple(names_in_use(vllm_side.facts(self._worker)))
        except (AttributeError, ImportError) as exc:
            _logger.warning("kernel families are not known: %s: %s", type(exc).__name__, exc)
            return ()

    def _missed(self) -> list[str]:
        return sorted(self.recorder.asked(*LATE) - self.recorder.asked(*EVIDENCE))

    def _remember(self, missed: list[str]) -> None:
        if self._memory is None:
            return
        all_captured = "capture" in self.recorder.periods
        asked = self.recorder.asked(*EVIDENCE, "tuning", *LATE)
        kept = set(self._memory.needs_autotune) | set(missed)
        memory = Memory(self._memory.flashinfer, tuple(sorted(kept)), clean=all_captured and not asked)
        if memory != self._memory:
            self._keep(memory)

    def _mark(self, operators: list[str]) -> None:
        """Called while serving: the next start of this configuration tunes."""
        if self._memory is not None:
            marks = tuple(sorted({*self._memory.needs_autotune, *operators}))
            self._keep(Memory(self._memory.flashinfer, marks))

    def _keep(self, memory: Memory) -> None:
        self._memory = memory
        if self._memory_file is not None:
            remember(self._memory_file, memory)

    def _operators(self) -> dict[str, dict[str, int]]:
        """Calls by period and operator, for metrics: names that no family has are one."""
        found: dict[str, dict[str, int]] = {}
        asked = {operator for counts in self.recorder.periods.values() for operator in counts.asked}
        if unknown := sorted(operator for operator in asked if label(operator) == UNKNOWN):
            _logger.warning(
                "operators that the registry doesn't know ask FlashInfer's autotuner: %s", unknown
            )
        for period, counts in self.recorder.periods.items():
            for operator, calls in counts.asked.items():
                name = label(operator)
                calls_of = found.setdefault(period, {})
                calls_of[name] = calls_of.get(name, 0) + calls
        return found
