"""Finds the mutants that do not compile, by what the compiler says of all of them at once.

An error that stands in a mutant's own text is that mutant's. One that does not is of the switch: it goes to the mutants beside it in the
same function. An error hides others: of a later phase of the compiler, or further on in the same expression. So this takes a few rounds.
"""

import re

from copying import CORE
from switched import PARSER, ancestor

# A borrow that another branch has in its way says nothing of the mutant alone.
OF_THE_SWITCH = re.compile(r"E0(38[123]|49\d|50\d|51\d|59[67]|71[26])")


class Blame:
    """Which mutants are not in the build, and why; and which get a copy of their `match` instead of a guard."""

    def __init__(self, mutants):
        self.arms = {mutant.number for mutant in mutants if mutant.genre.startswith("MatchArm")}
        self.dropped, self.copied = {}, set()
        # Branches of one `if` have one type: an error of one may be told of another. These are tried again without it.
        self.doubtful, self.tried = set(), set()

    def on(self, errors, out):
        """Takes these errors into account. `out` are the files, with their switches. False if nothing comes of it."""
        before = len(self.dropped) + len(self.copied)
        self.parsed, self.guarded = {}, self.arms - self.copied
        own = {}
        for why, _, spans in errors:
            self.one(why, [(span, file) for span in spans if (file := span["file_name"].removeprefix(f"{CORE}/src/")) in out], out, own)
        for beside in own.values():
            if len(beside) > 1:
                self.doubtful |= beside
        return len(self.dropped) + len(self.copied) > before

    def one(self, why, spans, out, own):
        of_the_switch = bool(OF_THE_SWITCH.match(why or ""))
        for primary in (True, False):
            for span, file in spans:
                if span["is_primary"] is not primary:
                    continue
                begin, end = span["byte_start"], span["byte_end"]
                numbers = [number for s, e, number in out[file].places if s <= begin and end <= e]
                if numbers:
                    self.take_out(numbers[0], of_the_switch or not primary)
                    if (place := out[file].beside.get(numbers[0])) is not None:
                        own.setdefault((file, place), set()).add(numbers[0])
                    return
        for span, file in spans:
            near = self.near(span, file, out)
            if not near:
                continue
            # A guard comes between a borrow in one arm and the next arm, and an arm with a guard makes no `match` whole.
            if (of_the_switch or why == "E0004") and near & self.guarded:
                self.copied |= near & self.guarded
            else:
                for number in near:
                    self.take_out(number, True)
            return

    def near(self, span, file, out):
        """The mutants that stand inside a span; if none does, those in its function."""
        begin, end = span["byte_start"], span["byte_end"]
        inside = {number for s, e, number in out[file].places if begin <= s and e <= end}
        if inside:
            return inside
        if file not in self.parsed:
            self.parsed[file] = PARSER.parse(out[file].text)
        around = ancestor(self.parsed[file].root_node.descendant_for_byte_range(begin, end), "function_item")
        return {number for s, e, number in out[file].places if around and around.start_byte <= s and e <= around.end_byte}

    def take_out(self, number, of_the_switch):
        if of_the_switch and number in self.guarded:
            self.copied.add(number)
        else:
            self.dropped[number] = "no switch" if of_the_switch else "does not compile"

    def again(self):
        """Puts those back, once, that may have been taken out for the error of another. False if there are none."""
        back = {number for number in self.doubtful - self.tried if number in self.dropped}
        self.tried |= back
        for number in back:
            del self.dropped[number]
        return bool(back)
