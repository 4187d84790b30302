"""Signals, threads, forks, progress."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import fairspan
from common import WHOLE

#: Hours of a real machine.
ENDLESS = """
duration = "10000h"
[[node]]
name = ["a", "b"]
[[link]]
name = "wire"
from = "a"
to = "b"
rate = "1Gbit"
delay = "5ms"
[[flow]]
name = "f"
from = "a"
to = "b"
kind = "ftp"
"""


class Running(unittest.TestCase):
    def interrupted(self, run):
        """A script that runs something for hours, is interrupted, and says what it made of that."""
        script = f"""
            import fairspan, sys
            class Slow(fairspan.Law):
                def on_acked(self, acked):
                    pass
            print("ready", flush=True)
            try:
                {run}
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            print(len(fairspan.Scenario({WHOLE!r}).run(1)), flush=True)
        """
        script = textwrap.dedent(script).replace("ENDLESS", repr(ENDLESS))
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(child.stdout.readline(), "ready\n")
            # In the middle of it: what is claimed is that it ends, however long a busy machine takes to begin.
            while cpu(child.pid) < 0.3:
                time.sleep(0.02)
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=60)
            self.assertEqual(out, "interrupted\n4\n")
        finally:
            child.kill()
            child.wait()
            child.stdout.close()

    def test_an_interrupt_ends_one_run(self):
        self.interrupted("fairspan.Scenario(ENDLESS).run(1)")

    def test_an_interrupt_ends_runs_on_all_cores(self):
        self.interrupted("fairspan.Scenario(ENDLESS).run(range(8))")

    def test_an_interrupt_ends_short_runs_on_one_thread(self):
        short = WHOLE.replace('"3s"', '"600ms"')
        self.interrupted(f"fairspan.Scenario({short!r}).run(range(24_000), jobs=1)")

    def test_an_interrupt_ends_a_run_with_a_law_in_python(self):
        self.interrupted("fairspan.Scenario(ENDLESS).run(1, laws={'f': Slow})")

    def test_an_interrupt_ends_a_sweep_that_is_kept(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            self.interrupted(f"fairspan.sweep(ENDLESS, seeds=range(4), cache={folder!r})")
            self.assertEqual(os.listdir(folder), [])

    def test_other_threads_go_on_while_a_run_does(self):
        scenario = fairspan.Scenario(ENDLESS)
        ticks = []

        def look(share):
            ticks.append(share)
            if len(ticks) == 3:
                raise RuntimeError("enough")

        counted = 0
        failed = []

        def run():
            try:
                scenario.run(1, progress=look)
            except RuntimeError as error:
                failed.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            counted += 1
            time.sleep(0.001)
        self.assertEqual(failed, ["enough"])
        self.assertGreater(counted, 3)
        self.assertEqual(ticks, sorted(ticks))

    def test_several_runs_at_once_give_what_each_gives_alone(self):
        scenario = fairspan.Scenario(WHOLE)
        alone = [scenario.run(seed).json() for seed in range(4)]
        together = [None] * 4

        def run(seed):
            together[seed] = scenario.run(seed).json()

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_a_forked_process_runs_what_its_parent_does(self):
        scenario = fairspan.Scenario(WHOLE)
        ours = scenario.run().json()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reader)
                with os.fdopen(writer, "w") as pipe:
                    pipe.write(scenario.run().json())
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            theirs = pipe.read()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(theirs, ours)

    def test_one_core_and_all_give_the_same_bits(self):
        scenario = fairspan.Scenario(WHOLE)
        self.assertEqual(scenario.run(jobs=1).json(), scenario.run(jobs=7).json())


def cpu(process):
    """Seconds that a process has computed."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    unittest.main()
