"""Read transcripts in several processes at once, and hand over what they find in the order of the files.

Mining is bound by the processor, and the first scan of a long history is what a new user waits for. Each process is a
fork that reads its share of the files and sends portions through a pipe; only the parent writes to the database. A
process that dies costs nothing but time: the parent reads the rest of its share.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait

from hardwon.mining.transcript_reading import MeasuredPortion, TranscriptFile
from hardwon.types import ReadPosition

_MAX_PROCESSES = 4
# Starting a process takes about 10 ms, the time in which one reads a megabyte.
_MIN_BYTES_PER_PROCESS = 8 * 1024 * 1024
# Portions that may wait for an earlier file to be done: each is some hundred kilobytes.
_MAX_WAITING_PORTIONS = 64

ReadPositions = Mapping[str, ReadPosition]
ReadTranscript = Callable[[TranscriptFile, ReadPosition | None], Iterator[MeasuredPortion]]
_END_OF_FILE = None
_Message = MeasuredPortion | OSError | None  # a portion, why a file cannot be read, or the end of a file


def choose_process_count(files: Iterable[TranscriptFile]) -> int:
    """Return how many processes are worth starting for these files; 1 means none besides this one."""
    unread_bytes = sum(file.unread_bytes for file in files)
    return max(1, min(_MAX_PROCESSES, _count_cores(), unread_bytes // _MIN_BYTES_PER_PROCESS))


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_in_processes(
    files: Sequence[TranscriptFile], positions: ReadPositions, read_transcript: ReadTranscript, process_count: int
) -> Generator[tuple[TranscriptFile, Iterator[MeasuredPortion]]]:
    """Yield each file with an iterator over its portions, which raises OSError if the file cannot be read.

    The portions of a file must be taken before the next file is.
    """
    shares: list[list[TranscriptFile]] = [[] for _ in range(process_count)]
    share_sizes = [0] * process_count
    share_of_file = []
    # Each file goes to the process that has least to do so far, so that all get through the list at the same speed.
    for file in files:
        smallest = share_sizes.index(min(share_sizes))
        shares[smallest].append(file)
        share_sizes[smallest] += file.unread_bytes
        share_of_file.append(smallest)
    processes: list[_ReadingProcess] = []
    try:
        for share in shares:
            processes.append(_ReadingProcess(share, positions, read_transcript))
        for file, share_number in zip(files, share_of_file, strict=True):
            process = processes[share_number]
            yield file, _receive_file(file, positions.get(file.path), process, processes, read_transcript)
    finally:
        for process in processes:
            process.stop()


def _receive_file(
    file: TranscriptFile,
    position: ReadPosition | None,
    process: _ReadingProcess,
    processes: Sequence[_ReadingProcess],
    read_transcript: ReadTranscript,
) -> Iterator[MeasuredPortion]:
    """Yield the portions that the process sends; what it still owes when it died is read here."""
    while True:
        try:
            message = _receive_message(process, processes)
        except EOFError:
            yield from read_transcript(file, position)
            return
        if message is _END_OF_FILE:
            return
        if isinstance(message, OSError):
            raise message
        yield message
        position = message[0].read_position


def _receive_message(process: _ReadingProcess, processes: Sequence[_ReadingProcess]) -> _Message:
    """Return the next message of a process, or raise EOFError if it died.

    Meanwhile messages of the other processes are taken in and kept, because a process stops reading while its pipe is
    full; but only so many of each, because they take memory.
    """
    while not process.messages:
        if process.has_died:
            raise EOFError
        senders = []
        for sender in processes:
            has_room = sender is process or len(sender.messages) < _MAX_WAITING_PORTIONS
            if has_room and not sender.has_died:
                senders.append(sender)
        ready_receivers = wait([sender.receiver for sender in senders])
        for sender in senders:
            if sender.receiver in ready_receivers:
                sender.receive()
    return process.messages.popleft()


class _ReadingProcess:
    """A fork that reads files one after the other and sends their portions, then the end or error of each file."""

    def __init__(
        self, files: Sequence[TranscriptFile], positions: ReadPositions, read_transcript: ReadTranscript
    ) -> None:
        self.messages: deque[_Message] = deque()
        self.has_died = False  # or has sent everything
        self.receiver, sender = Pipe(duplex=False)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self.receiver.close()
                _send_portions(sender, files, positions, read_transcript)
            finally:
                # Skip all that belongs to the parent: its buffers, its open database, its handlers. An error needs no
                # report, because the parent meets it when it reads the file.
                os._exit(0)
        sender.close()

    def receive(self) -> None:
        try:
            self.messages.append(self.receiver.recv())
        except (EOFError, OSError):
            self.has_died = True

    def stop(self) -> None:
        self.receiver.close()
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _send_portions(
    sender: Connection,
    files: Sequence[TranscriptFile],
    positions: ReadPositions,
    read_transcript: ReadTranscript,
) -> None:
    """Read the files and send their portions; after each file send its end, or the error that stopped it."""
    for file in files:
        try:
            for portion in read_transcript(file, positions.get(file.path)):
                sender.send(portion)
        except BrokenPipeError:
            return  # the parent has gone
        except OSError as error:
            sender.send(OSError(*error.args))
        else:
            sender.send(_END_OF_FILE)
