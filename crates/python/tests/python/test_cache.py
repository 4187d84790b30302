"""Points that were run are kept, and not run again."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import fairspan
from common import WHOLE
from fairspan import _cache


def counted():
    """The points that are run from here on."""
    points = []
    run = _cache.run

    def counting(scenario, seeds, point, progress=None):
        points.append(point)
        return run(scenario, seeds, point, progress)

    return points, mock.patch.object(_cache, "run", counting)


class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_what_is_kept_is_what_was_run_to_the_last_bit(self):
        fresh = fairspan.Scenario(WHOLE).run().json()
        for _ in range(2):
            self.assertEqual(fairspan.sweep(WHOLE, cache=self.folder.name).json(), fresh)
        self.assertEqual(fairspan.sweep(WHOLE, cache=self.folder.name, jobs=1).json(), fresh)
        self.assertEqual(len(os.listdir(self.folder.name)), 4, "one for each point")

    def test_only_what_is_missing_is_run(self):
        points, patch = counted()
        with patch:
            fairspan.sweep(WHOLE, cache=self.folder.name, seeds=[1])
            self.assertEqual(sorted(points), [0, 1, 2, 3])
            points.clear()
            fairspan.sweep(WHOLE, cache=self.folder.name, seeds=[1])
            self.assertEqual(points, [])
            os.unlink(Path(self.folder.name, sorted(os.listdir(self.folder.name))[0]))
            fairspan.sweep(WHOLE, cache=self.folder.name, seeds=[1])
            self.assertEqual(len(points), 1)

    def test_seeds_settings_texts_and_files_make_another_study(self):
        text = WHOLE.replace('rate = "2Mbit"\ndelay', 'series = "rates.csv"\ndelay')
        text = text[: text.index("[[sweep]]")] + text[text.index("[[expect]]") : text.index("[[plot]]")]
        rates = Path(self.folder.name, "rates.csv")
        path = Path(self.folder.name, "s.toml")
        path.write_text(text)
        rates.write_text("time,wifi\n0,2\n1,1\n")
        kept = Path(self.folder.name, "kept")
        points, patch = counted()

        def study(**how):
            settings = how.pop("settings", {})
            fairspan.sweep(fairspan.Scenario(path, settings=settings), cache=kept, **how)
            return len(points)

        with patch:
            self.assertEqual([study(seeds=1), study(seeds=1)], [1, 1])
            self.assertEqual([study(seeds=2), study(seeds=[1])], [2, 2])
            self.assertEqual(study(seeds=1, settings={"duration": "4s"}), 3)
            rates.write_text("time,wifi\n0,2\n1,3\n")
            self.assertEqual(study(seeds=1), 4)
            path.write_text(text + "\n# the same, said otherwise\n")
            self.assertEqual(study(seeds=1), 5)

    def test_a_damaged_file_is_run_again(self):
        fresh = fairspan.sweep(WHOLE, cache=self.folder.name, seeds=[1]).json()
        for content in [b"", b"{", b"\xff", b"{}", b"[1]"]:
            for name in os.listdir(self.folder.name):
                Path(self.folder.name, name).write_bytes(content)
            self.assertEqual(fairspan.sweep(WHOLE, cache=self.folder.name, seeds=[1]).json(), fresh, content)

    def test_results_of_different_scenarios_are_not_joined(self):
        one, other = (fairspan.Scenario(WHOLE + comment).run(1).json() for comment in ["", "# other"])
        with self.assertRaisesRegex(fairspan.Error, "results of different scenarios"):
            fairspan._native.merge([one, other])

    def test_progress_tells_the_share_of_points(self):
        shares = []
        fairspan.sweep(WHOLE, cache=self.folder.name, progress=shares.append)
        self.assertEqual(shares, [0.25, 0.5, 0.75, 1.0])

    def test_an_address_without_fsspec_is_told(self):
        try:
            import fsspec  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(fairspan.InputError, "needs fsspec"):
                fairspan.sweep(WHOLE, cache="memory://kept")
        else:
            fresh = fairspan.Scenario(WHOLE).run().json()
            points, patch = counted()
            with patch:
                self.assertEqual(fairspan.sweep(WHOLE, cache="memory://kept").json(), fresh)
                self.assertEqual(fairspan.sweep(WHOLE, cache="memory://kept").json(), fresh)
            self.assertEqual(sorted(points), [0, 1, 2, 3])


if __name__ == "__main__":
    unittest.main()
