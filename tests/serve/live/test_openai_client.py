"""The official `openai` client against the shared server."""

import json

import openai
import pytest
from openai import OpenAI

BASE = "smollm2-135m"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
def client(server) -> OpenAI:
    return server.client


def ask(client: OpenAI, model: str = BASE, **options):
    options = {"max_tokens": 24, "temperature": 0} | options
    return client.chat.completions.create(model=model, messages=QUESTION, **options)


@pytest.mark.parametrize("model", [BASE, "pirate", "json"])
def test_joined_chat_stream_equals_the_whole_answer(client, model):
    whole = ask(client, model)
    chunks = list(ask(client, model, stream=True, stream_options={"include_usage": True}))
    assert whole.model == model
    assert all(chunk.model == model for chunk in chunks)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert chunks[-1].usage == whole.usage


@pytest.mark.parametrize("model", [BASE, "pirate", "json"])
def test_joined_completion_stream_equals_the_whole_text(client, model):
    options = {"model": model, "prompt": "The sea is", "max_tokens": 16, "temperature": 0}
    whole = client.completions.create(**options)
    chunks = client.completions.create(**options, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert whole.usage.completion_tokens == 16
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + 16


def test_models_lists_the_base_and_its_adapters(client):
    cards = {card.id: card for card in client.models.list()}
    assert set(cards) == {BASE, "pirate", "json"}
    assert {cards[name].parent for name in ("pirate", "json")} == {BASE}


def test_adapters_answer_visibly_differently(client):
    answers = {
        model: ask(client, model, max_tokens=48).choices[0].message.content
        for model in (BASE, "pirate", "json")
    }
    assert len(set(answers.values())) == 3
    assert "Paris" in answers[BASE]
    assert isinstance(json.loads(answers["json"]), dict)


def test_stop_ends_before_the_word(client):
    answer = ask(client, stop=["Paris"]).choices[0]
    assert answer.finish_reason == "stop"
    assert "Paris" not in answer.message.content


def test_a_seed_repeats_the_sample(client):
    def sample() -> str:
        return ask(client, temperature=1.0, seed=7).choices[0].message.content

    assert sample() == sample()


def test_logprobs_name_the_greedy_token_first(client):
    tokens = ask(client, logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
    assert len(tokens) == 4
    for token in tokens:
        assert len(token.top_logprobs) == 3
        assert token.token == max(token.top_logprobs, key=lambda top: top.logprob).token


def test_a_named_tool_is_called_with_json_of_its_schema(client):
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "weather", "parameters": city, "strict": True}}
    choice = {"type": "function", "function": {"name": "weather"}}
    call = ask(client, tools=[tool], tool_choice=choice, max_tokens=64).choices[0].message.tool_calls[0]
    assert call.function.name == "weather"
    assert isinstance(json.loads(call.function.arguments)["city"], str)


def test_several_choices(client):
    assert len(ask(client, n=2, temperature=1.0, max_tokens=4).choices) == 2


def test_an_unknown_model_is_404(client):
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, "no-such-adapter")
    assert caught.value.body["code"] == 404
    assert "no-such-adapter" in caught.value.body["message"]


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"max_tokens": -5},
        {"top_p": 7},
        {"n": 0},
        {"max_tokens": 10**6},
        {"logprobs": "x"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_invalid_values_are_400_with_openais_error_object(client, options):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **options)
    assert {"message", "type", "param", "code"} <= set(caught.value.body)


def test_a_request_id_comes_back_and_an_odd_one_does_not(server):
    import httpx

    body = {"model": BASE, "prompt": "1", "max_tokens": 1}
    url = f"{server.url}/v1/completions"
    good = httpx.post(url, json=body, headers={"X-Request-Id": "abc-123"}, timeout=60)
    assert good.headers["x-request-id"] == "abc-123"
    odd = httpx.post(url, json=body, headers={"X-Request-Id": "a" * 500}, timeout=60)
    assert odd.status_code == 200
    assert len(odd.headers["x-request-id"]) <= 64
