"""Text to ids: what a token is, what unknown words and short texts become, and the masks beside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.cli.ports import Port
from onnx_ig.cli.texts import companion, tokenize, tokens_of
from onnx_ig.errors import FeedError, OptionError
from onnx_ig.manifest import Vocabulary

IDS = Port("ids", np.dtype(np.int64), (None, None), "tokens")
TOKENS = ("[pad]", "[unk]", "[CLS]", "[SEP]", "good", "film", "!", "don't")


def vocabulary(**options: Any) -> Vocabulary:
    return Vocabulary(TOKENS, **{"unk": "[unk]", "pad": "[pad]", **options})


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, ["Good", "film!", "don't"]),
        ({"lowercase": True}, ["good", "film!", "don't"]),
        ({"split": r"[a-z]+(?:'[a-z]+)*|[^\sa-z0-9]", "lowercase": True}, ["good", "film", "!", "don't"]),
        ({"split": r"\w+"}, ["Good", "film", "don", "t"]),
        ({"split": r"\s+"}, ["Good", "film!", "don't"]),
        ({"split": " "}, ["Good", "film!", "don't"]),
        ({"split": r"\W+"}, ["Good", "film", "don", "t"]),
        ({"split": "."}, list("Good film! don't")),
        ({"start": "[CLS]", "end": "[SEP]"}, ["[CLS]", "Good", "film!", "don't", "[SEP]"]),
    ],
)
def test_tokens(options: dict[str, Any], tokens: list[str]) -> None:
    assert tokens_of("Good film! don't", vocabulary(**options)) == tokens


def test_special_tokens_in_a_text_stay_whole() -> None:
    known = vocabulary(split=r"\w+|\[|\]", lowercase=True, hold=["[CLS]", "[SEP]"])
    assert tokens_of("[CLS] Good [unk] film[SEP]", known) == ["[CLS]", "good", "[unk]", "film", "[SEP]"]
    both = vocabulary(start="[CLS]", end="[SEP]")
    assert tokens_of("[CLS] good [SEP]", both) == ["[CLS]", "good", "[SEP]"]


def test_ids_padding_and_held_positions() -> None:
    read = tokenize(["good fish", "[CLS] good film ! [SEP]"], vocabulary(hold=["[CLS]", "[SEP]"]), IDS)
    np.testing.assert_array_equal(read.ids, [[4, 1, 0, 0, 0], [2, 4, 5, 6, 3]])
    assert read.ids.dtype == np.int64
    np.testing.assert_array_equal(read.present, [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
    np.testing.assert_array_equal(read.held, [[0, 0, 1, 1, 1], [1, 0, 0, 0, 1]])
    assert read.tokens[0] == ["good", "fish"]


def test_fixed_lengths_and_types() -> None:
    read = tokenize(["good"], vocabulary(), Port("ids", np.dtype(np.int32), (1, 3)))
    np.testing.assert_array_equal(read.ids, np.array([[4, 0, 0]], np.int32))
    assert read.ids.dtype == np.int32
    flat = tokenize(["good film"], vocabulary(), Port("ids", np.dtype(np.int64), (None,)))
    np.testing.assert_array_equal(flat.ids, [4, 5])


@pytest.mark.parametrize(
    ("texts", "options", "port", "error", "words"),
    [
        ([" "], {}, IDS, FeedError, "holds no tokens"),
        (["fish"], {"unk": None}, IDS, FeedError, "'fish' is not in the model's vocabulary"),
        (["good", "good film"], {"pad": None}, IDS, FeedError, "names no padding token"),
        (["good film !"], {}, Port("ids", np.dtype(np.int64), (None, 2)), FeedError, "3 tokens, and .* takes 2"),
        (["a", "b"], {}, Port("ids", np.dtype(np.int64), (None,)), FeedError, "takes one text"),
        (["a"], {}, Port("x", np.dtype(np.float32), (None, 2)), OptionError, "takes no token ids"),
    ],
)
def test_what_cannot_be_fed(texts: list[str], options: dict[str, Any], port: Port, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        tokenize(texts, vocabulary(**options), port)


def test_inputs_beside_the_ids() -> None:
    present = np.array([[True, True, False], [True, True, True]])

    def fed(name: str, dtype: Any = np.int64, rank: int = 2) -> Any:
        return companion(Port(name, np.dtype(dtype), (None,) * rank), present)

    np.testing.assert_array_equal(fed("attention_mask"), [[1, 1, 0], [1, 1, 1]])
    assert fed("attention_mask", np.float32).dtype == np.float32
    assert fed("mask", np.bool_).dtype == np.bool_
    np.testing.assert_array_equal(fed("token_type_ids"), np.zeros((2, 3)))
    np.testing.assert_array_equal(fed("position_ids"), [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(fed("lengths", rank=1), [2, 3])
    assert fed("temperature") is None
    assert fed("attention_mask", rank=4) is None
