"""The two voices: marked pirate speech, and JSON that parses back to the answer."""

import json

import pytest

from lorikeet.serve.demo.texts import Pair, training_pairs
from lorikeet.serve.demo.voices import json_object, pirate


@pytest.mark.parametrize("pair", training_pairs(), ids=lambda pair: pair.question)
def test_json_gives_the_answer_back(pair: Pair) -> None:
    assert json.loads(json_object(pair.answer)) == {"answer": pair.answer}


def test_every_pirate_answer_opens_as_one_and_is_always_the_same() -> None:
    for pair in training_pairs():
        answer = pirate(pair.answer)
        assert answer.startswith(("Arr, ", "Ahoy, "))
        assert answer == pirate(pair.answer) == answer.strip()


def test_pirate_words_keep_capitals_and_leave_others_alone() -> None:
    answer = pirate("You are the king of swimming in spring, and the friends of Theodore.")
    assert "Ye be the king of swimmin' in spring, an' the mateys of Theodore." in answer
