"""A law of congestion control as a Python class."""

import unittest

import fairspan


def scenario(flows=("f",), **keys):
    builder = fairspan.build(duration="20s", warm_up="2s", **keys).node(["a", "b"])
    builder.link("wire", "a", "b", rate="10Mbit", delay="20ms", queue="60 packets")
    for flow in flows:
        builder.flow(flow, "a", "b", kind="ftp")
    return builder.scenario()


class Reno(fairspan.Law):
    """Slow start and additive increase, halved at a loss: enough of Reno to fill a link."""

    def on_acked(self, acked):
        if acked.recovering or acked.bytes == 0:
            return
        if self.threshold is None or self.window < self.threshold:
            self.window += acked.bytes
        else:
            self.window += self.segment * acked.bytes / self.window

    def on_lost(self, lost):
        if lost.begins:
            self.threshold = max(lost.in_flight / 2, 2 * self.segment)
            self.window = self.threshold

    def on_timeout(self, timeout):
        self.on_lost(timeout)
        self.window = self.segment

    def on_recovery(self, window):
        self.window = window


class Fixed(fairspan.Law):
    def __init__(self, segment, initial_window):
        super().__init__(segment, initial_window)
        self.window = 36 * segment


class Half(fairspan.Law):
    """Paces at 5 Mbit/s."""

    def __init__(self, segment, initial_window):
        super().__init__(segment, initial_window)
        self.window = 100 * segment
        self.pacing_rate = 5e6


class Laws(unittest.TestCase):
    def test_a_reno_of_one_s_own_fills_the_link_as_ours_does(self):
        ours = scenario().run(1).flows
        own = scenario().run(1, laws={"f": Reno}).flows
        self.assertGreater(own["goodput"][0], 0.95 * ours["goodput"][0])
        self.assertNotEqual(own["sent"], ours["sent"], "it is another law")

    def test_a_fixed_window_leaves_the_queue_short(self):
        ours, own = scenario().run(1).links, scenario().run(1, laws={"*": Fixed}).links
        self.assertGreater(own["load"][0], 0.95)
        self.assertLess(own["queue_mean"][0], ours["queue_mean"][0] / 3)

    def test_laws_go_by_the_names_of_flows(self):
        half = scenario(("f1", "f2", "g"))
        same = half.run(1, laws={"f*": Fixed}).json()
        self.assertEqual(same, half.run(1, laws={"f1": Fixed, "f2": Fixed}).json())
        self.assertNotEqual(same, half.run(1, laws={"g": Fixed}).json())
        with self.assertRaisesRegex(fairspan.InputError, "no flow `h`; there are f1, f2, g"):
            half.run(laws={"h": Fixed})

    def test_the_same_seed_gives_the_same_bits_on_one_core_and_on_all(self):
        swept = scenario(seeds=[1, 2, 3])
        self.assertEqual(swept.run(laws={"f": Reno}).json(), swept.run(laws={"f": Reno}, jobs=1).json())

    def test_a_world_in_parts_runs_laws_too(self):
        parted = scenario(partitions=2)
        results = parted.run(1, laws={"f": Reno})
        self.assertEqual(results.to_dict()["runs"][0]["partitions"]["parts"], 2)
        self.assertEqual(results.json(), parted.run(1, laws={"f": Reno}, jobs=1).json())
        self.assertGreater(results.flows["goodput"][0], 9e6)

    def test_an_exception_of_a_law_ends_the_run(self):
        class Wrong(fairspan.Law):
            def on_acked(self, acked):
                raise ZeroDivisionError("mine")

        class Text(fairspan.Law):
            def on_acked(self, acked):
                self.window = "wide"

        class Less(fairspan.Law):
            def on_acked(self, acked):
                self.window = -1

        class Rate(fairspan.Law):
            def on_acked(self, acked):
                self.pacing_rate = -5

        class No:
            def __init__(self, segment):
                pass

        long = scenario(("f", "g"), seeds=[1, 2])
        for law, error, words in [
            (Wrong, ZeroDivisionError, "mine"),
            (Text, TypeError, "window is 'wide'; a law's window is a number of bytes"),
            (Less, ValueError, "window is -1; a law's window"),
            (Rate, ValueError, "pacing_rate is -5; a law's pacing_rate"),
            (No, TypeError, ""),
        ]:
            with self.assertRaisesRegex(error, words):
                long.run(laws={"*": law})
            self.assertEqual(len(long.run(1)), 1, "and the next one goes on")

    def test_a_law_without_bounds_takes_over_what_recovery_says(self):
        class Open(fairspan.Law):
            def __init__(self, segment, initial_window):
                super().__init__(segment, initial_window)
                self.window = None

            def on_recovery(self, window):
                told.append(window)
                self.window = window

        told = []
        builder = fairspan.build(duration="5s").node(["a", "b"])
        builder.link("wire", "a", "b", rate="10Mbit", delay="20ms", queue="60 packets", loss="1%")
        for preset in ["rfc", "linux", "ns2-1999"]:
            builder.flow(preset, "a", "b", kind="ftp", tcp=preset)
        lossy = builder.scenario()
        flows = lossy.run(1, laws={"*": Open}).flows
        self.assertTrue(all(goodput > 1e5 for goodput in flows["goodput"]), flows["goodput"])
        self.assertTrue(told and max(told) <= 1 << 61)

    def test_only_tcp_has_a_law(self):
        builder = fairspan.build(duration="1s").node(["a", "b"]).link("wire", "a", "b", rate="1Mbit", delay="1ms")
        builder.flow("f", "a", "b", kind="constant", rate="500kbit", size="500B")
        with self.assertRaisesRegex(fairspan.InputError, "`f` is no TCP flow"):
            builder.scenario().run(laws={"f": Reno})


if __name__ == "__main__":
    unittest.main()
