from lorikeet.serve.keys import Key
from lorikeet.serve.rates import Rates

KEY = Key("team", "0" * 64, requests_per_minute=6)


def test_a_minutes_worth_at_once_then_one_every_ten_seconds():
    now = 0.0
    rates = Rates(lambda: now)
    assert [rates.wait_s(KEY) for _ in range(7)] == [0] * 6 + [10]
    now = 4.0
    assert rates.wait_s(KEY) == 6
    now = 10.0
    assert rates.wait_s(KEY) == 0
    assert rates.wait_s(KEY) == 10
    now = 1000.0
    assert [rates.wait_s(KEY) for _ in range(7)] == [0] * 6 + [10]


def test_a_key_without_a_limit_never_waits_and_keys_are_apart():
    rates = Rates(lambda: 0.0)
    assert all(rates.wait_s(Key("free", "0" * 64)) == 0 for _ in range(100))
    for _ in range(6):
        rates.wait_s(KEY)
    assert rates.wait_s(Key("other", "1" * 64, requests_per_minute=6)) == 0
