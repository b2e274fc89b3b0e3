"""Measure how many secrets are redacted, and how much else: `make bench-redact`.

Recall: made-up secrets (`redact_data.py`) in each way people leave them. One counts as taken out when no six characters
in a row are left of it. False alarms: what is replaced in the tool calls and results of the real transcripts in
`../shared/corpus` (other data with CORPUS=), per 1,000 lines; without them, in the ordinary lines of the tests.
What is replaced there is written to a file, for a person to read. What a person judged to be a secret indeed is no
false alarm: its hash stands in `redact_judged.txt`, so that nothing of the transcripts is in this repository. All
others count as false. `detect-secrets` reads the same texts in the same run, each as a file with a fitting name.

SEED= draws other secrets, QUICK=1 fewer, SHOW=CARRIER prints what was missed there.
It fails when recall is below 0.98 or there are more than 2 false alarms per 1,000 lines.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from time import process_time

from redact_data import CARRIERS, Sample, make_samples

from hardwon.agents.transcript_files import detect_agent, is_single_document
from hardwon.agents.transcript_steps import load_transcript_module
from hardwon.privacy.cleaning import clean_text

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.environ.get("CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
ORDINARY = os.path.join(ROOT, "tests", "unit", "privacy", "ordinary_code.txt")
JUDGED = os.path.join(ROOT, "bench", "redact_judged.txt")
ALARMS = os.environ.get("ALARMS") or os.path.join(tempfile.gettempdir(), "hardwon-redact-alarms.txt")
QUICK = bool(os.environ.get("QUICK"))
PER_CARRIER = 12 if QUICK else 60
WINDOW = 6  # as many characters in a row of a secret are a leak
LEAST_RECALL, MOST_FALSE = 0.98, 2.0
REPLACED = re.compile(r"\[redacted:[a-z-]+\]")


def is_left(sample: Sample, cleaned: str) -> bool:
    """Whether a stretch of the secret is still there, which is not also in the text around it."""
    cleaned = REPLACED.sub("\0", cleaned)
    around = sample.text.replace(sample.encoded, "\0")
    body = sample.encoded.removeprefix(sample.secret.prefix)
    for piece in re.split(r"\s|\\+n", body):
        for start in range(max(len(piece) - WINDOW, 0) + 1):
            window = piece[start : start + WINDOW]
            if len(window) >= min(WINDOW, len(body)) and window in cleaned and window not in around:
                return True
    return False


class DetectSecrets:
    """`detect-secrets` with its own defaults, over files as its users have them."""

    def __init__(self, folder: str) -> None:
        scan = import_module("detect_secrets.core.scan")
        settings = import_module("detect_secrets.settings")
        self._scan_file = scan.scan_file
        self._settings = settings.default_settings
        self._folder = folder

    def find_values(self, file_name: str, text: str) -> list[str]:
        path = os.path.join(self._folder, file_name)
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        with self._settings():
            return [secret.secret_value or "" for secret in self._scan_file(path)]

    def is_found(self, sample: Sample) -> bool:
        """Generously: a value that has half of the secret in it, or is itself in the secret and not short."""
        body = sample.encoded
        half = body[: max(len(body) // 2, WINDOW)]
        for value in self.find_values(sample.carrier.file_name, sample.text):
            if (
                half in value
                or (len(value) >= WINDOW and value in body)
                or body in value
                or sample.secret.kind == "vendor:pem"
            ):
                return True
        return False


def load_detect_secrets(folder: str) -> DetectSecrets | None:
    try:
        return DetectSecrets(folder)
    except ImportError:
        print("detect-secrets is not installed, so it is not compared (pip install detect-secrets)")
        return None


def print_recall(title: str, rows: Sequence[tuple[str, Sample, bool, bool | None]]) -> None:
    totals: Counter[str] = Counter()
    our_counts: Counter[str] = Counter()
    their_counts: Counter[str] = Counter()
    for name, _, is_found, is_found_by_other in rows:
        totals[name] += 1
        our_counts[name] += is_found
        their_counts[name] += bool(is_found_by_other)
    print(f"\n{title:<34} {'secrets':>8} {'hardwon':>8} {'detect-secrets':>15}")
    for name, total in totals.items():
        other = "-" if rows[0][3] is None else f"{their_counts[name] / total:.3f}"
        print(f"{name:<34} {total:>8} {our_counts[name] / total:>8.3f} {other:>15}")


def measure_recall(detect_secrets: DetectSecrets | None) -> float:
    samples = make_samples(PER_CARRIER, int(os.environ.get("SEED") or 20261117))
    results: list[tuple[Sample, bool, bool | None]] = []
    for sample in samples:
        cleaned = clean_text(sample.text)
        is_found = not is_left(sample, cleaned)
        if not is_found and os.environ.get("SHOW") in (sample.carrier.name, "all"):
            print(f"  missed ({sample.carrier.name}, {sample.secret.kind}): {sample.text!r}\n      -> {cleaned!r}")
        results.append((sample, is_found, detect_secrets.is_found(sample) if detect_secrets else None))
    kinds = sorted({sample.secret.kind.partition(":")[0] for sample, _, _ in results})
    by_kind = [
        (sample.secret.kind.partition(":")[0], sample, by_hardwon, by_other) for sample, by_hardwon, by_other in results
    ]
    print_recall(
        f"carrier ({len(CARRIERS)})",
        [(sample.carrier.name, sample, by_hardwon, by_other) for sample, by_hardwon, by_other in results],
    )
    print_recall(f"kind ({len(kinds)})", sorted(by_kind, key=lambda row: row[0]))
    vendors = sorted(
        [
            (sample.secret.kind, sample, by_hardwon, by_other)
            for sample, by_hardwon, by_other in results
            if sample.secret.is_vendor
        ],
        key=lambda row: row[0],
    )
    print_recall("vendor", vendors)
    print_recall("all", [("all", sample, by_hardwon, by_other) for sample, by_hardwon, by_other in results])
    return sum(by_hardwon for _, by_hardwon, _ in results) / len(results)


def read_corpus() -> Iterator[str]:
    """Every command, written content and result in the transcripts."""
    for folder, _, names in sorted(os.walk(CORPUS)):
        for name in sorted(names):
            if not name.endswith((".jsonl", ".json")) or name == "gold.jsonl":
                continue
            path = os.path.join(folder, name)
            reader = load_transcript_module(detect_agent(path)).Reader()
            with open(path, "rb") as transcript:
                lines = [transcript.read()] if is_single_document(name) else list(transcript)
            for number, line in enumerate(lines, 1):
                for step in reader.read_line(number, line):
                    yield from filter(None, (step.command, step.content, step.text if step.kind == "result" else ""))


def read_ordinary() -> list[str]:
    if os.path.isdir(CORPUS):
        texts = list(read_corpus())
        return texts[::10] if QUICK else texts
    print("the real transcripts are not beside this checkout (../shared/corpus): false alarms are counted in")
    print("tests/unit/privacy/ordinary_code.txt, which the rules were written against, so the figure says little")
    with open(ORDINARY, encoding="utf-8") as file:
        return [file.read()]


def find_replaced_spans(text: str, cleaned: str) -> list[tuple[str, str]]:
    """What was replaced, each with the line it stood in."""
    spans = []
    old_lines, new_lines = text.split("\n"), cleaned.split("\n")
    matcher = (
        difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
        if len(old_lines) != len(new_lines)
        else None
    )
    if matcher is None:
        changed = [(old, new) for old, new in zip(old_lines, new_lines, strict=True) if old != new]
    else:
        changed = [
            ("\n".join(old_lines[a:b]), "\n".join(new_lines[c:d]))
            for tag, a, b, c, d in matcher.get_opcodes()
            if tag != "equal"
        ]
    for old, new in changed:
        parts = REPLACED.split(new)
        labels = REPLACED.findall(new)
        position = 0
        for label, part, following in zip(labels, parts, parts[1:], strict=False):
            start = old.find(part, position) + len(part)
            end = old.find(following, start) if following else len(old)
            value = old[start : end if end >= 0 else len(old)]
            position = end if end >= 0 else len(old)
            if value != label:
                spans.append((value, f"{label} {value!r} in {old[:400]!r}"))
    return spans


def read_judged() -> set[str]:
    """The hashes of what a person found to be a secret indeed."""
    with open(JUDGED, encoding="utf-8") as file:
        return {line.split()[0] for line in file if line.strip() and not line.startswith("#")}


def hash_value(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16]


def measure_false_alarms(detect_secrets: DetectSecrets | None) -> float:
    texts, judged = read_ordinary(), read_judged()
    began = process_time()
    cleaned = [clean_text(text) for text in texts]
    seconds = process_time() - began
    lines = sum(len(text.splitlines()) for text in texts)
    alarms, true_finds = 0, 0
    listed: Counter[str] = Counter()
    for text, cleaned_text in zip(texts, cleaned, strict=True):
        if text == cleaned_text:
            continue
        for value, description in find_replaced_spans(text, cleaned_text):
            is_secret = hash_value(value) in judged
            true_finds += is_secret
            alarms += not is_secret
            listed[f"{'secret' if is_secret else 'ALARM '} {hash_value(value)} {description}"] += 1
    with open(ALARMS, "w", encoding="utf-8", errors="replace") as file:
        file.writelines(f"{count:>5} x {description}\n" for description, count in listed.most_common())
    size = sum(map(len, texts)) / 1e6
    print(
        f"\nordinary text: {len(texts):,} texts, {lines:,} lines, {size:.1f} MB, cleaned in {seconds:.1f} s of CPU time"
    )
    print(
        f"replaced: {alarms + true_finds:,}, of which {true_finds:,} are secrets indeed"
        f" (judged by hand, bench/{os.path.basename(JUDGED)})"
    )
    print(
        f"false alarms of hardwon: {alarms:,}, {alarms / lines * 1000:.3f} per 1,000 lines; all are listed in {ALARMS}"
    )
    if detect_secrets:
        share = 1 if QUICK else 10  # it takes minutes for all of them
        part = texts[::share]
        part_lines = sum(len(text.splitlines()) for text in part)
        values = [value for text in part for value in detect_secrets.find_values("output.txt", text)]
        false = sum(hash_value(value) not in judged for value in values)
        rate = false / part_lines * 1000
        print(f"false alarms of detect-secrets: {false:,}, {rate:.3f} per 1,000 lines (1 of {share} texts)")
    return alarms / lines * 1000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        detect_secrets = load_detect_secrets(folder)
        recall = measure_recall(detect_secrets)
        false_alarms = measure_false_alarms(detect_secrets)
    is_good = recall >= LEAST_RECALL and false_alarms <= MOST_FALSE
    verdict = "good" if is_good else "NOT GOOD"
    print(f"\n{verdict}: recall at least {LEAST_RECALL}, at most {MOST_FALSE} false alarms per 1,000 lines")
    print(json.dumps({"recall": round(recall, 4), "false_per_1000": round(false_alarms, 3)}))
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
