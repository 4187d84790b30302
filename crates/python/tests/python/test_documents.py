"""Examples run, hints say what is there, and everything is told of in docs/python.md."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
import unittest
from pathlib import Path

import fairspan
from common import ROOT

MODULES = ["fairspan"] + [
    f"fairspan.{name}" for name in ["_build", "_law", "_results", "_scenario", "_sweep", "_cache", "_progress", "_toml", "ring", "trace"]
]


class Documents(unittest.TestCase):
    def test_the_examples_of_the_docstrings_run(self):
        tried = 0
        for name in MODULES:
            result = doctest.testmod(importlib.import_module(name))
            self.assertEqual(result.failed, 0, name)
            tried += result.attempted
        runner = doctest.DocTestRunner()
        parser = doctest.DocTestParser()
        runner.run(parser.get_doctest(fairspan.Table.__doc__, {}, "Table", None, 0))
        self.assertEqual(runner.failures, 0)
        self.assertGreater(tried, 20)

    def test_the_examples_of_the_page_run(self):
        page = ROOT / "docs" / "python.md"
        result = doctest.testfile(str(page), module_relative=False)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 10)

    def test_the_page_tells_of_everything(self):
        page = (ROOT / "docs" / "python.md").read_text()
        missing = [name for name in fairspan.__all__ if name not in page]
        for of in [fairspan.Results, fairspan.Scenario, fairspan.Table]:
            missing += [name for name in dir(of) if not name.startswith("_") and f"`{name}" not in page and f".{name}" not in page]
        self.assertEqual(missing, [])

    def test_every_public_thing_has_a_docstring(self):
        for name in fairspan.__all__:
            thing = getattr(fairspan, name)
            if isinstance(thing, str):
                continue
            self.assertTrue(inspect.getdoc(thing), name)
            members = vars(thing).items() if inspect.isclass(thing) and thing.__module__ != "builtins" else []
            for member, value in members:
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    self.assertTrue(inspect.getdoc(value), f"{name}.{member}")

    def test_the_hints_of_the_module_name_what_it_has(self):
        hints = ast.parse((Path(fairspan.__file__).parent / "_native.pyi").read_text())
        told = {}
        for node in hints.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                told[node.name] = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            elif isinstance(node, ast.FunctionDef):
                told[node.name] = set()
        there = {name for name in dir(fairspan._native) if not name.startswith("_")}
        self.assertEqual(set(told), there)
        for name, members in told.items():
            thing = getattr(fairspan._native, name)
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                own = {member for member in vars(thing) if not member.startswith("__")}
                self.assertEqual({member for member in members if not member.startswith("__")}, own, name)

    def test_mypy_finds_nothing(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        package = ROOT / "crates" / "python" / "python" / "fairspan"
        command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir=/dev/null", str(package)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
