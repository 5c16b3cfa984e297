# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""One measurement of a peer, as a process of its own: prints JSON.

python _peers.py numpy|dask|ray matmul N
python _peers.py dask|ray|celery tiny-tasks|round-trips COUNT
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _cores import pin_to_two


def operands(n: int) -> tuple[Any, Any]:
    """The same two matrices as ours."""
    rng = np.random.default_rng(1)
    return tuple(rng.standard_normal((n, n), dtype=np.float32) for _ in "ab")  # type: ignore[return-value]


def percentiles(call: Callable[[], object], count: int) -> dict[str, float]:
    """Microseconds of one call at a time."""
    times = np.empty(count)
    for i in range(count):
        start = time.perf_counter()
        call()
        times[i] = time.perf_counter() - start
    times = 1e6 * times[count // 10 :]
    return {"p50_us": float(np.percentile(times, 50)), "p99_us": float(np.percentile(times, 99))}


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def numpy_matmul(n: int) -> dict[str, float]:
    """NumPy in this process, on two threads; the faster of two."""
    a, b = operands(n)
    np.matmul(a[:256], b)
    return {"seconds": min(timed(lambda: np.matmul(a, b)) for _ in range(2))}


class Dask:
    """dask.distributed with two worker processes of one thread."""

    def __init__(self) -> None:
        import dask
        from dask.distributed import Client, LocalCluster

        logging.getLogger("distributed").setLevel(logging.ERROR)
        dask.config.set({"distributed.worker.memory.target": False})
        self._cluster = LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
        )
        self._client = Client(self._cluster)

    def matmul(self, n: int) -> dict[str, float]:
        """dask.array's product from matrices in this process to a result in it; the best cut."""
        import dask.array as da

        a, b = operands(n)
        small = da.from_array(a[:128, :128], chunks=64)
        (small @ small).compute()

        def product(rows: int, columns: int) -> Any:
            left = da.from_array(a, chunks=(n // rows, n))
            right = da.from_array(b, chunks=(n, n // columns))
            return (left @ right).compute()

        times = {f"{r}x{c}": timed(partial(product, r, c)) for r, c in ((2, 1), (2, 2))}
        return {"seconds": min(times.values())}

    def tiny_tasks(self, count: int) -> dict[str, float]:
        """No-op tasks through the scheduler."""
        self._client.gather(self._client.map(nothing, range(100), pure=False))
        seconds = timed(
            lambda: self._client.gather(self._client.map(nothing, range(count), pure=False))
        )
        return {"per_second": count / seconds}

    def round_trips(self, count: int) -> dict[str, float]:
        """One no-op task at a time."""
        return percentiles(lambda: self._client.submit(nothing, 1, pure=False).result(), count)

    def close(self) -> None:
        """Ends the workers."""
        self._client.close()
        self._cluster.close()


class Ray:
    """Ray with two worker processes."""

    def __init__(self) -> None:
        os.environ.setdefault("RAY_DEDUP_LOGS", "0")
        import ray

        self._ray = ray
        # Ray's sockets need a short path, and its store room for both matrices and the product.
        self._directory = tempfile.mkdtemp(prefix="ray-")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=2 << 30,
            _temp_dir=self._directory,
        )

    def matmul(self, n: int) -> dict[str, float]:
        """Half of the rows a worker, operands through Ray's shared memory; the faster of two."""
        ray = self._ray
        a, b = operands(n)
        half = ray.remote(num_cpus=1)(product_of)
        ray.get([half.remote(a[:64, :64], b[:64, :64]) for _ in range(4)])

        def product() -> Any:
            right = ray.put(b)
            parts = [
                half.remote(ray.put(a[: n // 2]), right),
                half.remote(ray.put(a[n // 2 :]), right),
            ]
            return np.concatenate(ray.get(parts))

        return {"seconds": min(timed(product) for _ in range(2))}

    def tiny_tasks(self, count: int) -> dict[str, float]:
        """No-op tasks."""
        ray = self._ray
        call = ray.remote(num_cpus=1)(nothing)
        ray.get([call.remote(i) for i in range(100)])
        return {
            "per_second": count / timed(lambda: ray.get([call.remote(i) for i in range(count)]))
        }

    def round_trips(self, count: int) -> dict[str, float]:
        """One no-op task at a time."""
        ray = self._ray
        call = ray.remote(num_cpus=1)(nothing)
        return percentiles(lambda: ray.get(call.remote(1)), count)

    def close(self) -> None:
        """Ends its processes."""
        self._ray.shutdown()
        shutil.rmtree(self._directory, ignore_errors=True)


class Celery:
    """Celery with two worker processes; Redis is broker and result store, in memory, over a Unix
    socket: its usual and its fastest set-up."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="celery-"))
        socket = self._directory / "redis.sock"
        quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        quiet["stderr"] = subprocess.STDOUT
        server = [
            "redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "",
            "--appendonly", "no", "--dir", str(self._directory),
        ]  # fmt: skip
        self._processes = [subprocess.Popen(server, **quiet)]
        os.environ["GOBLIN_BENCH_REDIS"] = str(socket)
        worker = [
            sys.executable, "-m", "celery", "-A", "_celery_app", "worker", "--concurrency", "2",
            "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR",
        ]  # fmt: skip
        self._processes.append(
            subprocess.Popen(worker, cwd=Path(__file__).resolve().parent, **quiet)
        )
        from _celery_app import nothing as task  # reads where the server is

        self._task = task
        self._task.apply_async((0,), retry=True).get(timeout=60)

    def tiny_tasks(self, count: int) -> dict[str, float]:
        """No-op tasks, results collected as they come."""
        from celery import group

        def run(number: int) -> None:
            group(self._task.s(i) for i in range(number)).apply_async().get(timeout=300)

        run(100)
        return {"per_second": count / timed(partial(run, count))}

    def round_trips(self, count: int) -> dict[str, float]:
        """One no-op task at a time."""
        return percentiles(lambda: self._task.delay(1).get(timeout=60), count)

    def close(self) -> None:
        """Ends the worker, then the server."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def product_of(a: Any, b: Any) -> Any:
    """A product, as a function that Ray can send."""
    return a @ b


def nothing(i: int) -> int:
    """The task that does nothing."""
    return i


def main(words: list[str]) -> None:
    """Reads the command line."""
    pin_to_two()
    peer, what, amount = words[0], words[1], int(words[2])
    if peer == "numpy":
        answer = numpy_matmul(amount)
    else:
        runner: Any = {"dask": Dask, "ray": Ray, "celery": Celery}[peer]()
        try:
            answer = getattr(runner, what.replace("-", "_"))(amount)
        finally:
            runner.close()
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
