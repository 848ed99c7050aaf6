"""Every fault can still be put into the package: `make mutants` tries what the tests make of it."""

from mutants.run import ROOT, read_faults

FAULTS = read_faults()


def test_every_fault_stands_in_the_package_once():
    sources = {fault.file: (ROOT / "spark_rankeval" / fault.file).read_text() for fault in FAULTS}
    for fault in FAULTS:
        assert sources[fault.file].count(fault.text) == 1, fault
        assert fault.becomes != fault.text, fault


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
