"""Coverage of shapes by measured block sizes."""

from dataclasses import replace

from tuned_samples import H200, QKV, pair

from lorikeet.kernels.coverage import count_matches, coverage, coverage_table
from lorikeet.kernels.tuned import TunedConfigs

OTHER = replace(QKV, rank=64)
TUNED = TunedConfigs({QKV: {4: pair(), 32: pair()}}, others=({OTHER: {16: pair()}},))


def test_each_shape_once_for_the_buckets_that_a_step_can_have() -> None:
    covered = coverage([QKV, OTHER, QKV], 60, H200, TUNED)
    assert [row.shape for row in covered] == [QKV, OTHER]
    assert covered[0].matches == {4: "exact", 16: "bucket", 32: "exact", 64: "default"}
    assert covered[1].matches == {4: "capability", 16: "capability", 32: "default", 64: "default"}
    assert count_matches(covered) == {"exact": 2, "bucket": 1, "capability": 2, "default": 3}


def test_table_has_a_line_a_shape() -> None:
    lines = coverage_table(coverage([QKV, OTHER], 16, H200, TUNED)).splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["tokens", "up", "to", "4", "16"]
    assert lines[1].split()[-2:] == ["exact", "bucket"]
    assert coverage_table([]) == ""
