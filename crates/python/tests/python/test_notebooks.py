"""The notebooks of examples/notebooks run from top to bottom."""

import json
import tempfile
import unittest
from pathlib import Path

from common import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


class Notebooks(unittest.TestCase):
    def test_there_are_three_and_their_outputs_are_not_kept(self):
        self.assertEqual(len(NOTEBOOKS), 3)
        for path in NOTEBOOKS:
            cells = json.loads(path.read_text())["cells"]
            self.assertFalse([cell for cell in cells if cell.get("outputs") or cell.get("execution_count")], path.name)

    def test_their_code_runs(self):
        # Without a notebook's machinery: what a cell asserts holds, and nothing is asked of what draws.
        for path in NOTEBOOKS:
            names = {}
            for cell in json.loads(path.read_text())["cells"]:
                if cell["cell_type"] == "code":
                    with self.subTest(path.name, cell=cell["source"][:1]):
                        exec(compile("".join(cell["source"]), path.name, "exec"), names)

    def test_they_run_in_a_notebook_s_kernel(self):
        try:
            import ipykernel  # noqa: F401
            import nbformat
            from nbclient import NotebookClient
        except ImportError:
            self.skipTest("nbclient and ipykernel are not installed")
        for path in NOTEBOOKS:
            with self.subTest(path.name), tempfile.TemporaryDirectory() as folder:
                notebook = nbformat.read(path, as_version=4)
                NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
                shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
                self.assertTrue(any("text/html" in output.get("data", {}) for output in shown))


if __name__ == "__main__":
    unittest.main()
