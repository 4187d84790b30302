"""Sweeps on Ray."""

import os
import signal
import threading
import time
import unittest

import fairspan
from common import WHOLE

#: Long enough that a worker can be killed in the middle of it.
LONG = WHOLE.replace('duration = "3s"', 'duration = "200s"')


def workers():
    """The processes of ours that run tasks just now."""
    found, parents = [], {}
    for process in os.listdir("/proc"):
        if process.isdigit():
            try:
                with open(f"/proc/{process}/cmdline", "rb") as file:
                    title = file.read()
                with open(f"/proc/{process}/status") as file:
                    parent = next(line for line in file if line.startswith("PPid")).split()[1]
            except OSError:
                continue
            parents[int(process)] = int(parent)
            if title.startswith(b"ray::_chunk"):
                found.append(int(process))

    def ours(process):
        while process > 1:
            if process == os.getpid():
                return True
            process = parents.get(process, 0)
        return False

    return [process for process in found if ours(process)]


class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # No token in the home folder.
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        try:
            import ray
        except ImportError:
            raise unittest.SkipTest("ray is not installed") from None
        os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
        cls.addClassCleanup(ray.shutdown)

    def test_several_processes_give_the_bits_of_one_core_though_a_worker_is_killed(self):
        here = fairspan.Scenario(LONG).run(jobs=1).json()
        killed = []

        def kill():
            end = time.monotonic() + 120
            while not killed and time.monotonic() < end:
                for process in workers():
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
                    break
                time.sleep(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        there = fairspan.sweep(LONG, on="ray").json()
        killer.join()
        self.assertEqual(len(killed), 1, "a worker was killed while it ran a point")
        self.assertEqual(there, here)

    def test_what_is_wrong_is_told_as_here(self):
        with self.assertRaisesRegex(fairspan.InputError, "already connected"):
            fairspan.sweep(WHOLE, on="ray://nowhere:1")

    def test_what_ray_gave_is_kept(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            there = fairspan.sweep(WHOLE, on="ray", cache=folder).json()
            self.assertEqual(fairspan.sweep(WHOLE, cache=folder).json(), there)
            self.assertEqual(len(os.listdir(folder)), 4)


class NoRay(unittest.TestCase):
    def test_without_ray_it_says_what_to_do(self):
        try:
            import ray  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(fairspan.InputError, "Ray is not installed; pip install"):
                fairspan.sweep(WHOLE, on="ray")


if __name__ == "__main__":
    unittest.main()
