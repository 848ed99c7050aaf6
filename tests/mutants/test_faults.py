"""Every fault can still be put into the package: `make mutants` tries what the tests make of it."""

from mutants.find import find
from mutants.run import ROOT, read_faults

FAULTS = read_faults()


def test_every_fault_stands_in_its_function_once():
    sources = {fault.file: (ROOT / "spark_rankeval" / fault.file).read_text() for fault in FAULTS}
    for fault in FAULTS:
        assert fault.function, f"{fault.id}: run python -m tests.mutants.find"
        assert len(fault.places(sources[fault.file])) == 1, f"{fault.id}: run python -m tests.mutants.find"
        assert fault.becomes != fault.text, fault


MOVED = """
class Room:
    def share(self, a, b):
        if b:
            return a / b
        return 0

    def other(self, a, b):
        return a / b
"""
LISTED = """# Shares

[[fault]]
id = "a share is upside down"
file = "old.py"
function = "share"
text = '''
    if b:
        return a / b'''
becomes = '''
    if b:
        return b / a'''
tests = []

# Others

[[fault]]
id = "nowhere"
file = "old.py"
function = "share"
text = 'return 1'
becomes = 'return 2'
tests = []
"""


def test_a_fault_is_found_in_another_module_and_indentation(tmp_path, capsys):
    package, listed = tmp_path / "package", tmp_path / "faults.toml"
    package.mkdir()
    (package / "old.py").write_text("from new import share\n")
    (package / "new.py").write_text(MOVED)
    listed.write_text(LISTED)
    assert [fault.id for fault in find(listed, package)] == ["nowhere"]
    moved = LISTED.replace('file = "old.py"\nfunction = "share"', 'file = "new.py"\nfunction = "Room.share"', 1)
    moved = moved.replace("\n    if b:\n        return", "\n        if b:\n            return")
    assert listed.read_text() == moved
    assert capsys.readouterr().out == "a share is upside down: old.py → new.py, Room.share\n"
    assert read_faults(listed)[0].applied(MOVED) == MOVED.replace("a / b", "b / a", 1)


def test_the_tests_that_are_to_notice_it_are_there():
    texts = {}
    for fault in FAULTS:
        assert fault.tests, fault
        for test in fault.tests:
            file, _, name = test.partition("::")
            text = texts.setdefault(file, (ROOT / file).read_text())
            function = name.partition("[")[0].rpartition("::")[2]
            assert not name or f"def {function}(" in text or f"class {function}:" in text, (
                f"{fault.id}: there is no {test}"
            )


def test_faults_are_told_apart_by_their_words():
    words = [fault.id for fault in FAULTS]
    assert sorted(set(words)) == sorted(words)
