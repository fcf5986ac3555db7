import pytest
from bad_adapters import CASES, GOOD, make

from lorikeet.serve.adapters.check_command import check_command
from lorikeet.serve.errors import LorikeetError


def test_a_sound_adapter_prints_its_report_and_exits_0(model_dir, capsys):
    assert check_command([str(GOOD), str(model_dir)]) == 0
    assert "'json' can be served" in capsys.readouterr().out


def test_a_bad_one_prints_why_and_exits_1(model_dir, tmp_path, capsys):
    case = next(case for case in CASES if case.name == "not-a-number")
    assert check_command([str(make(case, tmp_path)), str(model_dir)]) == 1
    text = capsys.readouterr().out
    assert "refused (values)" in text
    assert "NaN" in text


def test_the_rank_limit_can_be_named(model_dir, capsys):
    assert check_command([str(GOOD), str(model_dir), "--max-lora-rank", "2"]) == 1
    assert "limit of 2" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["/no/such/adapter"], [str(GOOD), "/no/such/model"]])
def test_what_is_not_there_is_said_in_one_line(argv):
    with pytest.raises(LorikeetError, match="/no/such/"):
        check_command(argv)
