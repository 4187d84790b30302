"""Puts many mutants into one file, each behind a switch that is read when the program runs.

cargo-mutants says which changes there are and where. `a + b` becomes `(if on(7) { a - b } else { a + b })`, and a function that
is to return something else begins with `if on(8) { return 0; }`. Only one switch is ever on, so what stands behind one has the
original operands, and changes in changes add up instead of multiplying. Where a guard at an arm of a `match` has a borrow in its way, each
change of an arm gets a copy of the whole `match`.
"""

from dataclasses import dataclass, field

import tree_sitter
import tree_sitter_rust

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
ON = "crate::mutant::on"

# What the copy of the core gets: which mutant is on, or a note of which ones a test passes by.
MODULE = """
#[doc(hidden)]
pub mod mutant {
    use std::{fs, panic, process};
    const UNKNOWN: u32 = u32::MAX;
    const NOTED: u32 = u32::MAX - 1;
    static mut CHOSEN: u32 = UNKNOWN;
    static mut SEEN: [u8; COUNT] = [0; COUNT];

    unsafe extern "C" {
        fn atexit(call: extern "C" fn()) -> i32;
    }
    extern "C" fn write() {
        #[allow(static_mut_refs)]
        let seen = unsafe { &SEEN[..] };
        fs::write(std::env::var("FAIRSPAN_SEEN").unwrap(), seen).unwrap();
    }
    #[cold]
    #[inline(never)]
    fn choose() {
        let noted = std::env::var_os("FAIRSPAN_SEEN").is_some();
        let chosen = std::env::var("FAIRSPAN_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        unsafe { CHOSEN = if noted { NOTED } else { chosen } };
        if noted {
            unsafe { atexit(write) };
        }
        // The first failure is enough. A person who runs the tests without a mutant reads what is wrong.
        if noted || chosen != 0 {
            panic::set_hook(std::boxed::Box::new(|_| process::exit(101)));
        }
    }
    const fn at_build(_: u32) -> bool {
        false
    }
    #[inline(never)]
    fn rarely(n: u32) {
        if unsafe { CHOSEN } == UNKNOWN {
            choose();
        }
        if unsafe { CHOSEN } == NOTED {
            unsafe { SEEN[n as usize] = 1 };
        }
    }
    #[inline(always)]
    fn at_run(n: u32) -> bool {
        if unsafe { CHOSEN } >= NOTED {
            rarely(n);
        }
        unsafe { CHOSEN == n }
    }
    #[inline(always)]
    pub const fn on(n: u32) -> bool {
        core::intrinsics::const_eval_select((n,), at_build, at_run)
    }
    #[derive(Clone)]
    pub enum Either<A, T> {
        Own(A),
        Other(core::option::IntoIter<T>),
    }
    impl<T, A: Iterator<Item = T>> Iterator for Either<A, T> {
        type Item = T;
        fn next(&mut self) -> Option<T> {
            match self {
                Either::Own(own) => own.next(),
                Either::Other(other) => other.next(),
            }
        }
    }
}
"""


@dataclass
class Mutant:
    """A change as cargo-mutants has it; `number` is its switch."""

    number: int
    file: str
    change: str
    genre: str
    replacement: str
    start: int
    end: int
    key: tuple
    in_function: bool


@dataclass
class Edit:
    """Text that is put in before (`opens`) or behind what it belongs to, which reaches from `start` to `end`."""

    at: int
    opens: bool
    start: int
    end: int
    text: str
    # The mutants whose own text it is: an error there is theirs.
    owner: int | None = None


@dataclass
class Switched:
    """A file with its mutants, and which bytes are whose: (start, end, number, whether it is the mutant's own text)."""

    text: bytes
    places: list = field(default_factory=list)
    # Those for which there is no switch, and why.
    without: dict = field(default_factory=dict)
    # Of those that are branches of one `if`: which.
    beside: dict = field(default_factory=dict)


def nodes(root):
    """All nodes below one, by where they begin and what they are."""
    found, open_ = {}, [root]
    while open_:
        node = open_.pop()
        found.setdefault((node.type, node.start_byte), node)
        if node.type in OPERATORS:
            found.setdefault(("operator", node.start_byte), node)
        if node.type == "match_pattern":
            found.setdefault(("guarded", node.end_byte), node)
        if node.type == "function_item" and (body := node.child_by_field_name("body")):
            # What cargo-mutants replaces reaches from the first thing in the body.
            inside = [child for child in body.children[1:] if "comment" not in child.type]
            found.setdefault(("body", inside[0].start_byte), body)
        open_ += node.children
    return found


OPERATORS = set("+ - * / % & | ^ << >> == != < > <= >= && || += -= *= /= %= &= |= ^= <<= >>=".split())


def ancestor(node, *kinds):
    while node is not None and node.type not in kinds:
        node = node.parent
    return node


def with_switches(file, text, mutants, known, copied):
    """A file (below src) with switches for these mutants. `known` are the constants of the folder, `copied` the mutants of arms that
    get a copy of their `match`."""
    tree = PARSER.parse(text)
    found = nodes(tree.root_node)
    switched, groups = Switched(b""), {}
    for mutant in mutants:
        if mutant.file != file:
            continue
        place = placed(found, mutant, mutant.number in copied)
        if place is None:
            # `let` stands in no `||`.
            operator = found.get(("operator", mutant.start))
            chain = operator is not None and operator.parent.type == "let_chain"
            switched.without[mutant.number] = "does not compile" if chain else "no switch"
        else:
            kind, node, other = place
            groups.setdefault((kind, node.start_byte, node.end_byte), []).append((mutant, node, other))
            if kind == "expression":
                switched.beside[mutant.number] = (node.start_byte, node.end_byte)
    edits = []
    for (kind, start, end), members in groups.items():
        edits += {"expression": expression, "function": function, "iterator": iterator, "arm": guard, "constant": constant}[kind](
            text, start, end, members
        )
    left = {mutant.number for mutant in mutants}
    wanted = [Constant(c.file, c.name, c.of, [number for number in c.numbers if number in left]) for c in known]
    edits += uses(text, tree.root_node, file, [constant for constant in wanted if constant.numbers])
    return render(text, edits, switched)


def placed(found, mutant, copied=False):
    """What a mutant's switch goes around: the kind, the node, and what its making needs besides."""
    if mutant.genre == "BinaryOperator":
        node = found.get(("operator", mutant.start))
        whole = node and node.parent
        if whole is None or whole.type not in ("binary_expression", "compound_assignment_expr"):
            return None
        if not mutant.in_function:
            item = ancestor(whole, "const_item")
            return item and ("constant", item, None)
        return "expression", whole, None
    if mutant.genre == "UnaryOperator":
        node = found.get(("unary_expression", mutant.start))
        return node and ("expression", node, None)
    if mutant.genre == "StructField":
        node = found.get(("field_initializer", mutant.start)) or found.get(("shorthand_field_initializer", mutant.start))
        whole = ancestor(node, "struct_expression")
        return whole and ("expression", whole, node)
    if mutant.genre == "FnValue":
        body = found.get(("body", mutant.start))
        returned = body and body.parent.child_by_field_name("return_type")
        if returned is not None and returned.text.startswith(b"impl Iterator"):
            return "iterator", body, None
        return body and ("function", body, None)
    pattern = None
    if mutant.genre == "MatchArm":
        arm = found.get(("match_arm", mutant.start))
        pattern = arm and arm.child_by_field_name("pattern")
    if mutant.genre == "MatchArmGuard":
        pattern = found.get(("guarded", mutant.end))
    if pattern and copied:
        return "expression", ancestor(pattern, "match_expression"), None
    return pattern and ("arm", pattern, None)


def changed(text, start, end, mutant):
    return text[start : mutant.start] + mutant.replacement.encode() + text[mutant.end : end]


def expression(text, start, end, members):
    # A statement gets no parentheses: it ends without a semicolon.
    statement = members[0][1].parent.type == "expression_statement"
    edits, head = [], "" if statement else "("
    for mutant, _, removed in members:
        if removed is None:
            other = changed(text, start, end, mutant)
        else:
            after = mutant.end + (text[mutant.end : mutant.end + 1] == b",")
            other = text[start : mutant.start] + text[after:end]
        edits.append(Edit(start, True, start, end, f"{head}if {ON}({mutant.number}) {{ "))
        edits.append(Edit(start, True, start, end, other.decode() + " ", mutant.number))
        head = "} else "
    edits.append(Edit(start, True, start, end, "} else { "))
    edits.append(Edit(end, False, start, end, " }" if statement else " })"))
    return edits


def function(text, start, end, members):
    edits = []
    for mutant, *_ in members:
        edits.append(Edit(start + 1, True, start, end, f" if {ON}({mutant.number}) {{ "))
        edits.append(Edit(start + 1, True, start, end, f"return {mutant.replacement};", mutant.number))
        edits.append(Edit(start + 1, True, start, end, " } "))
    return edits


def iterator(text, start, end, members):
    """An iterator that nobody names has one type: the function's own, or that of no item or one."""
    edits, head = [], " let other = "
    for mutant, *_ in members:
        other = mutant.replacement.replace("::std::iter::empty()", "None").replace("::std::iter::once", "Some")
        edits.append(Edit(start + 1, True, start, end, f"{head}if {ON}({mutant.number}) {{ Some("))
        edits.append(Edit(start + 1, True, start, end, other, mutant.number))
        head = ") } else "
    tail = ") } else { None }; match other { Some(other) => crate::mutant::Either::Other(other.into_iter()), None => crate::mutant::Either::Own({"
    edits.append(Edit(start + 1, True, start, end, tail))
    edits.append(Edit(end - 1, False, start, end, "}) } "))
    return edits


def guard(text, start, end, members):
    """Switches of one arm: that it is not there, that its guard is true or false."""
    condition = members[0][1].child_by_field_name("condition")
    head, tail = "", ""
    for mutant, *_ in members:
        on = f"{ON}({mutant.number})"
        if mutant.genre == "MatchArm" or mutant.replacement == "false":
            head, tail = head + f"!{on} && (", ")" + tail
        else:
            head, tail = head + f"{on} || (", ")" + tail
    number = members[0][0].number if len(members) == 1 else None
    if condition is None:
        return [Edit(end, False, start, end, f" if {head}true{tail}", number)]
    return [
        Edit(condition.start_byte, True, condition.start_byte, end + 1, head, number),
        Edit(end, False, condition.start_byte - 1, end, tail, number),
    ]


def constant(text, start, end, members):
    """A constant of another name for each change; `uses` chooses among them."""
    edits = []
    for mutant, node, _ in members:
        name = node.child_by_field_name("name")
        other = changed(text, name.end_byte, end, mutant)
        edits.append(Edit(end, False, start, end, f"\npub(crate) const {name.text.decode()}__{mutant.number}"))
        edits.append(Edit(end, False, start, end, other.decode(), mutant.number))
    return edits


@dataclass
class Constant:
    """A constant that has mutants: where it stands, its type if it is one of a type, and their numbers."""

    file: str
    name: bytes
    of: bytes | None
    numbers: list


def constants(file, text, mutants):
    """A file's constants that have mutants and can be named from elsewhere."""
    found = nodes(PARSER.parse(text).root_node)
    all_ = {}
    for mutant in mutants:
        kind, item, _ = placed(found, mutant) or (None, None, None)
        if kind != "constant":
            continue
        above = item.parent.parent
        of = above.child_by_field_name("type").text if above is not None and above.type == "impl_item" else None
        name = item.child_by_field_name("name").text
        if above is None or of is not None and above.child_by_field_name("trait") is None:
            all_.setdefault((name, of), Constant(file, name, of, [])).numbers.append(mutant.number)
    return list(all_.values())


def uses(text, root, file, constants):
    """Switches where a file uses constants of the folder. A file's own come before those of that name that are elsewhere."""
    own = {node.child_by_field_name("name").text for node in root.children if node.type == "const_item"}
    free, typed = {}, {}
    for constant in constants:
        if constant.of is not None:
            typed[constant.of.split(b"<")[0], constant.name] = constant
        elif constant.file == file or constant.name not in own:
            free.setdefault(constant.name, []).append(constant)
    edits, open_ = [], [(root, None)]
    while open_:
        node, of = open_.pop()
        # No switch decides on a type, a pattern or another constant.
        if node.type in ("use_declaration", "const_item", "static_item", "match_pattern", "array_type", "attribute_item", "token_tree"):
            continue
        if node.type == "impl_item":
            of = node.child_by_field_name("type").text.split(b"<")[0]
        if node.type not in ("scoped_identifier", "identifier"):
            open_ += [(child, of) for child in node.children]
            continue
        *path, name = node.text.split(b"::")
        constant = typed.get((of if path and path[-1] == b"Self" else path[-1] if path else None, name))
        whole = node.text.decode()
        if constant is None and len(free.get(name, [])) == 1 and name.isupper():
            constant = free[name][0]
            module = constant.file.removesuffix(".rs").removesuffix("/mod").split("/")
            if path and path[-1].decode() not in (module[-1], "self", "super", "crate"):
                continue
            whole = "::".join(["crate", *module, name.decode()])
        for number in constant.numbers if constant else []:
            edits.append(Edit(node.start_byte, True, node.start_byte, node.end_byte, f"(if {ON}({number}) {{ {whole}__{number} }} else {{ ", number))
            edits.append(Edit(node.end_byte, False, node.start_byte, node.end_byte, " })", number))
    return edits


def render(text, edits, switched):
    """Puts the edits in. At one place, closings come first, the inner ones before the outer, then openings, the outer first."""
    order = sorted(
        enumerate(edits),
        key=lambda pair: (pair[1].at, pair[1].opens, -pair[1].end if pair[1].opens else -pair[1].start, pair[0]),
    )
    out, done = [], 0
    length = 0
    for _, edit in order:
        out.append(text[done : edit.at])
        length += edit.at - done
        done = edit.at
        new = edit.text.encode()
        if edit.owner is not None:
            switched.places.append((length, length + len(new), edit.owner))
        out.append(new)
        length += len(new)
    out.append(text[done:])
    switched.text = b"".join(out)
    return switched
