"""Scenarios from texts, files, dictionaries and code."""

import pickle
import tempfile
import unittest
from pathlib import Path

import fairspan
from common import WHOLE, program

TABLES = {
    "title": 'with "quotes", a \\, a \x7f, ä and 🙂',
    "duration": "1s",
    "node": [{"name": ["a", "b"]}],
    "link": [{"name": "wire", "from": "a", "to": "b", "rate": "1Mbit", "delay": "10ms", "queue": None}],
    "flow": [{"name": "f", "from": "a", "to": "b", "kind": "constant", "rate": "500kbit", "size": "500B"}],
}


def built():
    builder = fairspan.build(title=TABLES["title"], duration="1s").node(["a", "b"])
    builder.link("wire", "a", "b", rate="1Mbit", delay="10ms")
    return builder.flow("f", "a", "b", kind="constant", rate="500kbit", size="500B")


class Scenarios(unittest.TestCase):
    def test_a_dictionary_and_code_give_the_same_scenario(self):
        ours = fairspan.Scenario(TABLES)
        self.assertEqual(ours.title, TABLES["title"])
        self.assertEqual(built().scenario().text, ours.text)
        self.assertEqual(built().scenario().run(3).json(), ours.run(3).json())

    def test_the_text_of_a_dictionary_is_one_for_the_command_line(self):
        scenario = built().sweep("link.wire.rate", ["1Mbit", "2Mbit"]).expect("flow.f.goodput", least="0.4Mbit").scenario()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "scenario.toml").write_text(scenario.text)
            _, printed, errors = program("sim", "scenario.toml", "--json", folder=folder)
            self.assertEqual(scenario.run().json() + "\n", printed, errors)

    def test_a_sweep_from_outside_is_one_in_the_file(self):
        swept = fairspan.sweep(built().scenario(), {"link.wire.rate": ["1Mbit", "2Mbit"], "flow.f.rate": ["0.5Mbit"]}, seeds=[1, 2])
        there = built().sweep("link.wire.rate", ["1Mbit", "2Mbit"]).sweep("flow.f.rate", ["0.5Mbit"]).scenario().run([1, 2])
        self.assertEqual(swept.flows.to_dict(), there.flows.to_dict())
        self.assertEqual(len(swept), 4)

    def test_files_are_looked_for_beside_the_scenario_and_travel_with_it(self):
        text = WHOLE.replace('rate = "2Mbit"\ndelay', 'series = "rates.csv"\ndelay').replace("[[sweep]]\nparameter = \"link.wire.rate\"\nvalues = [\"1Mbit\", \"2Mbit\"]", "")
        text = text.replace('[[plot]]\nx = "link.wire.rate"\ny = "flow.t.goodput"', "")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "rates.csv").write_text("time,wifi\n0,2\n1,1\n2,3\n")
            Path(folder, "s.toml").write_text(text)
            scenario = fairspan.Scenario(Path(folder, "s.toml"))
            ours = scenario.run(1).json()
            sent = pickle.dumps(scenario)
        again = pickle.loads(sent)
        self.assertEqual(again.run(1).json(), ours)

    def test_results_travel_as_their_document(self):
        results = built().scenario().run(1)
        self.assertEqual(pickle.loads(pickle.dumps(results)).json(), results.json())

    def test_numbers_and_arrays_of_others_are_written_as_numbers(self):
        class Float(float):
            def __repr__(self):
                return f"np.float64({float(self)})"

        class Array:
            def tolist(self):
                return [0.0, 0.25]

        text = fairspan._scenario._toml.text({"a": Float(0.5), "b": Array(), "c": [Float(1e-7)], "d": True})
        self.assertEqual(text, "a = 0.5\nb = [0.0, 0.25]\nc = [1e-07]\nd = true\n")
        swept = built().scenario().swept({"link.wire.loss": [Float(0), Float(0.1)]})
        self.assertEqual(swept.points, 2)
        with self.assertRaisesRegex(TypeError, "a: a scenario holds texts"):
            fairspan._scenario._toml.text({"a": b"bytes"})

    def test_a_file_that_changes_later_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "rates.csv").write_text("time,wifi\n0,2\n1,1\n2,3\n")
            text = built().scenario().text.replace('rate = "1Mbit"\ndelay', 'series = "rates.csv"\ndelay')
            Path(folder, "s.toml").write_text(text)
            scenario = fairspan.Scenario(Path(folder, "s.toml"))
            before = scenario.run(1).json()
            Path(folder, "rates.csv").write_text("time,wifi\n0,0.1\n")
            kept = Path(folder, "kept")
            self.assertEqual(fairspan.sweep(scenario, seeds=1, cache=kept).json(), before)
            fresh = fairspan.Scenario(Path(folder, "s.toml"))
            self.assertNotEqual(fairspan.sweep(fresh, seeds=1, cache=kept).flows.to_dict(), scenario.run(1).flows.to_dict())
        twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(scenario))))
        self.assertEqual(twice.run(1).json(), before)
        self.assertEqual(twice.swept({"flow.f.rate": ["0.1Mbit", "0.2Mbit"]}).points, 2)

    def test_a_figure_is_that_of_the_command_line(self):
        self.assertIn("cross-check.cbr-line", fairspan.figures())
        with self.assertRaisesRegex(fairspan.InputError, "begins several figures"):
            fairspan.figure("striping")


if __name__ == "__main__":
    unittest.main()
