"""Results are those of the command line, and tables those of the results."""

import ctypes
import json
import os
import tempfile
import unittest
from pathlib import Path

import fairspan
from common import ROOT, WHOLE, program


class Stream(ctypes.Structure):
    _fields_ = [
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


class Array(ctypes.Structure):
    pass


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ("private_data", ctypes.c_void_p),
]


def pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def exported(table):
    """The structures of a table's columns, as another library would see them. What it holds on to comes with them."""
    capsule = table.__arrow_c_stream__()
    stream = Stream.from_address(pointer(capsule, b"arrow_array_stream"))
    batch = Array()
    if stream.get_next(ctypes.addressof(stream), ctypes.addressof(batch)):
        raise AssertionError("no batch")
    return batch, [batch.children[place].contents for place in range(batch.n_children)]


class Results(unittest.TestCase):
    def test_the_document_is_what_the_command_line_prints_byte_for_byte(self):
        for name in ["bond", "cbr-line", "dumbbell", "http", "lossy", "ring", "two-hosts"]:
            path = Path("scenarios/smoke", f"{name}.toml")
            with self.subTest(name):
                status, printed, errors = program("sim", path, "--json", folder=ROOT)
                self.assertIn(status, (0, 1), errors)
                before = os.getcwd()
                os.chdir(ROOT)
                try:
                    results = fairspan.Scenario(path).run()
                finally:
                    os.chdir(before)
                self.assertEqual(results.json() + "\n", printed)

    def test_sweeps_seeds_and_settings_are_those_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "s.toml").write_text(WHOLE)
            arguments = ["--seed", "4", "--seed", "9", "--set", "link.wire.delay=7ms", "--set", "flow.f.rate=0.5Mbit"]
            _, printed, errors = program("sim", "s.toml", "--json", *arguments, folder=folder)
            self.assertEqual(errors, "")
            settings = {"link.wire.delay": "7ms", "flow.f.rate": "0.5Mbit"}
            before = os.getcwd()
            os.chdir(folder)
            try:
                results = fairspan.Scenario(Path("s.toml"), settings=settings).run([4, 9])
                report = Path(folder, "out")
                results.write(report)
                program("sim", "s.toml", "--out", "theirs", *arguments, folder=folder)
            finally:
                os.chdir(before)
            self.assertEqual(results.json() + "\n", printed)
            self.assertEqual(len(results), 8)
            _, shown, _ = program("sim", "s.toml", *arguments, folder=folder)
            self.assertEqual(results.summary(), shown)
            theirs = {path.name: path.read_bytes() for path in Path(folder, "theirs").iterdir()}
            self.assertEqual({path.name: path.read_bytes() for path in report.iterdir()}, theirs)
            self.assertIn(results.plots()[0], results.report())

    def test_tables_have_the_numbers_of_the_document(self):
        results = fairspan.Scenario(WHOLE).run()
        document = json.loads(results.json())
        flows = [(run, flow) for run in document["runs"] for flow in run["flows"]]
        table = results.flows
        self.assertEqual(len(table), 24)
        self.assertEqual(table.columns[:6], ["run", "point", "seed", "link.wire.loss", "link.wire.rate", "name"])
        for column, of in [
            ("seed", lambda run, flow: run["seed"]),
            ("name", lambda run, flow: flow["name"]),
            ("sent", lambda run, flow: flow["sent"]),
            ("goodput", lambda run, flow: flow["goodput"]),
            ("delay_mean", lambda run, flow: flow["delay"]["mean"]),
            ("delay_p99_9", lambda run, flow: (flow["delay"]["percentiles"] or {}).get("p99.9")),
            ("tcp_timeouts", lambda run, flow: (flow["tcp"] or {}).get("timeouts")),
        ]:
            self.assertEqual(table[column], [of(run, flow) for run, flow in flows], column)
        self.assertEqual(set(table["link.wire.loss"]), {0.0, 0.01})
        drops = [dropped["packets"] for run in document["runs"] for dropped in run["conservation"]["dropped"]]
        self.assertEqual(results.drops["packets"], drops)
        self.assertEqual(results.estimates["mean"], [one["mean"] for one in document["estimates"]])
        self.assertEqual(results.expectations["ours"], [one["ours"] for one in document["expectations"]])
        self.assertIs(results.holds, True)
        self.assertEqual(results.planned, 12)

    def test_series_are_columns_with_units(self):
        results = fairspan.Scenario(WHOLE.replace("[metrics]", '[metrics]\nseries = "100ms"')).run(1)
        run = json.loads(results.json())["runs"][0]
        table = results.series(0)
        self.assertEqual(table.columns, ["time"] + [series["name"] for series in run["series"]])
        for series in run["series"]:
            self.assertEqual(table[series["name"]], series["values"])
            self.assertEqual(table.units[series["name"]], series["unit"])
        self.assertAlmostEqual(table["time"][0], 0.1)
        with self.assertRaisesRegex(IndexError, "run 99; there are 4 runs"):
            results.series(99)

    def test_columns_are_handed_over_where_they_are(self):
        table = fairspan.Scenario(WHOLE).run(1).flows
        place = table.columns.index("goodput")
        (_, first), (_, second) = kept = exported(table), exported(table)
        column = first[place]
        self.assertEqual((column.length, column.null_count), (8, 0))
        values = ctypes.cast(column.buffers[1], ctypes.POINTER(ctypes.c_double))
        self.assertEqual([values[row] for row in range(8)], table["goodput"])
        self.assertEqual(column.buffers[1], second[place].buffers[1], "the same memory, twice")
        del table
        self.assertEqual([values[row] for row in range(8)][0] > 0, True, "it lives as long as whoever has it")
        for batch, _ in kept:
            batch.release(ctypes.addressof(batch))

    def test_capsules_that_nobody_takes_are_given_back(self):
        table = fairspan.Scenario(WHOLE).run(1).flows
        for _ in range(1000):
            table.__arrow_c_stream__()
            table.__arrow_c_array__()
            table.__arrow_c_schema__()
        with open("/proc/self/statm") as file:
            before = int(file.read().split()[1])
        for _ in range(1000):
            table.__arrow_c_stream__()
            table.__arrow_c_array__()
            table.__arrow_c_schema__()
        with open("/proc/self/statm") as file:
            self.assertLess(int(file.read().split()[1]) - before, 500, "pages")

    def test_what_is_read_again_is_what_was_written(self):
        results = fairspan.Scenario(WHOLE).run()
        again = fairspan.Results.from_json(results.json())
        self.assertEqual(again.json(), results.json())
        self.assertEqual(again.flows.to_dict(), results.flows.to_dict())
        with self.assertRaisesRegex(fairspan.Error, "needs the runs themselves"):
            again.plots()
        with self.assertRaises(fairspan.Error):
            fairspan.Results.from_json("{]")

    def test_a_table_that_is_not_there_is_told_with_what_is(self):
        results = fairspan.Scenario(WHOLE).run(1)
        with self.assertRaisesRegex(KeyError, "did you mean `flows`"):
            results.table("flosw")
        with self.assertRaisesRegex(KeyError, "no column `godput`"):
            results.flows["godput"]
        self.assertEqual(len(results.rings), 0)
        self.assertIn("goodput", results.flows)
        self.assertEqual(list(results.links)[:3], ["run", "point", "seed"])

    def test_a_table_without_rows_has_its_columns(self):
        results = fairspan.Scenario(WHOLE).run(1)
        for name in ["rings", "limits", "ring_events", "splits", "bonds", "transfers", "classes"]:
            table = results.table(name)
            self.assertEqual(len(table), 0, name)
            self.assertEqual(table.columns[:5], ["run", "point", "seed", "link.wire.loss", "link.wire.rate"])
            self.assertGreater(len(table.columns), 5)
            self.assertEqual(table[table.columns[-1]], [])
            table.__arrow_c_array__()

    def test_a_notebook_shows_tables_and_plots(self):
        results = fairspan.Scenario(WHOLE).run()
        self.assertIn("<svg", results._repr_html_())
        self.assertIn("<th>goodput</th>", results.flows._repr_html_())
        self.assertIn("4 more rows", repr(results.flows))


if __name__ == "__main__":
    unittest.main()
