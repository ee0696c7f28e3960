"""Requests to shards on a Dask cluster: each goes to the worker that keeps the shard, or to another if that is lost."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from grilly_core.errors import GrillyError, MissingPluginError
from grilly_ext_memory.index.shards import Shard, serve

__all__ = ["Dispatch", "ShardError"]

#: Seconds between looks at which workers there are, while answers are awaited.
_LOOK: Final = 0.5


class ShardError(GrillyError, RuntimeError):
    """Shards of an index could not be asked; their numbers are in `shards`. There is no partial answer.

    Examples
    --------
    >>> from grilly_ext_memory.index.dispatch import ShardError
    >>> ShardError("shard 3 is lost", [3]).shards
    [3]
    """

    def __init__(self, message: str, shards: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.shards = list(shards)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.shards)


class Dispatch:
    """Which worker keeps which shard, and the asking.

    Parameters
    ----------
    client : distributed.Client
    owner : str
        What distinguishes the index that asks.
    device : Device or str, optional
    retries : int
    timeout : float
    """

    def __init__(self, client: Any, owner: str, device: Any, retries: int, timeout: float) -> None:
        if retries < 0 or timeout < 0:
            raise ValueError(
                f"ShardedIndex: retries and timeout are not negative; received {retries} and {timeout}."
            )
        self._dask = _library()
        if not isinstance(client, self._dask.Client):
            raise TypeError(f"ShardedIndex: expected a distributed.Client; received {type(client).__name__}.")
        if client.asynchronous:
            raise TypeError("ShardedIndex: expected a client that is not asynchronous.")
        self.client, self.owner, self.retries, self.timeout = client, owner, retries, timeout
        self.device = "" if device is None else str(device)
        self.closed = False
        self._worker_of: dict[int, str] = {}

    def ask(
        self, what: str, paths: Mapping[int, str], requests: Mapping[int, tuple[Any, ...]], options: dict[str, Any]
    ) -> dict[int, Any]:  # fmt: skip
        """Return the answers of all shards, or raise."""
        answers: dict[int, Any] = {}
        for _ in range(self.retries + 1):
            left = [shard for shard in requests if shard not in answers]
            if not left:
                break
            self._place(left)
            futures = {
                shard: self._submit(shard, paths[shard], what, requests[shard], options) for shard in left
            }
            try:
                errors = self._collect(futures, answers)
            finally:
                self.client.cancel(list(futures.values()))
            if errors:
                raise _failed(what, errors, paths) from next(iter(errors.values()))
        lost = [shard for shard in requests if shard not in answers]
        if lost:
            raise ShardError(
                f"{what}: the workers of the shards {', '.join(map(str, lost))} were lost, {self.retries + 1} times in "
                "a row. Nothing is answered without them; their vectors are in their files.",
                lost,
            )
        return {shard: answers[shard] for shard in requests}

    def _submit(
        self, shard: int, path: str, what: str, request: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        asked = Shard(path, self.owner, self.device)
        return self.client.submit(
            serve, asked, what, *request, **options, workers=[self._worker_of[shard]], pure=False,
            key=f"shard-{shard}-{what}-{secrets.token_hex(8)}",
        )  # fmt: skip

    def _place(self, shards: list[int]) -> None:
        """Give shards without a worker to the one that has the fewest."""
        live = self._live()
        if not live:
            raise ShardError(
                f"the cluster has had no workers for {self.timeout:g} seconds; the shards "
                f"{', '.join(map(str, shards))} cannot be asked. Their vectors are in their files.",
                shards,
            )
        load = Counter(dict.fromkeys(sorted(live), 0))
        load.update(worker for worker in self._worker_of.values() if worker in live)
        for shard in shards:
            if self._worker_of.get(shard) not in live:
                chosen = min(load, key=lambda worker: load[worker])
                self._worker_of[shard] = chosen
                load[chosen] += 1

    def _live(self) -> set[str]:
        until = time.monotonic() + self.timeout
        while not (live := self._workers()) and time.monotonic() < until:
            time.sleep(0.1)
        return live

    def _workers(self) -> set[str]:
        try:
            return set(self.client.nthreads())
        except OSError:  # the scheduler does not answer
            return set()

    def _collect(self, futures: dict[int, Any], answers: dict[int, Any]) -> dict[int, BaseException]:
        """Wait until nothing is under way, and return what was raised. What lost workers were asked stays out."""
        waiting, errors = dict(futures), {}
        while waiting:
            try:
                self._dask.wait(list(waiting.values()), timeout=_LOOK, return_when="FIRST_COMPLETED")
            except (TimeoutError, self._dask.CancelledError):
                live = self._workers()
                waiting = {s: f for s, f in waiting.items() if f.done() or self._worker_of[s] in live}
            for shard in [shard for shard, future in waiting.items() if future.done()]:
                future = waiting.pop(shard)
                if future.status == "finished":
                    self._fetch(shard, future, answers)
                elif future.status == "error":
                    error = future.exception()
                    if isinstance(error, self._dask.KilledWorker):
                        self._worker_of.pop(shard, None)
                    else:
                        errors[shard] = error
        return errors

    def _fetch(self, shard: int, future: Any, answers: dict[int, Any]) -> None:
        # A worker may be lost between its answer and the fetching of it.
        with contextlib.suppress(TimeoutError, OSError, self._dask.CancelledError):
            answers[shard] = future.result(timeout=self.timeout or 1.0)


def _failed(what: str, errors: dict[int, BaseException], paths: Mapping[int, str]) -> ShardError:
    told = "; ".join(f"shard {s} ({paths[s]}): {type(e).__name__}: {e}" for s, e in errors.items())
    return ShardError(f"{what}: {told}", errors)


def _library() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingPluginError(
            "ShardedIndex needs the package distributed: `pip install './grilly_ext_memory[sharded]'` from a checkout "
            "of grilly."
        ) from error
    return distributed
