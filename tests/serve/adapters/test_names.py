import pytest

from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.names import check_name


@pytest.mark.parametrize("name", ["legal", "legal-v2.1", "ft:base:me", "A_b", "7", "x" * 96])
def test_these_are_names(name):
    check_name(name, {"base"})


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "a b", "-a", ".x", "x" * 97, "é", "a\n", "a\0", "a%2fb", "base", "image"],
)  # fmt: skip
def test_these_are_not_and_the_answer_is_one_short_line(name):
    with pytest.raises(AdapterRefusedError) as caught:
        check_name(name, {"base"})
    assert caught.value.reason == "name"
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
