"""What is wrong is an exception, in the words of the command line."""

import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import fairspan
from common import WHOLE, program

WRONG = {
    "no TOML": "duration = ",
    "an unknown key": WHOLE.replace("queue =", "quue ="),
    "no unit": WHOLE.replace('"1Mbit"\nsize', '"1parsec"\nsize'),
    "no such node": WHOLE.replace('to = "b"\nrate = "2Mbit"', 'to = "c"\nrate = "2Mbit"'),
    "several things": 'duration = "0s"\nseeds = []\n[[node]]\n[[link]]\nname = 3\n',
    "a file that is not there": WHOLE.replace('rate = "2Mbit"\ndelay', 'series = "nowhere.csv"\ndelay'),
    "too many runs": WHOLE.replace("seeds = [1, 2, 3]", 'seeds = "1..1000000000"'),
    "too many copies": WHOLE.replace('name = "f"', 'name = "f"\ncount = 1000000000000'),
    "no rate": WHOLE.replace('"1Mbit"\nsize', '"0bit"\nsize'),
    "a rate without bound": WHOLE.replace('"1Mbit"\nsize', '"1000000000000000000Mbit"\nsize'),
    "deep nesting": "a = " + "[" * 100_000,
    "nothing": "",
    "a metric that is none": WHOLE.replace("flow.f.throughput", "flow.f.thruput"),
}


class Errors(unittest.TestCase):
    def test_what_the_command_line_refuses_is_refused_in_the_same_words(self):
        for what, text in WRONG.items():
            with self.subTest(what), tempfile.TemporaryDirectory() as folder:
                Path(folder, "s.toml").write_text(text)
                status, _, errors = program("sim", "s.toml", folder=folder)
                self.assertEqual(status, 2, errors)
                with self.assertRaises(fairspan.ScenarioError) as caught:
                    fairspan.Scenario(text, name="s.toml")
                ours = "".join(f"fairspan: {line}\n" for line in str(caught.exception).splitlines())
                self.assertEqual(ours, errors)

    def test_an_error_says_file_line_setting_and_what_would_be_right(self):
        with self.assertRaises(fairspan.ScenarioError) as caught:
            fairspan.Scenario(WRONG["several things"], name="x.toml")
        problem = caught.exception.problems[0]
        self.assertEqual((problem.file, problem.line), ("x.toml", 1))
        self.assertIn("duration", [problem.key for problem in caught.exception.problems])
        self.assertGreater(len(caught.exception.problems), 3)
        self.assertIn("expected", problem.message)
        self.assertIsInstance(caught.exception, fairspan.InputError)
        self.assertIsInstance(caught.exception, fairspan.Error)

    def test_what_is_set_from_outside_is_told_as_such(self):
        with self.assertRaisesRegex(fairspan.ScenarioError, "set from outside the file: link.wire.rat"):
            fairspan.Scenario(WHOLE, settings={"link.wire.rat": "1Mbit"})

    def test_an_error_travels_with_its_problems(self):
        with self.assertRaises(fairspan.ScenarioError) as caught:
            fairspan.Scenario(WRONG["several things"], name="x.toml")
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(str(again), str(caught.exception))
        self.assertEqual([str(problem) for problem in again.problems], [str(problem) for problem in caught.exception.problems])

    def test_a_file_that_is_not_there_is_an_os_error_with_its_name(self):
        with self.assertRaises(FileNotFoundError) as caught:
            fairspan.Scenario(Path("nowhere.toml"))
        self.assertEqual(str(caught.exception.filename), "nowhere.toml")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(OSError):
                fairspan.Scenario(Path(folder))
            Path(folder, "s.toml").write_bytes(b"\xff\xfe")
            with self.assertRaisesRegex(fairspan.InputError, "valid UTF-8"):
                fairspan.Scenario(Path(folder, "s.toml"))

    def test_arguments_of_the_wrong_kind_are_told(self):
        scenario = fairspan.Scenario(WHOLE)
        for call, error, words in [
            (lambda: fairspan.Scenario(7), TypeError, "a text, a path or a dictionary"),
            (lambda: scenario.run([3, 4, 3]), fairspan.InputError, "seed 3 is there twice: the same seed gives the same run"),
            (lambda: scenario.run(-1), fairspan.InputError, "seed -1: write a whole number"),
            (lambda: scenario.run("1"), fairspan.InputError, "seed '1': write a whole number"),
            (lambda: scenario.run([]), fairspan.InputError, "seed: there is none"),
            (lambda: scenario.run(True), fairspan.InputError, "seed True"),
            (lambda: scenario.swept({"link.wire.delay": "1ms"}), fairspan.InputError, "'1ms' is one value; write a list"),
            (lambda: fairspan.Scenario("office.toml"), fairspan.InputError, "write pathlib.Path"),
            (lambda: fairspan.trace.flows([]), fairspan.InputError, "path: there is no capture"),
            (lambda: fairspan.Scenario({"duration": object()}), TypeError, "duration: a scenario holds texts"),
            (lambda: fairspan.Scenario({3: "x"}), TypeError, "the key 3 is no text"),
            (lambda: fairspan.Scenario("\0"), fairspan.ScenarioError, "not TOML"),
            (lambda: fairspan.figure("nothing"), fairspan.InputError, "no figure `nothing`"),
            (lambda: fairspan.sweep(scenario, on="ray", laws={"t": fairspan.Law}), fairspan.InputError, "laws"),
        ]:
            with self.assertRaisesRegex(error, words):
                call()

    def test_a_folder_that_cannot_be_written_is_an_os_error(self):
        results = fairspan.Scenario(WHOLE).run(1)
        with tempfile.NamedTemporaryFile() as file, self.assertRaises((OSError, fairspan.InputError)):
            results.write(file.name)
        if Path("/dev/full").exists():
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "summary.json").symlink_to("/dev/full")
                with self.assertRaisesRegex(OSError, "cannot write .*summary.json.*No space left"):
                    results.write(folder)

    def test_a_panic_is_an_exception_and_the_interpreter_lives(self):

        script = """
            import fairspan, fairspan._native as native
            try:
                native._panic()
            except fairspan.Error as error:
                print(error)
            print(len(fairspan.figures()) > 10)
        """
        if not hasattr(fairspan._native, "_panic"):
            self.skipTest("only a debugging build has a panic to try")
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "this is a mistake in fairspan, please report it: tried\nTrue\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
