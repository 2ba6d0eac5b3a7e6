"""A sentiment classifier over tokens, trained on the rated sentences in the source archive of vaderSentiment (MIT)."""

from __future__ import annotations

import collections
import hashlib
import html
import io
import re
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from . import onnx_file, references
from .build import Sample, finish
from .packages import source_archive
from .train import accuracy, fit

NAME = "sentiment"
SOURCE = ("vaderSentiment==0.5", "vaderSentiment-0.5.zip")
SOURCE_SHA256 = "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a"
SETS = ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets")
SPLIT = r"[a-z]+(?:'[a-z]+)*|[0-9]+|[^\sa-z0-9]"
PAD, UNK = 0, 1
CLEAR = 0.6  # mean rating, of -4 to 4, from which a sentence counts as positive or negative
SENTENCES = (
    "The photos are sharp and the battery lasts forever, I love this camera.",
    "A dull plot, wooden acting and a terrible ending.",
    "The food was not good, but the staff were friendly.",
    "What a wonderful day!",
)


class Network(nn.Module):
    """ids [N, T] -> logits [N, 2]: embedding, convolution over three tokens, attention over all tokens but padding."""

    def __init__(self, words: int, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=PAD)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.gelu = nn.GELU()
        self.attention = nn.Linear(width, 1)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.gelu(self.conv(self.dropout(self.embedding(ids)).transpose(1, 2))).transpose(1, 2)
        weight = torch.softmax(self.attention(hidden).squeeze(2).masked_fill(ids == PAD, -1e4), 1)
        return self.head(self.dropout((weight.unsqueeze(2) * hidden).sum(1)))


def words(text: str) -> list[str]:
    """Tokens of a sentence, by the same expression that the file's vocabulary carries."""
    return re.findall(SPLIT, text.lower())


def encode(texts: Sequence[str], index: Mapping[str, int]) -> NDArray[np.int64]:
    """ids [N, T], padded on the right to the longest sentence."""
    rows = [[index.get(w, UNK) for w in words(t)] for t in texts]
    ids = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return ids


def rated_sentences(downloads: Path) -> list[tuple[str, int]]:
    """Sentences with a clear rating, 0 negative and 1 positive, in the archive's order."""
    archive = source_archive(*SOURCE, downloads)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SOURCE_SHA256:
        raise ValueError(f"{archive} is not the archive that the sample was made from: sha256 {digest}")
    found = []
    with zipfile.ZipFile(archive) as outer:
        inner = io.BytesIO(outer.read("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz"))
    with tarfile.open(fileobj=inner) as tar:
        for name in SETS:
            member = tar.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
            if member is None:
                raise ValueError(f"{archive} has no ratings for {name}")
            for line in member.read().decode("latin-1").splitlines():
                _, rating, text = line.split("\t", 2)
                if abs(float(rating)) >= CLEAR:
                    text = re.sub(r"https?://\S+|@\w+", " ", html.unescape(text))
                    found.append((text, int(float(rating) > 0)))
    return found


def make(folder: Path, downloads: Path) -> str:
    """Train, write the model, a text file of sentences and the references; returns a line about them."""
    from sklearn.model_selection import train_test_split

    sentences = rated_sentences(downloads)
    classes = np.array([c for _, c in sentences])
    train, test = train_test_split(np.arange(len(sentences)), test_size=0.1, random_state=0, stratify=classes)
    counts = collections.Counter(w for i in train for w in set(words(sentences[i][0])))
    tokens = ["[pad]", "[unk]", *sorted(w for w, n in counts.items() if n >= 8)]
    index = {t: i for i, t in enumerate(tokens)}
    ids, target = torch.from_numpy(encode([s for s, _ in sentences], index)), torch.from_numpy(classes)
    ids = ids[:, :48]

    torch.manual_seed(0)
    net = Network(len(tokens))
    fit(net, [ids[train]], target[train], epochs=8, rate=2e-3, decay=3e-1)
    right = accuracy(net, [ids[test]], target[test])
    if net.embedding.weight[PAD].any():
        raise ValueError("padding has an embedding, but the references take it for the zero baseline")

    (folder / "sentiment.txt").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    rows = encode(SENTENCES, index)
    unknown = np.where(rows == PAD, PAD, UNK)
    sample = Sample(
        name=NAME,
        module=net,
        model=onnx_file.export(net, {"ids": torch.from_numpy(rows)}, {"ids": {0: "N", 1: "T"}}),
        doc=(
            "Sentiment of English sentences, negative or positive; trained on the rated sentences of VADER (Hutto and "
            "Gilbert, ICWSM 2014; MIT)."
        ),
        metadata={
            "labels": ["negative", "positive"],
            "vocabulary": {
                "tokens": tokens,
                "unk": tokens[UNK],
                "pad": tokens[PAD],
                "hold": [],
                "lowercase": True,
                "split": SPLIT,
            },
        },
        inputs={"ids": rows},
        baselines={"ids": np.full_like(rows, PAD)},
        methods=references.token_methods("embedding", UNK, PAD),
        shipped=[{"text": s} for s in SENTENCES],
        shipped_inputs={"ids": rows},
        facts={"test_accuracy": right, "sentences": len(train), "tokens": len(tokens)},
        extra_arrays={"baseline_unk.ids": unknown},
    )
    return finish(sample, folder)
