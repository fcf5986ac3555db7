"""The training texts: well-formed, without repeats, and apart from the held-out questions."""

from lorikeet.serve.demo.texts import HELD_OUT, training_pairs


def test_every_pair_is_whole() -> None:
    pairs = training_pairs()
    assert len(pairs) >= 100
    for pair in pairs:
        assert pair.question == pair.question.strip() != ""
        assert pair.answer[-1] in ".?!"
        assert pair.answer[0].isupper() or pair.answer[0].isdigit()


def test_no_question_is_asked_twice() -> None:
    questions = [_plain(pair.question) for pair in training_pairs()]
    assert len(set(questions)) == len(questions)


def test_held_out_questions_are_held_out() -> None:
    questions = {_plain(pair.question) for pair in training_pairs()}
    assert len(set(map(_plain, HELD_OUT))) == len(HELD_OUT) >= 8
    assert questions.isdisjoint(map(_plain, HELD_OUT))


def test_held_out_answers_are_not_given_away() -> None:
    text = " ".join(pair.answer for pair in training_pairs())
    assert [word for word in ("Paris", "Pacific", "Romeo", "spider", "photosynthesis") if word in text] == []


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
