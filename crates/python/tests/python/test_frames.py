"""Tables as others take them."""

import importlib
import unittest

import fairspan
from common import WHOLE


def needed(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not installed") from None


class Frames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = fairspan.Scenario(WHOLE).run().flows

    def test_pyarrow_takes_a_table_without_a_copy(self):
        arrow = needed("pyarrow")
        taken, again = arrow.table(self.table), arrow.table(self.table)
        self.assertEqual(taken.to_pydict(), self.table.to_dict())
        taken.validate(full=True)
        address = [of["goodput"].chunk(0).buffers()[1].address for of in (taken, again)]
        self.assertEqual(address[0], address[1])
        batch = arrow.record_batch(self.table)
        self.assertEqual(batch["goodput"].buffers()[1].address, address[0])
        self.assertEqual(arrow.schema(self.table), taken.schema)

    def test_pandas_takes_a_table(self):
        pandas = needed("pandas")
        if not hasattr(pandas.DataFrame, "from_arrow"):
            self.skipTest("this pandas takes no Arrow tables of others by itself")
        frame = pandas.DataFrame.from_arrow(self.table)
        self.assertEqual(frame["goodput"].tolist(), self.table["goodput"])

    def test_polars_takes_a_table(self):
        polars = needed("polars")
        frame = polars.DataFrame(self.table)
        self.assertEqual(frame["goodput"].to_list(), self.table["goodput"])
        self.assertEqual(frame.columns, self.table.columns)

    def test_duckdb_takes_a_table(self):
        duckdb = needed("duckdb")
        flows = self.table  # noqa: F841
        found = duckdb.sql("select name, avg(goodput) from flows group by name order by name").fetchall()
        ours = {name: [] for name in ["f", "t"]}
        for name, goodput in zip(self.table["name"], self.table["goodput"]):
            ours[name].append(goodput)
        for name, mean in found:
            self.assertAlmostEqual(mean / (sum(ours[name]) / len(ours[name])), 1)
        self.assertEqual(len(found), 2)


if __name__ == "__main__":
    unittest.main()
