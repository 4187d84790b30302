"""Captures and rings."""

import json
import os
import struct
import tempfile
import unittest
import warnings
from pathlib import Path

import fairspan
from common import ROOT, program

RING = {
    "nodes": 5,
    "capacity": 10,
    "weights": {"2": 2.0},
    "flows": [{"from": 1, "to": 4}, {"from": 2, "to": 4}, {"from": 3, "to": 4, "demand": 1.5}, {"from": 3, "to": 5}],
}


def capture(packets):
    """A pcap of UDP packets over IPv4: (seconds, last byte of the source's address)."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for seconds, source in packets:
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, 17, 0, bytes([10, 0, 0, source]), bytes([10, 0, 1, 1]))
        packet = ip + struct.pack(">HHHH", 1000 + source, 53, 8, 0)
        out += struct.pack("<IIII", int(seconds), int(seconds % 1 * 1e6), len(packet), len(packet)) + packet
    return out


class Others(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_fair_rates_are_those_of_the_command_line(self):
        Path(self.folder, "ring.json").write_text(json.dumps(RING))
        status, printed, errors = program("ring", "rias", "ring.json", "--compare", "--json", folder=self.folder)
        self.assertEqual(status, 0, errors)
        theirs = json.loads(printed)
        for problem in [RING, json.dumps(RING), Path(self.folder, "ring.json")]:
            table = fairspan.ring.rias(problem, compare=True)
            self.assertEqual(table["rate"], theirs["rates"])
            self.assertEqual(table["max_min"], theirs["max_min"])
            self.assertEqual(table["proportional"], theirs["proportional"])
        self.assertEqual(table["to"], [4, 4, 4, 5])

    def test_what_is_no_ring_is_refused_in_the_words_of_the_command_line(self):
        for wrong in [
            {**RING, "nodes": 1},
            {**RING, "speed": 3},
            {**RING, "flows": [{"from": 1, "to": 9}]},
            {**RING, "weights": {"2": -1}},
            {**RING, "interval_us": -1},
            {**RING, "capacity": 0},
            [],
        ]:
            Path(self.folder, "ring.json").write_text(json.dumps(wrong))
            status, _, errors = program("ring", "rias", "ring.json", folder=self.folder)
            self.assertEqual(status, 2, wrong)
            before = os.getcwd()
            os.chdir(self.folder)
            try:
                with self.assertRaises(fairspan.InputError) as caught:
                    fairspan.ring.rias(Path("ring.json"))
            finally:
                os.chdir(before)
            self.assertEqual(f"fairspan: {caught.exception}\n", errors)

    def test_flows_are_those_of_the_command_line(self):
        packets = [(second / 2, second % 7) for second in range(200)] + [(200, 1), (203, 1), (209, 1)]
        Path(self.folder, "one.pcap").write_bytes(capture(packets))
        Path(self.folder, "two.pcap").write_bytes(capture([(second, 200) for second in range(100)]))
        arguments = ["--definition", "five-tuple,source,prefix/24", "--timeout", "2,500ms,none", "--seed", "3", "--table-size", "16"]
        status, printed, errors = program("trace", "flows", "one.pcap", "two.pcap", "--json", *arguments, folder=self.folder)
        self.assertEqual(status, 0, errors)
        theirs = json.loads(printed)
        flows = fairspan.trace.flows(
            [Path(self.folder, "one.pcap"), str(Path(self.folder, "two.pcap"))],
            definitions=["five-tuple", "source", "prefix/24"],
            timeouts=[2, "500ms", None],
            seed=3,
            table_size=16,
        )
        self.assertEqual((flows.packets, flows.classified), (theirs["packets"], theirs["classified"]))
        self.assertEqual(flows.skipped, theirs["skipped"])
        self.assertEqual(flows.table.rows(), theirs["results"])
        self.assertGreater(max(flows.table["flows"]), 100)

    def test_a_capture_that_is_cut_is_a_warning_and_what_is_none_an_error(self):
        whole = capture([(second, 1) for second in range(10)])
        cut, none = Path(self.folder, "cut.pcap"), Path(self.folder, "none.pcap")
        cut.write_bytes(whole[:-5])
        none.write_bytes(b"nothing of that kind" * 100)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            flows = fairspan.trace.flows(cut)
        self.assertEqual(flows.packets, 9 if flows.packets == 9 else 10)
        self.assertEqual(len(told), 1)
        self.assertIn("cut.pcap", str(told[0].message))
        for path in [none, self.folder, Path(self.folder, "nowhere.pcap")]:
            with self.assertRaisesRegex(fairspan.InputError, path.name):
                fairspan.trace.flows(path)

    def test_wrong_options_are_told(self):
        path = Path(self.folder, "one.pcap")
        path.write_bytes(capture([(1, 1)]))
        for options, words in [
            ({"definitions": ["six-tuple"]}, "definition six-tuple"),
            ({"timeouts": ["soon"]}, "timeout soon: .* or `none`"),
            ({"timeouts": [0]}, "timeout 0: .* gateway"),
            ({"headers": "all"}, "write plain, outer or inner"),
            ({"table_size": 0}, "table_size 0: write a number from 1"),
            ({"format": "doc"}, "format doc: no format of captures"),
        ]:
            with self.assertRaisesRegex(fairspan.InputError, words):
                fairspan.trace.flows(path, **options)


if __name__ == "__main__":
    unittest.main()
