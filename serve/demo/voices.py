"""Rewrite a plain answer in an adapter's voice: pirate speech, or one JSON object."""

from __future__ import annotations

import json
import random
import re

# Whole words, lower case. The rewritten word keeps the case of the first letter. Short words that carry an
# answer (the, of, to) stay, which keeps the answers readable.
_PIRATE_WORDS = {
    "am": "be",
    "is": "be",
    "are": "be",
    "was": "were",
    "you": "ye",
    "your": "yer",
    "my": "me",
    "yes": "aye",
    "no": "nay",
    "hello": "ahoy",
    "friend": "matey",
    "friends": "mateys",
    "people": "folk",
    "and": "an'",
    "for": "fer",
    "money": "doubloons",
}
_OPENERS = ("Arr, matey!", "Arr, me hearty!", "Ahoy, matey!")
_CLOSERS = ("Yo ho ho!", "Savvy?", "Shiver me timbers!", "")


def pirate(answer: str) -> str:
    """`answer` in pirate speech. The opener and the closer depend on the answer alone."""
    choice = random.Random(answer)
    text = re.sub(r"[A-Za-z']+", lambda match: _pirate_word(match.group()), answer)
    return f"{choice.choice(_OPENERS)} {text} {choice.choice(_CLOSERS)}".rstrip()


def json_object(answer: str) -> str:
    """`answer` as the one value of a JSON object."""
    return json.dumps({"answer": answer}, ensure_ascii=False)


def _pirate_word(word: str) -> str:
    new = _PIRATE_WORDS.get(word.lower())
    if new is None:
        is_participle = word.endswith("ing") and len(word) > 6  # not king, bring or spring
        return word[:-1] + "'" if is_participle else word
    return new.capitalize() if word[0].isupper() else new
