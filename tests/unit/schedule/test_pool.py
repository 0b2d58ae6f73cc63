import threading

from systone.schedule.pool import WorkerPool


def test_jobs_run_on_the_pools_threads_and_are_finished_on_close() -> None:
    seen: list[str] = []
    pool = WorkerPool("pool", 2, seen.append)
    for _ in range(20):
        pool.run(lambda: seen.append(threading.current_thread().name))
    pool.close()
    assert len(seen) == 20
    assert set(seen) <= {"pool-0", "pool-1"}


def test_a_job_that_raises_is_reported_and_the_worker_goes_on() -> None:
    crashes: list[BaseException] = []
    done = threading.Event()
    pool = WorkerPool("pool", 1, crashes.append)
    pool.run(lambda: 1 // 0)
    pool.run(done.set)
    assert done.wait(5)
    pool.close()
    assert [type(crash) for crash in crashes] == [ZeroDivisionError]
